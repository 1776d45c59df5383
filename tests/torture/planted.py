"""Bugs on purpose: each function breaks one code path or statement in the process that calls it, and nowhere else.

A checker that does not find them would not find real ones either. Some wait a little at the weak spot, so that a short
run meets it: the bug is the same without the wait, only rarer.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import apsw
import msgspec

from eventhub.core.lifecycle import Outcome
from eventhub.hub.dispatcher import Dispatcher
from eventhub.queue import verdicts
from eventhub.store import Store, opening
from eventhub.store.postgres import publishing as postgres_publishing
from eventhub.store.postgres.marker_floor import MarkerFloor
from eventhub.store.sqlite import SqliteStore, engine, settling
from eventhub.store.sqlite import connection as connecting
from eventhub.store.sqlite import publishing as sqlite_publishing
from eventhub.store.sqlite.delivering import SqliteDelivering
from eventhub.store.sqlite.thread import ConnectionThread
from eventhub.store.values import NewEvent, Published, Tended
from eventhub.testing.torture.roles import worker

SQLITE = sqlite_publishing.SQL
POSTGRES = postgres_publishing.SQL


def _change(statements: SimpleNamespace, name: str, old: str, new: str) -> None:
    """Replace a part of a statement; a bug that changes nothing would prove nothing."""
    text = getattr(statements, name)
    assert old in text, f"{name} does not say {old!r} any more"
    setattr(statements, name, text.replace(old, new))


def _replace(owner: Any, name: str, new: Any) -> Any:
    """Put something else in its place; what it was must be there."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return old


# ------------------------------------------------------------------- publishing


def acknowledge_before_commit() -> None:
    """Answers go out while the transaction is still open."""
    transact, deliver = ConnectionThread._transact, ConnectionThread._deliver

    class Later:
        def __init__(self, connection: apsw.Connection) -> None:
            self.connection = connection

        def execute(self, statement: str, *bound: Any) -> Any:
            return None if statement == "COMMIT" else self.connection.execute(statement, *bound)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.connection, name)

    def transacted(self: Any, connection: Any, jobs: Any) -> Any:
        self.uncommitted = connection
        writes = self._begin == "BEGIN IMMEDIATE"
        later: Any = Later(connection) if writes else connection
        return transact(self, later, jobs)

    def delivered(self: Any, jobs: Any, results: Any) -> None:
        deliver(self, jobs, results)
        if self.uncommitted.in_transaction:
            time.sleep(0.1 if getattr(self, "publishes", False) else 0)
            self.uncommitted.execute("COMMIT")

    async def published(self: Any, *arguments: Any) -> Any:
        self._writer.publishes = True
        return await publish_all(self, *arguments)

    publish_all = _replace(SqliteStore, "_publish_all", published)
    _replace(ConnectionThread, "_transact", transacted)
    _replace(ConnectionThread, "_deliver", delivered)


def ignore_idempotency_keys() -> None:
    """A call that is made again makes another event."""
    publish_calls, deliver = sqlite_publishing.publish_calls, ConnectionThread._deliver

    def published(connection: Any, calls: Sequence[Sequence[NewEvent]], *rest: Any) -> Any:
        unkeyed = [[msgspec.structs.replace(event, idempotency_key=None) for event in call] for call in calls]
        return publish_calls(connection, unkeyed, *rest)

    def delivered(self: Any, jobs: Any, results: Any) -> None:
        time.sleep(0.05)
        deliver(self, jobs, results)

    _replace(engine, "publish_calls", published)
    _replace(ConnectionThread, "_deliver", delivered)


def publish_in_two_transactions() -> None:
    """A call with several events is stored half by half."""
    publish = Store.publish

    async def published(self: Store, events: Sequence[NewEvent], **rest: Any) -> list[Published]:
        middle = len(events) // 2
        first = await publish(self, events[:middle], **rest)
        await asyncio.sleep(0.1)
        return first + await publish(self, events[middle:], **rest)

    _replace(Store, "publish", published)


# --------------------------------------------------------------- claims and ends


def settle_without_fence() -> None:
    """Any report is good for whoever has the delivery now."""
    _replace(settling, "_is_good", lambda report, row: True)


def sweep_by_id_alone() -> None:
    """The sweep takes back what had ended a moment ago once more, whoever has it by now."""
    tend = settling.tend
    ended: dict[int, float] = {}

    def swept(connection: apsw.Connection, now: int, limit: int) -> Tended:
        rows: list[Any] = connection.execute(SQLITE.ended_leases, {"now": now, "limit": limit}).fetchall()
        done = tend(connection, now, limit)
        old = [number for number, since in ended.items() if time.monotonic() > since + 0.05]
        if old:
            settling.abandon(connection, [(number,) for number in old], now)
        for number in old:
            del ended[number]
        ended.update({row[0]: time.monotonic() for row in rows})
        return done

    _replace(settling, "tend", swept)
    _replace(SqliteStore, "_tend", _always_tended)
    _change(SQLITE, "fail", "AND state = 1", "")


async def _always_tended(self: Any, now: datetime | None, limit: int) -> Tended:
    """Whether or not anything is due."""
    done: Tended = await self._write(lambda connection, at: settling.tend(connection, at, limit), now=now)
    return done


def abandon_within_the_lease() -> None:
    """A lease is not looked at: whatever is claimed is taken back by the next sweep."""
    _change(SQLITE, "ended_leases", "due < :now", "due < :now + 60000000")
    _replace(SqliteStore, "_tend", _always_tended)


def claim_what_is_claimed() -> None:
    """No guard: what somebody holds is claimed again."""
    _change(SQLITE, "claim_route", "d.state = 0", "d.state IN (0, 1)")
    _change(SQLITE, "claim_routes", "x.state = 0", "x.state IN (0, 1)")
    _change(SQLITE, "lease", "+state = 0 AND", "")


def reset_the_fence() -> None:
    """A retry begins with fence 1 again."""
    _change(SQLITE, "fail", "failures = failures + 1", "failures = failures + 1, fence = 0")


def never_promote_retries() -> None:
    """What waits for its next attempt waits for ever."""
    _change(SQLITE, "due_waiting", "due <= :now", "due <= :now - 3600000000")


def remove_the_neighbour() -> None:
    """Whoever completes takes the next delivery along."""
    _change(
        SQLITE,
        "remove",
        "WHERE id IN (SELECT value FROM carray(:ids))",
        "WHERE id IN (SELECT value FROM carray(:ids)) OR state = 0 AND id - 1 IN (SELECT value FROM carray(:ids))",
    )


# ----------------------------------------------------------------------- counting


def abandon_uncounted() -> None:
    """An abandoned attempt is not charged, so that poison is tried for ever."""
    abandon = settling.abandon

    def abandoned(connection: apsw.Connection, held: list[tuple[Any, ...]], now: int) -> Any:
        done = abandon(connection, held, now)
        numbers = sqlite_publishing.ids([row[0] for row in held])
        statement = "UPDATE eventhub_deliveries SET attempts = attempts - 1 WHERE id IN (SELECT value FROM carray(?))"
        connection.execute(statement, (numbers,))
        return done

    _replace(settling, "abandon", abandoned)


def allow_one_more() -> None:
    """The limit is off by one."""

    def failed(error: str, *, attempts: int, **rest: Any) -> Outcome:
        return verdicts.after_failure(error, attempts=attempts - 1, **rest)

    _replace(worker, "after_failure", failed)


def give_up_early() -> None:
    """The limit is off by one, the other way."""

    def failed(error: str, *, attempts: int, **rest: Any) -> Outcome:
        return verdicts.after_failure(error, attempts=attempts + 1, **rest)

    _replace(worker, "after_failure", failed)


def charge_releases() -> None:
    """A claim that was given back counts as an attempt."""
    _change(SQLITE, "release", "attempts = attempts - 1, ", "")


# ------------------------------------------------------------ log and dead letters


def forget_completions() -> None:
    """The log does not say that work was completed."""
    _change(SQLITE, "write_log", "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE ?3 <> 'COMPLETED'")  # fmt: skip


def log_the_end_twice() -> None:
    """A second COMPLETED for everything that leaves."""
    remove = settling._remove

    def removed(connection: apsw.Connection, rows: list[tuple[Any, ...]], now: int) -> None:
        ends = [(row[1], row[0], "COMPLETED", row[5], row[6], row[2], None, None, None, now) for row in rows]
        connection.executemany(SQLITE.write_log, ends)
        remove(connection, rows, now)

    _replace(settling, "_remove", removed)


def bury_without_errors() -> None:
    """Dead letters do not say why."""
    _change(SQLITE, "add_error", "WHERE id = ?1", "WHERE id = ?1 AND ?2 IS NULL")


def bury_nothing() -> None:
    """What is given up is gone without a letter."""
    _change(SQLITE, "bury", "WHERE d.id = ?1", "WHERE d.id = ?1 AND d.id < 0")


# ---------------------------------------------------------------------------- keys


def let_retries_be_overtaken() -> None:
    """Whoever waits for a retry leaves its key, and the next steps forward."""
    apply = settling._apply
    _change(SQLITE, "fail", "failures = failures + 1", "failures = failures + 1, lane = NULL")

    def applied(connection: apsw.Connection, accepted: list[Any], routes: Any, now: int) -> None:
        apply(connection, accepted, routes, now)
        settling.advance(connection, [row[4] for row, _ in accepted if row[4] is not None], now)

    _replace(settling, "_apply", applied)


def free_keys_without_lock() -> None:
    """PostgreSQL: a publisher goes behind a head that is leaving at this moment, and nobody wakes it."""
    _change(POSTGRES, "hold_lanes", "FOR UPDATE", "")
    _change(POSTGRES, "lock_lanes", "DO UPDATE SET consumer = excluded.consumer", "DO NOTHING")
    _change(POSTGRES, "drop_lanes", "AND NOT EXISTS", "AND pg_sleep(0.15) IS NOT NULL AND NOT EXISTS")


def send_blocked_keys() -> None:
    """Dispatchers take what stands behind another of its key."""

    def connected(path: str, **rest: Any) -> apsw.Connection:
        connection = connecting.connect(path, **rest)
        if not rest.get("read_only"):
            connection.execute("DROP INDEX IF EXISTS eventhub_deliveries_head")
        return connection

    _replace(engine, "connect", connected)
    _change(SQLITE, "claim_messages", "d.state = 0", "d.state IN (0, 2)")
    _change(SQLITE, "lease", "+state = 0", "+state IN (0, 2)")


# ------------------------------------------------------------------------ webhooks


def hand_out_without_lock() -> None:
    """PostgreSQL: two processes hand out the same markers."""
    POSTGRES.hold_fanout = "SELECT true"
    _change(POSTGRES, "fanout_moment", "FROM eventhub.meta", "FROM pg_sleep(0.02), eventhub.meta")


def pass_over_late_commits() -> None:
    """PostgreSQL: the fan-out goes on above what it handed out last, whatever is committed below later."""

    def passed(self: MarkerFloor, last: int, **_: int) -> None:
        self.start = last + 1

    insert: Any = postgres_publishing._insert

    async def inserted(*arguments: Any) -> list[Published]:
        await asyncio.sleep(random.uniform(0, 0.1))  # ids are taken, nothing is committed
        stored: list[Published] = await insert(*arguments)
        return stored

    _replace(MarkerFloor, "passed", passed)
    _replace(postgres_publishing, "_insert", inserted)


def lose_a_subscriber() -> None:
    """Of every seven events handed out, one misses a message."""
    chosen = SqliteDelivering._insert_messages

    def inserted(self: Any, connection: Any, handed: Any, placements: list[Any], now: int) -> None:
        chosen(self, connection, handed, [one for one in placements if one.event_id % 7], now)

    _replace(SqliteDelivering, "_insert_messages", inserted)


def send_twice() -> None:
    """Every message is sent a second time, for good measure."""
    send = Dispatcher._send

    async def sent(self: Any, *arguments: Any) -> Any:
        await send(self, *arguments)
        return await send(self, *arguments)

    _replace(Dispatcher, "_send", sent)


# -------------------------------------------------------------------------- content


def alter_payloads() -> None:
    """Workers get something else than what was published."""
    for name in ("claim_route", "claim_routes"):
        _change(SQLITE, name, "e.payload,", "replace(e.payload, '\"n\":', '\"m\":'),")


def alter_messages() -> None:
    """Receivers get something else than what was published."""
    _change(SQLITE, "claim_messages", "e.payload,", "replace(e.payload, '\"n\":', '\"m\":'),")


# ----------------------------------------------------------------------------- lake


def number_copies_anew(put: Callable[[Any, str, Any], Any] = _replace) -> None:
    """The lake does not know which copies it has, as when they are Spark's batches and the checkpoint is lost."""
    from eventhub.lake.tables import LakeTable
    from eventhub.pipeline import extraction

    replace = LakeTable.replace

    async def agreed(*_: Any) -> None:
        return None

    def replaced(self: Any, *arguments: Any, source: str, after: int, **rest: Any) -> bool:
        return replace(self, *arguments, source=f"{source}/{uuid4().hex}", **rest)

    put(extraction, "check_agreement", agreed)
    put(LakeTable, "last_number", lambda self, source: 0)
    put(LakeTable, "replace", replaced)


# ----------------------------------------------------------------------------- disk


def never_sync() -> None:
    """Nothing is written to the disk before it is acknowledged."""
    _replace(opening, "_SYNCHRONOUS", ("OFF",))
