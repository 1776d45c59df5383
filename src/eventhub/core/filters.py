"""Filters on events: conditions on paths that must all hold.

    {"payload.customer.country": "NO",                  equal; a boolean is no number, 1 and 1.0 are one number
     "payload.total": {"gte": 100, "lt": 1000},         every test must hold; numbers with numbers, texts with texts
     "payload.status": {"in": ["paid", "sent"]},
     "payload.coupon": {"exists": false},
     "metadata.region": {"prefix": "eu-"}}

What a path does not lead to fails every test but ``ne`` and ``{"exists": false}``. A filter is compiled once, when it
is parsed; matching makes no objects.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

import msgspec

from eventhub.core.paths import MISSING, Path
from eventhub.errors import InvalidSubscriberError

__all__ = ["MOST_CONDITIONS", "MOST_VALUES", "Filter"]

MOST_CONDITIONS: Final = 32
MOST_VALUES: Final = 100
_OPERATORS: Final = "eq, ne, in, prefix, exists, gt, gte, lt or lte"
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}

Test = Callable[[Any], bool]


class Filter(msgspec.Struct, frozen=True):
    """A filter that was checked. ``conditions`` have a path and the test of the value there."""

    conditions: tuple[tuple[Path, Test], ...]
    needs_payload: bool
    needs_metadata: bool

    @classmethod
    def parse(cls, mapping: object) -> Self:
        """Raises InvalidSubscriberError, whose field is ``filter`` or ``filter.<path>``."""
        if not isinstance(mapping, Mapping):
            raise InvalidSubscriberError(
                f"The filter is a {type(mapping).__name__}; give a mapping of paths to conditions.", field="filter"
            )
        conditions: list[tuple[Path, Test]] = []
        for text, condition in mapping.items():
            try:
                path = Path.parse(text)
            except ValueError as error:
                raise _refused(text, f"The path {error}") from None
            conditions.extend((path, test) for test in _tests(text, condition))
        if len(conditions) > MOST_CONDITIONS:
            raise InvalidSubscriberError(
                f"The filter has {len(conditions)} conditions; at most {MOST_CONDITIONS} are allowed.", field="filter"
            )
        roots = {path.root for path, _ in conditions}
        conditions.sort(key=lambda condition: condition[0].root == "payload")  # what is cheap to read decides first
        return cls(tuple(conditions), "payload" in roots, "metadata" in roots)

    def matches(
        self,
        event_type: str,
        payload: Any,
        metadata: Mapping[str, str] | None = None,
        ordering_key: str | None = None,
    ) -> bool:
        """Whether all conditions hold for this event, whose payload is decoded."""
        for path, test in self.conditions:
            if path.root == "payload":
                if not test(path.inside(payload)):
                    return False
            elif not test(path.read(event_type, payload, metadata, ordering_key)):
                return False
        return True


def _tests(path: str, condition: object) -> list[Test]:
    if not isinstance(condition, Mapping):
        return [_test(path, "eq", condition)]
    if not condition:
        raise _refused(path, f"There is no test; give a value, or a mapping with {_OPERATORS}")
    return [_test(path, name, wanted) for name, wanted in condition.items()]


def _test(path: str, name: object, wanted: Any) -> Test:
    if name == "eq":
        return _equal(_scalar(path, wanted))
    if name == "ne":
        equal = _equal(_scalar(path, wanted))
        return lambda value: not equal(value)
    if name == "in":
        return _among(path, wanted)
    if name == "exists":
        if not isinstance(wanted, bool):
            raise _refused(path, "exists is true or false")
        return (lambda value: value is not MISSING) if wanted else (lambda value: value is MISSING)
    if name == "prefix":
        if not isinstance(wanted, str):
            raise _refused(path, "prefix is a text")
        return lambda value: isinstance(value, str) and value.startswith(wanted)
    if isinstance(name, str) and name in _ORDER:
        return _ordered(path, name, wanted)
    raise _refused(path, f"There is no test {str(name)[:40]!r}; give {_OPERATORS}")


def _equal(wanted: Any) -> Test:
    if wanted is None or isinstance(wanted, bool):
        return lambda value: value is wanted
    if isinstance(wanted, str):
        return lambda value: value.__class__ is str and value == wanted
    return lambda value: value.__class__ is not bool and value == wanted


def _among(path: str, wanted: object) -> Test:
    if not isinstance(wanted, list | tuple) or not 1 <= len(wanted) <= MOST_VALUES:
        raise _refused(path, f"in is a list of 1 to {MOST_VALUES} values")
    values = frozenset(_marked(_scalar(path, each)) for each in wanted)

    def among(value: Any) -> bool:
        if isinstance(value, str | int | float) or value is None:
            return _marked(value) in values
        return False

    return among


def _marked(value: Any) -> Any:
    """Python takes True for 1; a boolean is a pair here, which no JSON scalar is."""
    return (bool, value) if isinstance(value, bool) else value


def _ordered(path: str, name: str, wanted: Any) -> Test:
    compare = _ORDER[name]
    if isinstance(wanted, str):
        return lambda value: isinstance(value, str) and compare(value, wanted)
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        raise _refused(path, f"{name} is a number or a text")

    def ordered(value: Any) -> bool:
        return isinstance(value, int | float) and value.__class__ is not bool and compare(value, wanted)

    return ordered


def _scalar(path: str, value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    hint = '; for one of several give {"in": [...]}' if isinstance(value, list | tuple) else ""
    raise _refused(
        path, f"A {type(value).__name__} cannot be compared with; give a text, number, boolean or null{hint}"
    )


def _refused(path: object, problem: str) -> InvalidSubscriberError:
    shown = str(path)
    shown = shown if len(shown) <= 100 else f"{shown[:99]}…"  # noqa: PLR2004
    return InvalidSubscriberError(f"The filter on {shown!r}: {problem}.", field=f"filter.{shown}")
