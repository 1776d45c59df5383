"""Bugs on purpose: each function breaks one code path or statement in the process that calls it, and nowhere else.

A checker that does not find them would not find real ones either. Some wait a little at the weak spot, so that a short
run meets it: the bug is the same without the wait, only rarer.
"""

import asyncio
import itertools
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw
import msgspec

from eventhub.core.lifecycle import Complete, Outcome
from eventhub.queue import verdicts
from eventhub.queue.jobs import Job
from eventhub.queue.passes import Passes
from eventhub.store import Store
from eventhub.store.incarnations import Incarnation
from eventhub.store.postgres import publishing as postgres_publishing
from eventhub.store.postgres.memory import HubConnection, Incarnations
from eventhub.store.sqlite import SqliteStore, engine, settling, thread
from eventhub.store.sqlite import publishing as sqlite_publishing
from eventhub.store.sqlite.files import DatabaseFiles
from eventhub.store.sqlite.thread import ConnectionThread
from eventhub.store.values import NewEvent, Published, Tended
from eventhub.testing.torture.roles import worker
from tests.torture.planting import change, put

SQLITE = sqlite_publishing.SQL
POSTGRES = postgres_publishing.SQL


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

    publish_all = put(SqliteStore, "_publish_all", published)
    put(ConnectionThread, "_transact", transacted)
    put(ConnectionThread, "_deliver", delivered)
    put(thread, "QUICK_SECONDS", 0.0)  # nothing is done in place, where answers are not delivered


def hand_on_open_transactions() -> None:
    """A connection is used again as it is, in a transaction that somebody was cut off from."""
    execute = HubConnection.execute
    left = itertools.count(1)

    async def executed(self: Any, query: str, *arguments: Any, **options: Any) -> str:
        status = await execute(self, query, *arguments, **options)
        if query == "COMMIT;" and next(left) % 5 == 0:
            await execute(self, "BEGIN")
        return status

    async def kept(self: Any) -> None:
        self._top_xact = None

    put(HubConnection, "execute", executed)
    put(HubConnection, "_reset", kept)
    put(HubConnection, "is_in_transaction", lambda _: False)


def ignore_idempotency_keys() -> None:
    """A call that is made again makes another event."""
    publish_calls, deliver = sqlite_publishing.publish_calls, ConnectionThread._deliver

    def published(connection: Any, calls: Sequence[Sequence[NewEvent]], *rest: Any) -> Any:
        unkeyed = [[msgspec.structs.replace(event, idempotency_key=None) for event in call] for call in calls]
        return publish_calls(connection, unkeyed, *rest)

    def delivered(self: Any, jobs: Any, results: Any) -> None:
        time.sleep(0.05)
        deliver(self, jobs, results)

    put(engine, "publish_calls", published)
    put(ConnectionThread, "_deliver", delivered)
    put(thread, "QUICK_SECONDS", 0.0)


def publish_in_two_transactions() -> None:
    """A call with several events is stored half by half."""
    publish = Store.publish

    async def published(self: Store, events: Sequence[NewEvent], **rest: Any) -> Sequence[Published]:
        middle = len(events) // 2
        first = await publish(self, events[:middle], **rest)
        await asyncio.sleep(0.1)
        return [*first, *await publish(self, events[middle:], **rest)]

    put(Store, "publish", published)


# ------------------------------------------------------------------- incarnations


def remember_the_old_incarnation() -> None:
    """Whatever was known of a database is used on the one that it has failed over to."""

    async def identified(self: Incarnations, connection: Any) -> Incarnation:
        return self.current.incarnation

    put(Incarnations, "_identify", identified)


def trust_the_open_file() -> None:
    """What was opened once is written for ever, wherever it is by then."""
    put(DatabaseFiles, "check", lambda _: None)


# --------------------------------------------------------------- claims and ends


def settle_without_fence() -> None:
    """Any report is good for whoever has the delivery now."""
    put(settling, "_is_good", lambda report, row: True)


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

    put(settling, "tend", swept)
    put(SqliteStore, "_tend", _always_tended)
    change(SQLITE, "fail", "AND state = 1", "")


async def _always_tended(self: Any, now: datetime | None, limit: int) -> Tended:
    """Whether or not anything is due."""
    done: Tended = await self._write(lambda connection, at: settling.tend(connection, at, limit), now=now)
    return done


def abandon_within_the_lease() -> None:
    """A lease is not looked at: whatever is claimed is taken back by the next sweep."""
    change(SQLITE, "ended_leases", "due < :now", "due < :now + 60000000")
    put(SqliteStore, "_tend", _always_tended)


def claim_what_is_claimed() -> None:
    """No guard: what somebody holds is claimed again."""
    change(SQLITE, "claim_route", "d.state = 0", "d.state IN (0, 1)")
    change(SQLITE, "claim_routes", "x.state = 0", "x.state IN (0, 1)")
    change(SQLITE, "lease", "+state = 0 AND", "")


def reset_the_fence() -> None:
    """A retry begins with fence 1 again."""
    change(SQLITE, "fail", "failures = failures + 1", "failures = failures + 1, fence = 0")


def never_promote_retries() -> None:
    """What waits for its next attempt waits for ever."""
    change(SQLITE, "due_waiting", "due <= :now", "due <= :now - 3600000000")


def complete_without_handling() -> None:
    """Of every seven events one is called completed, and its handlers never ran."""
    run = Passes.run

    async def ran(self: Passes, job: Job) -> Outcome:
        return await run(self, job) if job.event.id % 7 else Complete()

    put(Passes, "run", ran)


def remove_the_neighbour() -> None:
    """Whoever completes takes the next delivery along."""
    change(
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

    put(settling, "abandon", abandoned)


def allow_one_more() -> None:
    """The limit is off by one."""

    def failed(error: str, *, attempts: int, **rest: Any) -> Outcome:
        return verdicts.after_failure(error, attempts=attempts - 1, **rest)

    put(worker, "after_failure", failed)


def give_up_early() -> None:
    """The limit is off by one, the other way."""

    def failed(error: str, *, attempts: int, **rest: Any) -> Outcome:
        return verdicts.after_failure(error, attempts=attempts + 1, **rest)

    put(worker, "after_failure", failed)


def charge_releases() -> None:
    """A claim that was given back counts as an attempt."""
    change(SQLITE, "release", "attempts = attempts - 1, ", "")


# ------------------------------------------------------------ log and dead letters


def forget_completions() -> None:
    """The log does not say that work was completed."""
    change(SQLITE, "write_log", "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            "SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 WHERE ?3 <> 'COMPLETED'")  # fmt: skip
    change(SQLITE, "log_completed", "ORDER BY c.n", "WHERE false ORDER BY c.n")


def log_the_end_twice() -> None:
    """A second COMPLETED for everything that leaves."""
    remove = settling._remove

    def removed(connection: apsw.Connection, rows: list[tuple[Any, ...]], now: int) -> None:
        ends = [(row[1], row[0], "COMPLETED", row[5], row[6], row[2], None, None, None, now) for row in rows]
        connection.executemany(SQLITE.write_log, ends)
        remove(connection, rows, now)

    put(settling, "_remove", removed)


def bury_without_errors() -> None:
    """Dead letters do not say why."""
    change(SQLITE, "add_error", "WHERE id = ?1", "WHERE id = ?1 AND ?2 IS NULL")


def bury_nothing() -> None:
    """What is given up is gone without a letter."""
    change(SQLITE, "bury", "WHERE d.id = ?1", "WHERE d.id = ?1 AND d.id < 0")
