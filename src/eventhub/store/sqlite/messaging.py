"""Messages and dead letters in SQLite as people see and operate them; decisions are in the writer's next commit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import apsw

from eventhub.core.fingerprints import LONGEST
from eventhub.core.lifecycle import Bury, Reason, State
from eventhub.store import acts
from eventhub.store.audit import Act
from eventhub.store.contract import Store
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
from eventhub.store.routes import KnownRoutes
from eventhub.store.rows import from_micros, micros
from eventhub.store.sqlite import dead, settling
from eventhub.store.sqlite.audit import audited
from eventhub.store.sqlite.connection import clock
from eventhub.store.sqlite.publishing import SQL, ids, publish_calls
from eventhub.store.values import NewEvent, Route, lane_id

__all__ = ["SqliteMessaging"]

R = TypeVar("R")
_MICROSECOND = timedelta(microseconds=1)


class SqliteMessaging(Store):
    """The part of the SQLite store that people use to look after messages."""

    _known: KnownRoutes
    _routes: dict[Route, int]

    @abstractmethod
    async def _read(self, query: str, **named: Any) -> list[tuple[Any, ...]]: ...
    @abstractmethod
    async def _write(self, work: Callable[..., R], *args: Any, now: datetime | None = None) -> R: ...

    # --------------------------------------------------------------- reading

    async def messages(self, wanted: MessageFilter) -> list[Message]:
        page = {
            "before": NO_END if wanted.before_id is None else wanted.before_id,
            "limit": wanted.limit,
            "statuses": apsw.carray(tuple(statuses(wanted))),
        }
        if wanted.event_id is not None:
            named = {"event_id": wanted.event_id, "subscriber": wanted.subscriber}
            rows = await self._read(SQL.event_messages, **page, **named)
        else:
            whose = await self._everyone() if wanted.subscriber is None else [wanted.subscriber]
            rows = await self._read(SQL.messages_page, **page, subscribers=ids(whose)) if whose else []
        return [to_message(row, from_micros) for row in rows]

    async def _everyone(self) -> list[int]:
        self._known.learn(await self._read(SQL.new_routes, after=self._known.last))
        return subscribers_in(self._known)

    async def message(self, message_id: int) -> Message | None:
        rows = await self._read(SQL.message, id=message_id)
        return to_message(rows[0], from_micros) if rows else None

    async def attempts(self, message_id: int) -> list[Attempt]:
        return [to_attempt(row, from_micros) for row in await self._read(SQL.message_attempts, id=message_id)]

    async def subscriber_stats(self, subscriber: int, *, now: datetime | None = None) -> SubscriberStats:
        at = clock(now)
        (numbers,) = await self._read(SQL.subscriber_numbers, subscriber=subscriber, most=COUNTED, now=at)
        times = await self._read(SQL.attempt_times, subscriber=subscriber, most=SAMPLE, now=at)
        return to_stats(numbers, times, from_micros)

    async def blocked_keys(self, subscriber: int, *, limit: int = 50, after: str | None = None) -> list[BlockedKey]:
        rows = await self._read(SQL.blocked_keys, subscriber=subscriber, after=after, limit=limit, most=BEHIND)
        return [to_blocked_key(row, from_micros) for row in rows]

    async def hub_gauges(self, *, most: int = 100) -> HubGauges:
        pending = [(row[0], row[1]) for row in await self._read(SQL.backlogs, most=BEHIND, limit=most)]
        return to_gauges(pending, (await self._read(SQL.standstill, most=COUNTED))[0])

    # ------------------------------------------------------------------ keys

    async def retry_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            head = _head(connection, subscriber, key)
            return head is not None and _retry(connection, head, by, at)

        return await self._decide(acts.key_of_subscriber("retry", subscriber, key), work, now)

    async def skip_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            head = _head(connection, subscriber, key)
            if head is None:
                return False
            row = _bury(connection, head, Reason.SKIPPED, at)
            if not dead.unpark(connection, consumer_of(subscriber), key, by, at):  # one that held no key has left
                _log(connection, row, "SKIPPED", by, at)
            return True

        return await self._decide(acts.key_of_subscriber("skip", subscriber, key), work, now)

    async def unpark_key(self, subscriber: int, key: str, *, by: str, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            return dead.unpark(connection, consumer_of(subscriber), key, by, at)

        return await self._decide(acts.key_of_subscriber("unpark", subscriber, key), work, now)

    # -------------------------------------------------------------- messages

    async def retry_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        act = acts.of_message("retry", message_id)
        return await self._decide(act, lambda connection, at: _retry(connection, message_id, by, at), now)

    async def cancel_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            row = _open(connection, message_id)
            if row is None or row[3] == State.PARKED:
                return False
            connection.execute(SQL.log_cancelled, {"ids": ids([message_id]), "by": by, "now": at})
            return _bury(connection, message_id, Reason.CANCELLED, at) is not None

        return await self._decide(acts.of_message("cancel", message_id), work, now)

    async def bury_message(self, message_id: int, *, by: str, now: datetime | None = None) -> bool:
        def work(connection: apsw.Connection, at: int) -> bool:
            row = _bury(connection, message_id, Reason.MANUAL, at)
            if row is not None:
                _log(connection, row, "RESET", by, at, error=MOVED)
            return row is not None

        return await self._decide(acts.of_message("bury", message_id), work, now)

    async def _decide(self, act: Act, work: Callable[[apsw.Connection, int], bool], now: datetime | None) -> bool:
        await self.open()
        done = await self._write(audited(act, work), now=now)
        if done:
            self._announce(HUB)
        return done

    # ---------------------------------------------------------- dead letters

    async def dead_letters(self, wanted: DeadFilter) -> DeadLetterPage:
        page = {
            "before": NO_END if wanted.before_id is None else wanted.before_id,
            "limit": wanted.limit,
            "offset": wanted.offset,
        }
        rows = await self._read(SQL.letters_latest, **_fitting(wanted), **page)
        ((total,),) = await self._read(SQL.count_fitting, **_fitting(wanted), most=COUNTED, retry=False)
        return DeadLetterPage([to_dead_letter(row, from_micros) for row in rows], total)

    async def count_dead(self, wanted: DeadFilter) -> int:
        ((count,),) = await self._read(SQL.count_fitting, **_fitting(wanted), most=NO_END, retry=True)
        return int(count)

    async def dead_briefs(self, wanted: DeadFilter, *, limit: int) -> list[DeadBrief]:
        rows = await self._read(SQL.letters_brief, **_fitting(wanted), limit=limit, longest=LONGEST)
        return [
            DeadBrief(number, reason, kind, subscriber, from_micros(at), error)
            for _, number, reason, kind, subscriber, at, error in rows
        ]

    async def dead_letter(self, delivery_id: int) -> DeadLetter | None:
        rows = await self._read(SQL.letter, id=delivery_id)
        return to_dead_letter(rows[0], from_micros) if rows else None

    async def announce_dead(self, compose: Compose, *, limit: int = 100, now: datetime | None = None) -> int:
        def work(connection: apsw.Connection, at: int) -> tuple[int, Sequence[NewEvent]]:
            rows = connection.execute(SQL.unannounced, {"limit": limit}).fetchall()
            if not rows:  # another process was faster
                return 0, []
            letters = [to_dead_letter(row, from_micros) for row in rows]
            events = compose(letters)
            if events:
                (answer,) = publish_calls(connection, [events], self._routes, at)
                if isinstance(answer, Exception):
                    raise answer
            connection.execute(SQL.mark_announced, {"ids": ids([letter.letter_id for letter in letters])})
            return len(letters), events

        await self.open()
        if not await self._read(SQL.unannounced, limit=1):  # looking costs no commit
            return 0
        count, events = await self._write(work, now=now)
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
        page = {"after": after, "last": last, "limit": limit, "retry": retry}
        return [(row[0], row[1]) for row in await self._read(SQL.letters_oldest, **_fitting(wanted), **page)]

    async def _old_letters(self, before: datetime, *, by: str, queue: str | None, after: int, limit: int) -> list[int]:
        asked = {"before": micros(before), "by": by, "queue": queue, "after": after, "limit": limit}
        return [number for (number,) in await self._read(SQL.old_letters, **asked)]

    async def _purge_letters(self, letters: Sequence[int], *, retried_before: datetime | None) -> int:
        before = None if retried_before is None else micros(retried_before)

        def work(connection: apsw.Connection, _: int) -> tuple[int, list[int]]:
            return dead.purge(connection, letters, before)

        purged, _ = await self._write(audited(lambda done: acts.purge_dead(*done), work))
        return purged

    async def _prune_attempts(self, older_than: timedelta, limit: int, now: datetime | None) -> int:
        def work(connection: apsw.Connection, at: int) -> int:
            named = {"before": at - older_than // _MICROSECOND, "limit": limit}
            return len(connection.execute(SQL.prune_attempts, named).fetchall())

        await self.open()
        return await self._write(work, now=now)


def _open(connection: apsw.Connection, message_id: int) -> tuple[Any, ...] | None:
    """The row of an open message, as ``settling.standing`` gives it; None when there is none."""
    if connection.execute(SQL.open_message, {"id": message_id}).get is None:
        return None
    return settling.standing(connection, [message_id])[message_id]


def _head(connection: apsw.Connection, subscriber: int, key: str) -> int | None:
    """The first message of a key."""
    lane = lane_id(consumer_of(subscriber), key)
    head: int | None = connection.execute(SQL.head_of_key, {"lane": lane, "subscriber": subscriber}).get
    return head


def _retry(connection: apsw.Connection, message_id: int, by: str, now: int) -> bool:
    for event_id, attempts, fence in connection.execute(SQL.hasten, {"id": message_id}).fetchall():
        connection.execute(SQL.write_log, (event_id, message_id, "RETRIED", by, attempts, fence, None, None, None, now))
        return True
    letter = connection.execute(SQL.letter, {"id": message_id}).fetchone()
    if letter is None or to_dead_letter(letter, from_micros).subscriber is None:
        return False
    return bool(dead.retry_dead(connection, [message_id], by, now))


def _bury(connection: apsw.Connection, message_id: int, reason: Reason, now: int) -> tuple[Any, ...] | None:
    """Give up a message, whoever holds it; the row as it was, or None when it is not open."""
    row = _open(connection, message_id)
    if row is None or row[3] == State.PARKED:
        return None
    settling.bury(connection, [(row, Bury(None, reason))], now, last_action="FAILED")
    return row


def _log(connection: apsw.Connection, row: Any, action: str, by: str, now: int, *, error: str | None = None) -> None:
    number, event_id, fence, attempts = row[0], row[1], row[2], row[6]
    connection.execute(SQL.write_log, (event_id, number, action, by, attempts, fence, None, error, None, now))


def _fitting(wanted: DeadFilter) -> dict[str, Any]:
    """The filter as the statements take it, without pages."""
    return {
        "ids_given": wanted.ids is not None,
        "ids": ids(wanted.ids) if wanted.ids else None,
        "queue": wanted.queue,
        "subscriber": wanted.subscriber,
        "type": wanted.type,
        "reason": wanted.reason,
        "error": wanted.error,
        "since": None if wanted.dead_since is None else micros(wanted.dead_since),
        "until": None if wanted.dead_until is None else micros(wanted.dead_until),
    }
