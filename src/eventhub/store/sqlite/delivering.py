"""The hub's part of the SQLite store: everything in the writer's transactions, so one fan-out at a time by nature."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any, TypeVar

import apsw

from eventhub.core.lifecycle import State
from eventhub.store import acts
from eventhub.store.audit import Act
from eventhub.store.contract import Store
from eventhub.store.delivering import FIRST_SHARE, PORTION, Layout, chosen, lanes_in, name_taken
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
from eventhub.store.rows import from_micros, micros
from eventhub.store.sqlite import settling
from eventhub.store.sqlite.audit import audited
from eventhub.store.sqlite.publishing import SQL, ids, publish_calls
from eventhub.store.values import NewEvent, Route

__all__ = ["SqliteDelivering"]

R = TypeVar("R")
_MICROSECOND = timedelta(microseconds=1)


class SqliteDelivering(Store):
    """The hub's half of the SQLite store."""

    _routes: dict[Route, int]

    @abstractmethod
    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None) -> R: ...
    @abstractmethod
    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]: ...
    @abstractmethod
    async def _learn_routes(self, wanted: set[Route]) -> None: ...

    # ----------------------------------------------------------- subscribers

    async def next_id(self) -> int:
        await self.open()
        return await self._write(lambda connection, _: int(connection.execute(SQL.take_ids, {"count": 1}).get))

    async def hub_id(self) -> str:
        ((text,),) = await self._read(SQL.hub_id)
        return str(text)

    async def add_subscriber(self, row: SubscriberRow) -> SubscriberRow:
        times = micros(row.created_at), micros(row.updated_at)
        columns = (row.id, row.name, row.document, row.sealed, row.status, row.reason, *times)
        if not await self._changing(
            lambda _: (SQL.add_subscriber, columns), act=acts.create_subscriber(row.id, row.name)
        ):
            raise name_taken(row.name)
        return row

    async def subscribers(self) -> tuple[int, list[SubscriberRow]]:
        version = await self.subscribers_version()  # first: who reads rows that are newer still will only look again
        return version, [to_subscriber(row, from_micros) for row in await self._read(SQL.subscribers)]

    async def subscribers_version(self) -> int:
        ((version,),) = await self._read(SQL.subscribers_version)
        return int(version)

    async def subscriber_changes(self) -> int:
        ((number,),) = await self._read(SQL.subscriber_changes)
        return int(number)

    async def subscriber(self, subscriber_id: int) -> SubscriberRow | None:
        rows = await self._read(SQL.subscriber, id=subscriber_id)
        return to_subscriber(rows[0], from_micros) if rows else None

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
        def limit(connection: apsw.Connection) -> None:
            if max_attempts is not None:
                connection.execute(SQL.limit_messages, {"id": subscriber_id, "limit": max_attempts})

        named = {"id": subscriber_id, "version": expected_version, "name": name, "document": document, "sealed": sealed}
        change = lambda at: (SQL.change_subscriber, {**named, "now": at})  # noqa: E731
        if await self._changing(change, beside=limit, act=act, now=now):
            return await self.subscriber(subscriber_id)
        owner = await self._read(SQL.name_owner, name=name)
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
        expected = None if expect is None else json.dumps(sorted(expect))
        named = {"id": subscriber_id, "status": status, "reason": reason, "expect": expected}
        return await self._changing(
            lambda at: (SQL.set_status, {**named, "now": at}),
            touch=SQL.touch_states,
            event=event,
            act=acts.set_status(subscriber_id, status, reason),
            now=now,
        )

    async def remove_subscriber(self, subscriber_id: int, *, by: str, now: datetime | None = None) -> int | None:
        act = acts.remove_subscriber(subscriber_id)
        if not await self._changing(lambda _: (SQL.remove_subscriber, {"id": subscriber_id}), act=act):
            return None
        return await self.cancel_messages(subscriber_id, by=by, now=now)

    async def cancel_messages(self, subscriber_id: int, *, by: str, now: datetime | None = None) -> int:
        def work(connection: apsw.Connection, at: int) -> tuple[int, int]:
            rows: list[Any] = connection.execute(SQL.messages_of, {"id": subscriber_id, "limit": PORTION}).fetchall()
            if not rows:
                return 0, 0
            numbers = [row[0] for row in rows]
            named = {"ids": ids(numbers), "by": by, "now": at}
            count = len(connection.execute(SQL.log_cancelled, named).fetchall())
            connection.execute(SQL.remove, {"ids": ids(numbers)})
            settling.advance(connection, [row[1] for row in rows if row[1] is not None], at)
            return len(rows), count

        await self.open()
        cancelled, found = 0, PORTION
        while found == PORTION:
            found, count = await self._write(work, now=now)
            cancelled += count
        return cancelled

    async def ownerless(self) -> list[int]:
        return [number for (number,) in await self._read(SQL.ownerless)]

    async def _changing(
        self,
        change: Callable[[int], tuple[str, Any]],
        *,
        touch: str = SQL.touch_subscribers,
        event: NewEvent | None = None,
        beside: Callable[[apsw.Connection], None] | None = None,
        act: Act | None = None,
        now: datetime | None = None,
    ) -> bool:
        """A guarded change of a subscriber; when it took place, what belongs to it is done in the same commit."""

        def work(connection: apsw.Connection, at: int) -> bool:
            if not connection.execute(*change(at)).fetchall():
                return False
            connection.execute(touch)
            if beside is not None:
                beside(connection)
            if event is not None:
                (answer,) = publish_calls(connection, [[event]], self._routes, at)
                if isinstance(answer, Exception):
                    raise answer
            return True

        await self.open()
        if event is not None:
            await self._learn_routes({event.route})
        done = await self._write(audited(act, work), now=now)
        if done:
            self._announce(HUB)
            self._announce(FANOUT)
        return done

    # -------------------------------------------------------------- circuits

    async def open_circuit(self, subscriber_id: int, rest: timedelta, *, now: datetime | None = None) -> bool:
        return await self._changing(
            lambda at: (SQL.open_circuit, _until(subscriber_id, rest, at)), touch=SQL.touch_states, now=now
        )

    async def take_probes(self, rests: Mapping[int, timedelta], *, now: datetime | None = None) -> set[int]:
        def work(connection: apsw.Connection, at: int) -> set[int]:
            wanted = [(number, at + rest // _MICROSECOND, at) for number, rest in rests.items()]
            taken = {int(number) for (number,) in connection.executemany(SQL.take_probes, wanted)}
            if taken:
                connection.execute(SQL.touch_states)
            return taken

        await self.open()
        return await self._write(work, now=now) if rests else set()

    async def close_circuit(
        self, subscriber_id: int, *, event: NewEvent | None = None, now: datetime | None = None
    ) -> bool:
        closing = (SQL.close_circuit, {"id": subscriber_id})
        return await self._changing(lambda _: closing, touch=SQL.touch_states, event=event, now=now)

    # -------------------------------------------------------------- messages

    async def fan_out(self, plan: Plan, *, limit: int = 500, now: datetime | None = None) -> FannedOut:
        await self.open()
        ((waiting, _),) = await self._read(SQL.fanout_waiting, limit=1)
        if not waiting:
            return FannedOut()
        await self._learn_routes(set(plan.routes))
        done = await self._write(self._hand_out, plan, limit, now=now)
        if done.messages:
            self._announce(HUB)
        return done

    def _hand_out(self, connection: apsw.Connection, plan: Plan, limit: int, now: int) -> FannedOut:
        if int(connection.execute(SQL.subscribers_version).get) != plan.version:
            return FannedOut(stale=True)
        asked = {"payload": plan.needs_payload, "limit": limit}
        markers = map(to_marker, connection.execute(SQL.markers, asked))
        handed, placements, rest = chosen(markers, plan)
        if not handed:
            return FannedOut()
        self._insert_messages(connection, handed, placements, now)
        more = rest or len(handed) == limit
        return FannedOut(events=len(handed), messages=len(placements), more=more)

    def _insert_messages(
        self, connection: apsw.Connection, handed: list[Marker], placements: list[Placement], now: int
    ) -> None:
        lanes = lanes_in(placements)
        heads: set[int] = set()
        if lanes:
            connection.executemany(SQL.lock_lanes, [(lane, *rest) for lane, rest in lanes.items()])
            heads = {lane for (lane,) in connection.execute(SQL.taken_lanes, (ids(list(lanes)),))}
        layout = Layout(placements, heads)
        first = int(connection.execute(SQL.take_ids, {"count": len(placements)}).get)
        due = {marker.event_id: marker.due for marker in handed if marker.due is not None and marker.due > now}
        rows = []
        for number, (placed, lane, state) in enumerate(
            zip(placements, layout.lanes, layout.states, strict=True), start=first
        ):
            later = due.get(placed.event_id)
            route = self._routes[routes_of(placed.subscriber)[0]]
            begins = State.WAITING if later is not None and state == State.READY else state
            rows.append(
                (number, placed.event_id, placed.subscriber, route, lane, placed.key, begins, placed.parks,
                 placed.max_attempts, later)
            )  # fmt: skip
        connection.executemany(SQL.insert_message, rows)
        connection.execute(SQL.drop_markers, {"ids": ids([marker.event_id for marker in handed])})
        wanted = {placement.event_id for placement in placements}
        nobody = [marker.event_id for marker in handed if marker.alone and marker.event_id not in wanted]
        log = [(event, event, "COMPLETED", None, 0, None, None, None, None, now) for event in nobody]
        connection.executemany(SQL.write_log, log)

    async def fanout_waiting(self, limit: int) -> tuple[int, float | None]:
        ((count, oldest),) = await self._read(SQL.fanout_waiting, limit=limit)
        if oldest is None:
            return int(count), None
        return int(count), max((await self.now() - from_micros(oldest)).total_seconds(), 0.0)

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
        await self._learn_routes({route for one in wanted for route in routes_of(one.subscriber)})

        def work(connection: apsw.Connection, at: int) -> list[MessageClaim]:
            active = {number for (number,) in connection.execute(SQL.active_subscribers)}
            found = [self._oldest(connection, one, roll) for one in wanted if one.subscriber in active]
            placed = sorted((pair for rows in found for pair in enumerate(rows)), key=itemgetter(0))  # firsts first
            rows = [row for _, row in placed[:limit]]
            if not rows:
                return []
            numbers = [row[0] for row in rows]
            due = at + lease // _MICROSECOND
            named = {"worker": worker, "claimed_by": None, "due": due, "max_attempts": None, "ids": ids(numbers)}
            connection.execute(SQL.lease, named)
            connection.execute(SQL.log_picked, {"now": at, "ids": ids(numbers)})
            return [to_message_claim((*row, at), from_micros, raised=1) for row in rows]

        return await self._write(work, now=now)

    def _oldest(self, connection: apsw.Connection, wanted: WantedMessages, roll: float) -> list[Any]:
        """First attempts and retries merged, so that the retries get their share while both wait."""
        fresh, again = (
            connection.execute(SQL.claim_messages, {"route": self._routes[route], "limit": wanted.most}).fetchall()
            for route in routes_of(wanted.subscriber)
        )
        turns = [(float(turn), row) for turn, row in enumerate(fresh, start=1)]
        turns += [((turn - roll) * FIRST_SHARE, row) for turn, row in enumerate(again, start=1)]
        return [row for _, row in sorted(turns, key=lambda pair: pair[0])[: wanted.most]]


def _until(subscriber_id: int, rest: timedelta, at: int) -> dict[str, int]:
    return {"id": subscriber_id, "until": at + rest // _MICROSECOND}
