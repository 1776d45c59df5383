"""Conditions that the database checks instead of Spark: which of Spark's filters can be had, and what they say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from eventhub.pipeline.source.options import ReadOptions
from eventhub.pipeline.source.tables import FILTERABLE, TABLES, Column, Kind
from eventhub.store.ledger import Dataset

__all__ = ["Condition", "Operator", "asked", "pushed"]

Operator = Literal["=", "<", "<=", ">", ">=", "IN"]
MOST_VALUES: Final = 10_000
_OPERATORS: Final[dict[type[Filter], Operator]] = {
    EqualTo: "=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}
_LONGS: Final = range(-(2**63), 2**63)


class Condition(msgspec.Struct, frozen=True):
    """A column compared with values; more than one only with IN."""

    column: Column
    operator: Operator
    values: tuple[Any, ...]


def pushed(table: Dataset, filters: Iterable[Filter]) -> tuple[list[Condition], list[Filter]]:
    """What the database checks, exactly as Spark would, and what is left to Spark."""
    columns = {column.name: column for column in TABLES[table] if column.name in FILTERABLE}
    conditions: list[Condition] = []
    left: list[Filter] = []
    for one in filters:
        attribute: Sequence[str] = getattr(one, "attribute", ())
        column = columns.get(attribute[0]) if len(attribute) == 1 else None
        if column is None:
            left.append(one)
        elif isinstance(one, IsNotNull):
            continue  # as it always is
        elif (condition := _condition(column, one)) is not None:
            conditions.append(condition)
        else:
            left.append(one)
    return conditions, left


def asked(options: ReadOptions) -> tuple[Condition, ...]:
    """The conditions that the options name: true of everything that is read with them."""
    columns = {column.name: column for column in TABLES[options.table]}
    given: list[tuple[str, Operator, Any]] = [
        ("type", "IN", options.types),
        ("action", "IN", options.actions),
        ("id", ">=", options.first_id),
        ("id", "<=", options.last_id),
        ("created_at", ">=", options.since),
        ("created_at", "<", options.until),
    ]
    return tuple(
        Condition(columns[name], operator, value if isinstance(value, tuple) else (value,))
        for name, operator, value in given
        if value is not None
    )


def _condition(column: Column, one: Filter) -> Condition | None:
    if isinstance(one, In):
        values = tuple(value for value in one.value if value is not None)  # nothing equals NULL
        fits = len(values) <= MOST_VALUES and all(_fits(column.kind, value) for value in values)
        return Condition(column, "IN", values) if fits else None
    operator = _OPERATORS.get(type(one))
    value = getattr(one, "value", None)
    return None if operator is None or not _fits(column.kind, value) else Condition(column, operator, (value,))


def _fits(kind: Kind, value: Any) -> bool:
    match kind:
        case "long" | "integer":
            return isinstance(value, int) and not isinstance(value, bool) and value in _LONGS
        case "time":
            return isinstance(value, datetime) and value.tzinfo is not None
        case "string":
            return isinstance(value, str) and "\x00" not in value
