"""The audit log in PostgreSQL: a row in the transaction that has the act."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from eventhub.store.audit import Act, AuditEntry, AuditFilter, act_of, actor, row_of, to_entry
from eventhub.store.contract import Store
from eventhub.store.messaging import NO_END
from eventhub.store.postgres.publishing import SQL
from eventhub.store.postgres.reading import same

__all__ = ["PostgresAudit", "audited", "fetching"]

R = TypeVar("R")


def audited(
    act: Act | Callable[[R], Act | None] | None, work: Callable[[Any], Awaitable[R]], now: datetime | None = None
) -> Callable[[Any], Awaitable[R]]:
    """The work of a transaction, which also writes down what was done, if anything was."""
    if act is None:
        return work
    who = actor()

    async def acting(connection: Any) -> R:
        result = await work(connection)
        done = act_of(act, result)
        if done is not None:
            await connection.execute(SQL.write_audit, *row_of(done, who), now)
        return result

    return acting


def fetching(query: str, *args: Any) -> Callable[[Any], Awaitable[list[Any]]]:
    """A statement as the work of a transaction."""

    async def work(connection: Any) -> list[Any]:
        rows: list[Any] = await connection.fetch(query, *args)
        return rows

    return work


class PostgresAudit(Store):
    """The audit log of the PostgreSQL store."""

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...

    async def record_act(self, act: Act, *, now: datetime | None = None) -> None:
        await self._read(SQL.write_audit, *row_of(act, actor()), now)

    async def audit(self, wanted: AuditFilter) -> list[AuditEntry]:
        rows = await self._read(
            SQL.audit_page,
            NO_END if wanted.before_id is None else wanted.before_id,
            wanted.actor,
            wanted.action,
            wanted.target,
            wanted.since,
            wanted.until,
            wanted.limit,
        )
        return [to_entry(row, same) for row in rows]

    async def _prune_audit(self, older_than: timedelta, limit: int, now: datetime | None) -> int:
        ((count,),) = await self._read(SQL.prune_audit, older_than, limit, now)
        return int(count)
