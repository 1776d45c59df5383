"""Subscribers in PostgreSQL: who they are, how they stand, and the circuits that all dispatchers share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from eventhub.store import acts
from eventhub.store.audit import Act
from eventhub.store.delivering import PORTION, name_taken
from eventhub.store.hub_rows import to_subscriber
from eventhub.store.messages import FANOUT, HUB, SubscriberRow
from eventhub.store.postgres import settling
from eventhub.store.postgres.audit import audited
from eventhub.store.postgres.memory import in_one_incarnation
from eventhub.store.postgres.publishing import SQL, publish_calls
from eventhub.store.postgres.reading import same
from eventhub.store.postgres.route_numbers import PostgresRoutes
from eventhub.store.values import NewEvent, Route

__all__ = ["PostgresSubscribing"]

R = TypeVar("R")


class PostgresSubscribing(PostgresRoutes):
    """Changes of subscribers: guarded statements, each with what belongs to it in one commit."""

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...
    @abstractmethod
    async def _transact(self, work: Callable[[Any], Awaitable[R]]) -> R: ...

    # ----------------------------------------------------------- subscribers

    async def next_id(self) -> int:
        ((number,),) = await self._read(SQL.take_ids, 1)
        return int(number)

    async def hub_id(self) -> str:
        ((text,),) = await self._read(SQL.hub_id)
        return str(text)

    async def add_subscriber(self, row: SubscriberRow) -> SubscriberRow:
        columns = (row.id, row.name, row.document, row.sealed, row.status, row.reason, row.created_at, row.updated_at)
        if not await self._changing(SQL.add_subscriber, *columns, act=acts.create_subscriber(row.id, row.name)):
            raise name_taken(row.name)
        return row

    async def subscribers(self) -> tuple[int, list[SubscriberRow]]:
        version = await self.subscribers_version()  # first: who reads rows that are newer still will only look again
        return version, [to_subscriber(row, same) for row in await self._read(SQL.subscribers)]

    async def subscribers_version(self) -> int:
        ((version,),) = await self._read(SQL.subscribers_version)
        return int(version)

    async def subscriber_changes(self) -> int:
        ((number,),) = await self._read(SQL.subscriber_changes)
        return int(number)

    async def subscriber(self, subscriber_id: int) -> SubscriberRow | None:
        rows = await self._read(SQL.subscriber, subscriber_id)
        return to_subscriber(rows[0], same) if rows else None

    async def change_subscriber(
        self,
        subscriber_id: int,
        *,
        expected_version: int,
        name: str,
        document: str,
        sealed: bytes | None,
        max_attempts: int | None = None,
        act: Act | None = None,
        now: datetime | None = None,
    ) -> SubscriberRow | None:
        async def limit(connection: Any) -> None:
            if max_attempts is not None:
                await connection.execute(SQL.limit_messages, subscriber_id, max_attempts)

        asked = (subscriber_id, expected_version, name, document, sealed, now)
        waits = max_attempts is not None
        if await self._changing(SQL.change_subscriber, *asked, beside=limit, waits_for_fanout=waits, act=act):
            return await self.subscriber(subscriber_id)
        owner = await self._read(SQL.name_owner, name)
        if owner and owner[0][0] != subscriber_id:
            raise name_taken(name)
        return None

    async def set_status(
        self,
        subscriber_id: int,
        status: str,
        *,
        reason: str | None = None,
        expect: frozenset[str] | None = None,
        event: NewEvent | None = None,
        now: datetime | None = None,
    ) -> bool:
        expected = None if expect is None else sorted(expect)
        asked = (subscriber_id, status, reason, expected, now)
        act = acts.set_status(subscriber_id, status, reason)
        return await self._changing(SQL.set_status, *asked, touch=SQL.touch_states, event=event, act=act, now=now)

    async def remove_subscriber(self, subscriber_id: int, *, by: str, now: datetime | None = None) -> int | None:
        act = acts.remove_subscriber(subscriber_id)
        if not await self._changing(SQL.remove_subscriber, subscriber_id, waits_for_fanout=True, act=act):
            return None
        return await self.cancel_messages(subscriber_id, by=by, now=now)

    async def cancel_messages(self, subscriber_id: int, *, by: str, now: datetime | None = None) -> int:
        async def work(connection: Any) -> tuple[int, int]:
            rows = await connection.fetch(SQL.messages_of, subscriber_id, PORTION)
            lanes = sorted({row[1] for row in rows if row[1] is not None})
            if lanes:
                await connection.fetch(SQL.hold_lanes, lanes)
            count = await connection.fetchval(SQL.cancel_messages, [row[0] for row in rows], by, now)
            if lanes:
                await settling.advance(connection, dict.fromkeys(lanes), now)
            return len(rows), int(count)

        await self.open()
        cancelled, found = 0, PORTION
        while found == PORTION:
            found, count = await self._transact(work)
            cancelled += count
        return cancelled

    async def ownerless(self) -> list[int]:
        return [row[0] for row in await self._read(SQL.ownerless)]

    @in_one_incarnation
    async def _changing(
        self,
        query: str,
        *args: Any,
        touch: str = SQL.touch_subscribers,
        event: NewEvent | None = None,
        beside: Callable[[Any], Awaitable[None]] | None = None,
        waits_for_fanout: bool = False,
        act: Act | None = None,
        now: datetime | None = None,
    ) -> bool:
        """A guarded change of a subscriber; when it took place, what belongs to it is done in the same commit.

        What must not happen while messages are being made waits for that.
        """

        async def work(connection: Any, routes: dict[Route, int]) -> bool:
            if waits_for_fanout:
                await connection.fetch(SQL.wait_for_fanout)
            if touch == SQL.touch_subscribers:
                await connection.fetch(SQL.hold_subscriber_changes)
            if not await connection.fetch(query, *args):
                return False
            await connection.fetch(touch)
            if beside is not None:
                await beside(connection)
            if event is not None:
                (answer,) = await publish_calls(connection, [[event]], routes, now)
                if isinstance(answer, Exception):
                    raise answer
            return True

        await self.open()
        wanted = set() if event is None else {event.route}
        done = await self._using_routes(
            wanted,
            lambda routes: self._transact(audited(act, lambda connection: work(connection, routes), now)),
        )
        if done:
            self._announce(HUB)
            self._announce(FANOUT)
        return done

    # -------------------------------------------------------------- circuits

    async def open_circuit(self, subscriber_id: int, rest: timedelta, *, now: datetime | None = None) -> bool:
        return await self._changing(SQL.open_circuit, subscriber_id, rest, now, touch=SQL.touch_states)

    async def take_probes(self, rests: Mapping[int, timedelta], *, now: datetime | None = None) -> set[int]:
        async def work(connection: Any) -> set[int]:
            taken = {row[0] for row in await connection.fetch(SQL.take_probes, list(rests), list(rests.values()), now)}
            if taken:
                await connection.fetch(SQL.touch_states)
            return taken

        await self.open()
        return await self._transact(work) if rests else set()

    async def close_circuit(
        self, subscriber_id: int, *, event: NewEvent | None = None, now: datetime | None = None
    ) -> bool:
        return await self._changing(SQL.close_circuit, subscriber_id, touch=SQL.touch_states, event=event, now=now)
