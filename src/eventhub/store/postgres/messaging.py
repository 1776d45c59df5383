"""Messages and dead letters in PostgreSQL as people see and operate them; lanes are locked before messages, as ever."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from eventhub.core.fingerprints import LONGEST
from eventhub.core.lifecycle import Bury, Reason, State
from eventhub.store import acts
from eventhub.store.audit import Act
from eventhub.store.claims import Held
from eventhub.store.message_rows import (
    subscribers_in,
    to_attempt,
    to_blocked_key,
    to_dead_letter,
    to_message,
    to_stats,
)
from eventhub.store.messages import (
    FANOUT,
    HUB,
    Attempt,
    BlockedKey,
    DeadBrief,
    DeadFilter,
    DeadLetter,
    DeadLetterPage,
    Message,
    MessageFilter,
    SubscriberStats,
    consumer_of,
)
from eventhub.store.messaging import BEHIND, COUNTED, MOVED, NO_END, SAMPLE, Compose, HubGauges, statuses, to_gauges
from eventhub.store.postgres import settling
from eventhub.store.postgres.audit import audited, fetching
from eventhub.store.postgres.memory import in_one_incarnation
from eventhub.store.postgres.publishing import SQL, publish_calls
from eventhub.store.postgres.reading import same
from eventhub.store.postgres.route_numbers import PostgresRoutes
from eventhub.store.routes import KnownRoutes
from eventhub.store.values import NewEvent, Report, Route, lane_id

__all__ = ["PostgresMessaging"]

R = TypeVar("R")


class PostgresMessaging(PostgresRoutes):
    """The part of the PostgreSQL store that people use to look after messages."""

    @abstractmethod
    async def _read(self, query: str, *args: Any) -> list[Any]: ...
    @abstractmethod
    async def _retry_dead(
        self, ids: Sequence[int], act: Act | Callable[[Any], Act], by: str, now: datetime | None
    ) -> set[int]: ...
    @abstractmethod
    async def _unpark(self, queue: str, ordering_key: str, act: Act, by: str, now: datetime | None) -> bool: ...
    @abstractmethod
    async def _transact(self, work: Callable[[Any], Awaitable[R]]) -> R: ...
    @abstractmethod
    async def _known_routes(self) -> KnownRoutes: ...

    # --------------------------------------------------------------- reading

    @in_one_incarnation
    async def messages(self, wanted: MessageFilter) -> list[Message]:
        before = NO_END if wanted.before_id is None else wanted.before_id
        page = before, wanted.limit, statuses(wanted)
        if wanted.event_id is not None:
            rows = await self._read(SQL.event_messages, wanted.event_id, *page, wanted.subscriber)
        else:
            one = wanted.subscriber
            whose = subscribers_in(await self._known_routes()) if one is None else [one]
            rows = await self._read(SQL.messages_page, whose, *page)
        return [to_message(row, same) for row in rows]

    async def message(self, message_id: int) -> Message | None:
        rows = await self._read(SQL.message, message_id)
        return to_message(rows[0], same) if rows else None

    async def attempts(self, message_id: int) -> list[Attempt]:
        return [to_attempt(row, same) for row in await self._read(SQL.message_attempts, message_id)]

    async def subscriber_stats(self, subscriber: int, *, now: datetime | None = None) -> SubscriberStats:
        (numbers,) = await self._read(SQL.subscriber_numbers, subscriber, COUNTED, now)
        return to_stats(numbers, await self._read(SQL.attempt_times, subscriber, SAMPLE, now), same)

    async def blocked_keys(self, subscriber: int, *, limit: int = 50, after: str | None = None) -> list[BlockedKey]:
        rows = await self._read(SQL.blocked_keys, subscriber, after, limit, BEHIND)
        return [to_blocked_key(row, same) for row in rows]

    async def hub_gauges(self, *, most: int = 100) -> HubGauges:
        pending = [(row[0], row[1]) for row in await self._read(SQL.backlogs, BEHIND, most)]
        return to_gauges(pending, (await self._read(SQL.standstill, COUNTED))[0])

    # ------------------------------------------------------------------ keys

    async def retry_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        # The lane is not locked: whoever retries the dead locks letters before lanes, and a head that has changed by
        # then is judged as it is.
        rows = await self._read(SQL.head_of_key, lane_id(consumer_of(subscriber), key), subscriber)
        act = acts.key_of_subscriber("retry", subscriber, key)
        return bool(rows) and await self._retry_message(rows[0]["id"], act, by, now)

    async def skip_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        lane = lane_id(consumer_of(subscriber), key)

        async def work(connection: Any) -> tuple[bool, settling.Freed]:
            await connection.fetch(SQL.hold_lanes, [lane])
            heads = await connection.fetch(SQL.head_of_key, lane, subscriber)
            if not heads:
                return False, []
            buried = await _bury(connection, heads[0]["id"], Reason.SKIPPED, now)
            if not await connection.fetch(SQL.unpark, lane, by, now):  # one that would not hold its key has left
                if buried is None:
                    return False, []
                await _log(connection, buried, "SKIPPED", by, now)
            return True, await settling.advance(connection, {lane: None}, now)

        return await self._free(acts.key_of_subscriber("skip", subscriber, key), work, now)

    async def unpark_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        act = acts.key_of_subscriber("unpark", subscriber, key)
        done = await self._unpark(consumer_of(subscriber), key, act, by, now)
        if done:
            self._announce(HUB)
        return done

    # -------------------------------------------------------------- messages

    async def retry_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        return await self._retry_message(message_id, acts.of_message("retry", message_id), by, now)

    async def _retry_message(self, message_id: int, act: Act, by: str, now: datetime | None) -> bool:
        await self.open()
        freed = await self._transact(audited(act, fetching(SQL.hasten, message_id, by, now), now))
        if freed:
            self._memory.floors.free([(row[0], row[1]) for row in freed])
            self._announce(HUB)
            return True
        letter = await self.dead_letter(message_id)
        if letter is None or letter.subscriber is None or letter.retried_at is not None:
            return False
        return bool(await self._retry_dead([message_id], act, by, now))

    async def cancel_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        async def cancel(connection: Any) -> bool:
            buried = await _bury(connection, message_id, Reason.CANCELLED, now, beforehand=(SQL.log_cancelled, by))
            return buried is not None

        return await self._decide(message_id, "cancel", cancel, now)

    async def bury_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        async def bury(connection: Any) -> bool:
            buried = await _bury(connection, message_id, Reason.MANUAL, now)
            if buried is not None:
                await _log(connection, buried, "RESET", by, now, error=MOVED)
            return buried is not None

        return await self._decide(message_id, "bury", bury, now)

    async def _decide(
        self, message_id: int, what: str, decision: Callable[[Any], Awaitable[bool]], now: datetime | None
    ) -> bool:
        """Lock the key of a message, which it has for life, and then the message; afterwards the key goes on."""

        async def work(connection: Any) -> tuple[bool, settling.Freed]:
            rows = await connection.fetch(SQL.open_message, message_id)
            if not rows:
                return False, []
            lane = rows[0]["lane"]
            if lane is not None:
                await connection.fetch(SQL.hold_lanes, [lane])
            await connection.fetch(SQL.hold_deliveries, [message_id])
            done = await decision(connection)
            return done, await settling.advance(connection, {lane: None}, now) if done and lane is not None else []

        return await self._free(acts.of_message(what, message_id), work, now)

    async def _free(
        self, act: Act, work: Callable[[Any], Awaitable[tuple[bool, settling.Freed]]], now: datetime | None
    ) -> bool:
        await self.open()
        done, freed = await self._transact(audited(act, work, now))
        self._memory.floors.free(freed)
        if freed:
            self._announce(HUB)
        return done

    # ---------------------------------------------------------- dead letters

    async def dead_letters(self, wanted: DeadFilter) -> DeadLetterPage:
        before = NO_END if wanted.before_id is None else wanted.before_id
        rows = await self._filtered(SQL.letters_latest, *_fitting(wanted), before, wanted.limit, wanted.offset)
        ((total,),) = await self._filtered(SQL.count_fitting, *_fitting(wanted), COUNTED, False)
        return DeadLetterPage([to_dead_letter(row, same) for row in rows], total)

    async def _filtered(self, query: str, *args: Any) -> list[Any]:
        async def work(connection: Any) -> list[Any]:
            await connection.execute(SQL.plan_afresh)
            rows: list[Any] = await connection.fetch(query, *args)
            return rows

        await self.open()
        return await self._transact(work)

    async def count_dead(self, wanted: DeadFilter) -> int:
        ((count,),) = await self._filtered(SQL.count_fitting, *_fitting(wanted), None, True)
        return int(count)

    async def dead_briefs(self, wanted: DeadFilter, *, limit: int) -> list[DeadBrief]:
        rows = await self._filtered(SQL.letters_brief, *_fitting(wanted), limit, LONGEST)
        return [DeadBrief(*row) for row in rows]

    async def dead_letter(self, delivery_id: int) -> DeadLetter | None:
        rows = await self._read(SQL.letter, delivery_id)
        return to_dead_letter(rows[0], same) if rows else None

    @in_one_incarnation
    async def announce_dead(self, compose: Compose, *, limit: int = 100, now: datetime | None = None) -> int:
        async def work(connection: Any) -> tuple[int, Sequence[NewEvent], set[Route]]:
            rows = await connection.fetch(SQL.unannounced, limit)
            if not rows:
                return 0, [], set()
            letters = [to_dead_letter(row, same) for row in rows]
            events = compose(letters)
            wanted = {event.route for event in events}
            routes = {route: self._memory.routes[route] for route in wanted if route in self._memory.routes}
            if len(routes) < len(wanted):
                return 0, [], wanted
            if events:
                routes = await self._share_routes(connection, routes)
                (answer,) = await publish_calls(connection, [events], routes, now, shared=True)
                if isinstance(answer, Exception):
                    raise answer
            await connection.execute(SQL.mark_announced, [letter.letter_id for letter in letters])
            return len(letters), events, set()

        await self.open()
        count, events, unknown = await self._transact(work)
        while unknown:  # a route is made known in a transaction of its own
            await self._learn_routes(unknown)
            count, events, unknown = await self._transact(work)
        for queue in {event.route.queue for event in events if event.work} | {FANOUT for e in events if e.broadcast}:
            self._announce(queue)
        return count

    # ------------------------------------------------------------- portions

    async def _last_letter(self) -> int:
        ((last,),) = await self._read(SQL.last_letter)
        return int(last)

    async def _oldest_dead(
        self, wanted: DeadFilter, *, after: int, last: int, limit: int, retry: bool
    ) -> list[tuple[int, int]]:
        rows = await self._filtered(SQL.letters_oldest, *_fitting(wanted), after, last, limit, retry)
        return [(row[0], row[1]) for row in rows]

    async def _old_letters(self, before: datetime, *, by: str, queue: str | None, after: int, limit: int) -> list[int]:
        return [row[0] for row in await self._read(SQL.old_letters, by, before, queue, after, limit)]

    async def _purge_letters(self, letters: Sequence[int], *, retried_before: datetime | None) -> int:
        async def work(connection: Any) -> tuple[int, list[int]]:
            held = [row[0] for row in await connection.fetch(SQL.hold_letters, letters, retried_before)]
            events = [event for event, was_open in await connection.fetch(SQL.purge, held) if was_open]
            await connection.fetch(SQL.hold_events, events)
            await connection.execute(SQL.delete_events, events)
            return len(events), events

        purged, _ = await self._transact(audited(lambda done: acts.purge_dead(*done), work))
        return purged

    async def _prune_attempts(self, older_than: timedelta, limit: int, now: datetime | None) -> int:
        ((count,),) = await self._read(SQL.prune_attempts, older_than, limit, now)
        return int(count)


async def _bury(
    connection: Any, message_id: int, reason: Reason, now: datetime | None, *, beforehand: tuple[str, str] | None = None
) -> Any | None:
    """Give up a message whose key is locked, whoever holds it; the row as it was, or None when it is not open."""
    await connection.fetch(SQL.hold_deliveries, [message_id])
    rows = await connection.fetch(SQL.open_message, message_id)
    if not rows or rows[0]["state"] == State.PARKED:
        return None
    row = rows[0]
    if beforehand is not None:
        statement, by = beforehand
        await connection.execute(statement, message_id, by, now)
    leased = row["state"] == State.LEASED
    report = Report(Held(row["id"], row["fence"], row["lane"]), Bury(None, reason), leased=leased)
    await settling.bury(connection, [report], now, last_action="FAILED")
    return row


async def _log(
    connection: Any, row: Any, action: str, by: str, now: datetime | None, *, error: str | None = None
) -> None:
    await connection.execute(
        SQL.log_operator, row["event_id"], row["id"], action, by, row["attempts"], row["fence"], error, now
    )


def _fitting(wanted: DeadFilter) -> tuple[Any, ...]:
    """The filter as the statements take it, without pages."""
    return (
        None if wanted.ids is None else list(wanted.ids),
        wanted.queue,
        wanted.subscriber,
        wanted.type,
        wanted.reason,
        wanted.error,
        wanted.dead_since,
        wanted.dead_until,
    )
