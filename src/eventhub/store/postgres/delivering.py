"""The hub's part of the PostgreSQL store: subscribers, one fan-out at a time, claims for many subscribers at once."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from eventhub.store.contract import Store
from eventhub.store.delivering import FIRST_SHARE, MOST_BYTES, PORTION, Layout, chosen, lanes_in, name_taken
from eventhub.store.hub_rows import to_marker, to_message_claim, to_subscriber
from eventhub.store.messages import (
    FANOUT,
    HUB,
    FannedOut,
    Marker,
    MessageClaim,
    Placement,
    Plan,
    SubscriberRow,
    WantedMessages,
    routes_of,
)
from eventhub.store.postgres import settling
from eventhub.store.postgres.floors import Floors
from eventhub.store.postgres.marker_floor import MarkerFloor
from eventhub.store.postgres.publishing import SQL, lock_lanes, publish_calls
from eventhub.store.postgres.reading import same
from eventhub.store.values import NewEvent, Route

__all__ = ["PostgresDelivering"]

R = TypeVar("R")


class _Round(NamedTuple):
    """What a round of the fan-out says about where the next may begin."""

    last: int
    oldest_running: int
    transaction: int


class PostgresDelivering(Store):
    """The hub's half of the PostgreSQL store."""

    _floors: Floors
    _marker_floor: MarkerFloor
    _routes: dict[Route, int]
    _pairs: dict[int, tuple[int, int]]

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...
    @abstractmethod
    async def _transact(self, work: Callable[[Any], Awaitable[R]]) -> R: ...
    @abstractmethod
    async def _learn_routes(self, wanted: set[Route]) -> None: ...

    # ----------------------------------------------------------- subscribers

    async def next_id(self) -> int:
        ((number,),) = await self._read(SQL.take_ids, 1)
        return int(number)

    async def hub_id(self) -> str:
        ((text,),) = await self._read(SQL.hub_id)
        return str(text)

    async def add_subscriber(self, row: SubscriberRow) -> SubscriberRow:
        columns = (row.id, row.name, row.document, row.sealed, row.status, row.reason, row.created_at, row.updated_at)
        if not await self._changing(SQL.add_subscriber, *columns):
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
        now: datetime | None = None,
    ) -> SubscriberRow | None:
        async def limit(connection: Any) -> None:
            if max_attempts is not None:
                await connection.execute(SQL.limit_messages, subscriber_id, max_attempts)

        asked = (subscriber_id, expected_version, name, document, sealed, now)
        waits = max_attempts is not None
        if await self._changing(SQL.change_subscriber, *asked, beside=limit, waits_for_fanout=waits):
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
        return await self._changing(SQL.set_status, *asked, touch=SQL.touch_states, event=event, now=now)

    async def remove_subscriber(self, subscriber_id: int, *, by: str, now: datetime | None = None) -> int | None:
        if not await self._changing(SQL.remove_subscriber, subscriber_id, waits_for_fanout=True):
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
                await settling.advance(connection, lanes, now)
            return len(rows), int(count)

        await self.open()
        cancelled, found = 0, PORTION
        while found == PORTION:
            found, count = await self._transact(work)
            cancelled += count
        return cancelled

    async def ownerless(self) -> list[int]:
        return [row[0] for row in await self._read(SQL.ownerless)]

    async def _changing(
        self,
        query: str,
        *args: Any,
        touch: str = SQL.touch_subscribers,
        event: NewEvent | None = None,
        beside: Callable[[Any], Awaitable[None]] | None = None,
        waits_for_fanout: bool = False,
        now: datetime | None = None,
    ) -> bool:
        """A guarded change of a subscriber; when it took place, what belongs to it is done in the same commit.

        What must not happen while messages are being made waits for that.
        """

        async def work(connection: Any) -> bool:
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
                (answer,) = await publish_calls(connection, [[event]], self._routes, now)
                if isinstance(answer, Exception):
                    raise answer
            return True

        await self.open()
        if event is not None:
            await self._learn_routes({event.route})
        done = await self._transact(work)
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

    # -------------------------------------------------------------- messages

    async def fan_out(self, plan: Plan, *, limit: int = 500, now: datetime | None = None) -> FannedOut:
        await self.open()
        await self._learn_routes(set(plan.routes))
        floor = 0 if now is not None else self._marker_floor.start

        async def work(connection: Any) -> tuple[FannedOut, _Round | None]:
            return await self._hand_out(connection, plan, limit, floor, now)

        done, passed = await self._transact(work)
        if passed is not None and now is None:
            self._marker_floor.passed(passed.last, oldest_running=passed.oldest_running, transaction=passed.transaction)
        if done.messages:
            self._announce(HUB)
        return done

    async def _hand_out(
        self, connection: Any, plan: Plan, limit: int, floor: int, now: datetime | None
    ) -> tuple[FannedOut, _Round | None]:
        """Several statements, each with a fresh look: what is decided rests on what others have committed."""
        if not await connection.fetchval(SQL.hold_fanout):
            return FannedOut(busy=True), None
        rows = await connection.fetch(SQL.markers, limit, plan.needs_payload, floor)
        if not rows:
            return FannedOut(), None
        version, transaction = await connection.fetchrow(SQL.fanout_moment)  # asked after the markers were read
        if version != plan.version:
            return FannedOut(stale=True), None
        *_, oldest_running = rows[0]
        markers = [to_marker(row[:-1]) for row in rows]
        if plan.needs_payload:
            markers = await self._with_payloads(connection, markers)
        handed, placements, rest = chosen(markers, plan)
        heads = await lock_lanes(connection, lanes_in(placements))
        await self._insert_messages(connection, handed, placements, Layout(placements, heads), now)
        more = rest or len(handed) < len(rows) or len(rows) == limit
        passed = _Round(handed[-1].event_id, oldest_running=oldest_running, transaction=transaction)
        return FannedOut(events=len(handed), messages=len(placements), more=more), passed

    async def _with_payloads(self, connection: Any, markers: list[Marker]) -> list[Marker]:
        """The first of them, whose payloads are not too large together; what a marker told of its own was the size."""
        size, some = 0, list[int]()
        for marker in markers:
            if size >= MOST_BYTES:
                break
            size += int(marker.payload or 0)
            some.append(marker.event_id)
        payloads = {row[0]: row[1] for row in await connection.fetch(SQL.payloads, some)}
        found = markers[: len(some)]
        return [msgspec.structs.replace(marker, payload=payloads.get(marker.event_id)) for marker in found]

    async def _insert_messages(
        self,
        connection: Any,
        handed: list[Marker],
        placements: list[Placement],
        layout: Layout,
        now: datetime | None,
    ) -> None:
        route = {
            subscriber: self._routes[routes_of(subscriber)[0]] for subscriber in {p.subscriber for p in placements}
        }
        due = {marker.event_id: marker.due for marker in handed}
        wanted = {placement.event_id for placement in placements}
        await connection.execute(
            SQL.insert_messages,
            [p.event_id for p in placements],
            [p.subscriber for p in placements],
            [route[p.subscriber] for p in placements],
            layout.lanes,
            [p.key for p in placements],
            layout.states,
            [p.parks for p in placements],
            [p.max_attempts for p in placements],
            [due[p.event_id] for p in placements],
            [marker.event_id for marker in handed],
            [marker.event_id for marker in handed if marker.alone and marker.event_id not in wanted],
            now,
        )

    async def fanout_waiting(self, limit: int) -> tuple[int, float | None]:
        ((count, age),) = await self._read(SQL.fanout_waiting, limit)
        return int(count), age

    async def claim_messages(
        self,
        wanted: Sequence[WantedMessages],
        *,
        worker: str,
        lease: timedelta,
        limit: int | None = None,
        roll: float = 0.0,
        now: datetime | None = None,
    ) -> list[MessageClaim]:
        await self.open()
        if not wanted:
            return []
        routes = await self._numbered([one.subscriber for one in wanted])
        start = self._floors.start if now is None else lambda _: 0
        floors = [(start(fresh), start(again)) for fresh, again in routes]
        started = time.monotonic()
        rows = await self._read(
            SQL.claim_messages,
            [pair[0] for pair in routes],
            [pair[1] for pair in routes],
            [one.most for one in wanted],
            [pair[0] for pair in floors],
            [pair[1] for pair in floors],
            roll,
            worker,
            lease,
            float(FIRST_SHARE),
            now,
            [one.subscriber for one in wanted],
            limit,
        )
        self._raise_floors(rows, routes, floors, time.monotonic() - started)
        return [to_message_claim(row, same) for row in rows]

    async def _numbered(self, subscribers: list[int]) -> list[tuple[int, int]]:
        """The numbers of their routes, remembered: with many subscribers to look them up costs more than the claim."""
        unknown = [number for number in subscribers if number not in self._pairs]
        if unknown:
            await self._learn_routes({route for number in unknown for route in routes_of(number)})
            for number in unknown:
                fresh, again = routes_of(number)
                self._pairs[number] = (self._routes[fresh], self._routes[again])
        return [self._pairs[number] for number in subscribers]

    def _raise_floors(self, rows: list[Any], routes: list[Any], floors: list[Any], took: float) -> None:
        """A claim goes on above what it took; a route that gave nothing is looked at from its beginning next time."""
        last: dict[int, int] = {}
        for row in rows:
            last[row[13]] = row[4]
        for pair, pair_floors in zip(routes, floors, strict=True):
            for route, floor in zip(pair, pair_floors, strict=True):
                if route in last:
                    self._floors.claimed(route, started_at=floor, last=last[route], took=took)
                elif floor:
                    self._floors.lower([(route, 0)])
