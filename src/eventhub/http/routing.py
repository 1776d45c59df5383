"""From a path to what answers it: one look in a table, whatever the number of routes.

The parameters of a path are taken from it as it was sent, and decoded after it was taken apart: an ordering key may
contain a slash, which is ``%2F`` in the path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from eventhub.http.endpoint import Endpoint

__all__ = ["Routes"]

MAY_BE_EMPTY: Final = frozenset({"key"})


class Routes:
    """Endpoints by path; a path without parameters goes before one with them, as ``/events/batch`` is no event's id."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._fixed = {path: endpoint for path, endpoint in endpoints.items() if "{" not in path}
        self._places: dict[int, set[tuple[int, ...]]] = {}
        self._with_parameters: dict[tuple[str | None, ...], tuple[Endpoint, tuple[str, ...]]] = {}
        for path, endpoint in endpoints.items():
            if "{" in path:
                self._add(path.split("/"), endpoint)

    def _add(self, parts: list[str], endpoint: Endpoint) -> None:
        places = tuple(place for place, part in enumerate(parts) if part.startswith("{"))
        names = tuple(parts[place][1:-1] for place in places)
        self._places.setdefault(len(parts), set()).add(places)
        self._with_parameters[_shape(parts, places)] = endpoint, names

    def find(self, scope: Any) -> Endpoint | None:
        """The endpoint of a request; the parameters of its path are put into the scope."""
        path: str = scope["path"]
        found = self._fixed.get(path)
        if found is not None:
            return found
        parts = path.split("/") if b"%" not in scope["raw_path"] else _decoded(scope["raw_path"])
        for places in self._places.get(len(parts), ()):
            matched = self._with_parameters.get(_shape(parts, places))
            if matched is not None:
                endpoint, names = matched
                given = {name: parts[place] for name, place in zip(names, places, strict=True)}
                if all(given.values()) or all(given[name] for name in names if name not in MAY_BE_EMPTY):
                    scope["path_params"] = given
                    return endpoint
        return None


def _shape(parts: list[str], places: tuple[int, ...]) -> tuple[str | None, ...]:
    """The path with holes where its parameters are."""
    shape: list[str | None] = [*parts]
    for place in places:
        shape[place] = None
    return tuple(shape)


def _decoded(raw: bytes) -> list[str]:
    """The parts of a path; one that is not UTF-8 is no path of ours."""
    try:
        return [unquote(part, errors="strict") for part in raw.decode("ascii").split("/")]
    except UnicodeDecodeError:
        return []
