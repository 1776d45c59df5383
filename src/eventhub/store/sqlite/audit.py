"""The audit log in SQLite: a row in the writer's transaction that has the act."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import apsw

from eventhub.store.audit import Act, AuditEntry, AuditFilter, act_of, actor, row_of, to_entry
from eventhub.store.contract import Store
from eventhub.store.messaging import NO_END
from eventhub.store.rows import from_micros, micros
from eventhub.store.sqlite.publishing import SQL

__all__ = ["SqliteAudit", "audited"]

R = TypeVar("R")


def audited(act: Act | Callable[[R], Act | None] | None, work: Callable[..., R]) -> Callable[..., R]:
    """The work, which also writes down what was done, if anything was. Who acts is known where this is called."""
    if act is None:
        return work
    who = actor()  # the writer has a thread of its own

    def acting(connection: apsw.Connection, *args: Any) -> R:
        result = work(connection, *args)
        done = act_of(act, result)
        if done is not None:
            connection.execute(SQL.write_audit, (*row_of(done, who), args[-1]))
        return result

    return acting


class SqliteAudit(Store):
    """The audit log of the SQLite store."""

    @abstractmethod
    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None) -> R: ...
    @abstractmethod
    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]: ...

    async def record_act(self, act: Act, *, now: datetime | None = None) -> None:
        await self.open()
        await self._write(audited(act, lambda *_: True), now=now)

    async def audit(self, wanted: AuditFilter) -> list[AuditEntry]:
        rows = await self._read(
            SQL.audit_page,
            before=NO_END if wanted.before_id is None else wanted.before_id,
            actor=wanted.actor,
            action=wanted.action,
            target=wanted.target,
            since=None if wanted.since is None else micros(wanted.since),
            until=None if wanted.until is None else micros(wanted.until),
            limit=wanted.limit,
        )
        return [to_entry(row, from_micros) for row in rows]

    async def _prune_audit(self, older_than: timedelta, limit: int, now: datetime | None) -> int:
        def work(connection: apsw.Connection, at: int) -> int:
            before = at - older_than // timedelta(microseconds=1)
            return len(connection.execute(SQL.prune_audit, {"before": before, "limit": limit}).fetchall())

        await self.open()
        return await self._write(work, now=now)
