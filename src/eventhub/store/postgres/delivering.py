"""The hub's part of the PostgreSQL store: one fan-out at a time, and claims for many subscribers at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from eventhub.store.delivering import FIRST_SHARE, MOST_BYTES, Layout, chosen, lanes_in
from eventhub.store.hub_rows import to_marker, to_message_claim
from eventhub.store.messages import (
    HUB,
    FannedOut,
    Marker,
    MessageClaim,
    Placement,
    Plan,
    WantedMessages,
    routes_of,
)
from eventhub.store.postgres.floors import Look
from eventhub.store.postgres.memory import in_one_incarnation
from eventhub.store.postgres.publishing import SQL, lock_lanes
from eventhub.store.postgres.reading import same
from eventhub.store.postgres.subscribing import PostgresSubscribing
from eventhub.store.values import Route

__all__ = ["PostgresDelivering"]


class _Round(NamedTuple):
    """What a round of the fan-out says about where the next may begin."""

    last: int
    oldest_running: int
    transaction: int


class PostgresDelivering(PostgresSubscribing):
    """Messages: made from markers, and taken by dispatchers."""

    @in_one_incarnation
    async def fan_out(self, plan: Plan, *, limit: int = 500, now: datetime | None = None) -> FannedOut:
        await self.open()
        routes = await self._learn_routes(plan.routes)
        floor = 0 if now is not None else self._memory.marker_floor.start

        async def work(connection: Any) -> tuple[FannedOut, _Round | None]:
            return await self._hand_out(connection, plan, routes, limit=limit, floor=floor, now=now)

        done, passed = await self._transact(work)
        if passed is not None and now is None:
            marker_floor = self._memory.marker_floor
            marker_floor.passed(passed.last, oldest_running=passed.oldest_running, transaction=passed.transaction)
        if done.messages:
            self._announce(HUB)
        return done

    async def _hand_out(
        self,
        connection: Any,
        plan: Plan,
        routes: dict[Route, int],
        *,
        limit: int,
        floor: int,
        now: datetime | None,
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
        await self._insert_messages(connection, handed, placements, Layout(placements, heads), routes=routes, now=now)
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
        *,
        routes: dict[Route, int],
        now: datetime | None,
    ) -> None:
        route = {subscriber: routes[routes_of(subscriber)[0]] for subscriber in {p.subscriber for p in placements}}
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

    @in_one_incarnation
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
        looks = [[self._memory.floors.look(route, everywhere=now is not None) for route in pair] for pair in routes]
        rows = await self._read(
            SQL.claim_messages,
            [pair[0] for pair in routes],
            [pair[1] for pair in routes],
            [one.most for one in wanted],
            [fresh.start for fresh, _ in looks],
            [again.start for _, again in looks],
            roll,
            worker,
            lease,
            float(FIRST_SHARE),
            now,
            [one.subscriber for one in wanted],
            limit,
            self._memory.incarnation.fence,
        )
        self._note_looks(rows, looks)
        return [to_message_claim(row, same) for row in rows]

    async def _numbered(self, subscribers: list[int]) -> list[tuple[int, int]]:
        """The numbers of their routes, remembered: with many subscribers to look them up costs more than the claim."""
        unknown = [number for number in subscribers if number not in self._memory.pairs]
        if unknown:
            routes = await self._learn_routes({route for number in unknown for route in routes_of(number)})
            for number in unknown:
                fresh, again = routes_of(number)
                self._memory.pairs[number] = (routes[fresh], routes[again])
        return [self._memory.pairs[number] for number in subscribers]

    def _note_looks(self, rows: list[Any], looks: list[list[Look]]) -> None:
        """A claim goes on above what it took; a route that gave nothing is looked at from its beginning next time."""
        last = {row[14]: row[4] for row in rows}
        for look in chain.from_iterable(looks):
            if look.route in last:
                self._memory.floors.claimed(look, last[look.route])
            else:
                self._memory.floors.passed_over(look)
