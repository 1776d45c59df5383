"""The statement that reads a part, put together from columns and conditions that are known and values that are quoted.

PostgreSQL copies what a statement without parameters finds, many times faster than it can be fetched; so values are
written into the text, by their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from eventhub.pipeline.source.conditions import Condition
from eventhub.pipeline.source.database import Blocks, Slice
from eventhub.pipeline.source.tables import Column, Kind

__all__ = ["bounds", "select"]

ROUTES: Final = "JOIN eventhub.routes r ON r.id = t.route"


def select(part: Slice, columns: Sequence[Column], blocks: Blocks | None = None) -> str:
    """The statement for the whole table, or for some blocks of one relation."""
    relation = f"eventhub.{part.table}" if blocks is None else blocks.relation
    wanted = ", ".join(f"{column.postgres} AS {column.name}" for column in columns)
    joined = ROUTES if any(column.of_route for column in columns) else ""
    where = [*_visible(part), *_within(blocks), *map(_compared, part.conditions)]
    return f"SELECT {wanted} FROM {relation} t {joined} WHERE {' AND '.join(where) or 'true'}"  # noqa: S608 - see above


def bounds(part: Slice, relation: str) -> str:
    """The statement for the first and last place of a relation that hold rows of a part."""
    where = " AND ".join(_visible(part)) or "true"
    return f"SELECT min(t.ctid)::text, max(t.ctid)::text FROM {relation} t WHERE {where}"  # noqa: S608 - see above


def _visible(part: Slice) -> list[str]:
    visible = part.visible
    where = [f"t.xid >= {int(visible.first)}"] if visible.first else []
    if visible.last is not None:
        where.append(f"t.xid < {int(visible.last)}")
    if visible.without:
        where.append(f"t.xid <> ALL ('{{{','.join(str(int(number)) for number in visible.without)}}}'::bigint[])")
    return where


def _within(blocks: Blocks | None) -> list[str]:
    if blocks is None:
        return []
    where = [f"t.ctid >= '({blocks.first},0)'::tid"]
    if blocks.last is not None:
        where.append(f"t.ctid < '({blocks.last},0)'::tid")
    return where


def _compared(condition: Condition) -> str:
    column = condition.column
    name = f"{column.postgres}"
    if column.kind == "string" and condition.operator not in ("=", "IN"):
        name += ' COLLATE "C"'  # Spark orders by bytes
    if condition.operator in ("=", "IN"):
        values = [_literal(column.kind, value) for value in condition.values if _may_be_stored(value)]
        return f"{name} IN ({', '.join(values)})" if values else "false"
    return f"{name} {condition.operator} {_literal(column.kind, condition.values[0])}"


def _may_be_stored(value: Any) -> bool:
    """PostgreSQL has no zero bytes in its texts, and nothing that is not Unicode."""
    return not isinstance(value, str) or ("\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value))


def _literal(kind: Kind, value: Any) -> str:
    match kind:
        case "long" | "integer":
            return f"({int(value)})"
        case "time":
            moment: datetime = value.astimezone(UTC)
            return f"'{moment.strftime('%Y-%m-%d %H:%M:%S.%f').zfill(26)}+00'::timestamptz"
        case "string":
            text = str(value).replace("\\", "\\\\").replace("'", "''")
            return f"E'{text}'"
