"""Named SQL: each engine keeps its statements in ``queries/*.sql``, one sentence of why above each.

A statement starts at a line ``-- name: claim`` and ends at the next such line.
"""

from __future__ import annotations

from importlib.resources import files
from types import SimpleNamespace

__all__ = ["load_migrations", "load_queries", "query_names"]

_MARK = "-- name: "


def load_queries(package: str) -> SimpleNamespace:
    """Every named statement of the package's ``queries`` folder as an attribute."""
    return SimpleNamespace(**_read(package))


def query_names(package: str) -> list[str]:
    """The names in the order they are written, file by file."""
    return list(_read(package))


def load_migrations(package: str) -> list[tuple[int, str, str]]:
    """The numbered migrations of a package: (number, name, script), in order."""
    found = []
    for file in files(package).joinpath("migrations").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append((int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found)


def _read(package: str) -> dict[str, str]:
    statements: dict[str, str] = {}
    folder = files(package).joinpath("queries")
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        name, lines = "", list[str]()
        for line in [*file.read_text(encoding="utf-8").splitlines(), _MARK]:
            if not line.startswith(_MARK):
                lines.append(line)
                continue
            if name:
                if name in statements:
                    raise ValueError(f"{package}: the statement {name!r} is defined twice, again in {file.name}")
                statements[name] = "\n".join(lines).strip().rstrip(";")
            name, lines = line.removeprefix(_MARK).strip(), []
    return statements
