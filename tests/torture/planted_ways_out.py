"""Bugs on purpose in what is in order, what is sent, what is copied and what is synced; see planted.py."""

import asyncio
import math
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import apsw

from eventhub.core.subscribers import Subscriber
from eventhub.hub import attempts, dispatcher
from eventhub.hub.dispatcher import Dispatcher
from eventhub.hub.sending import WebhookAnswer, WebhookRequest
from eventhub.store import opening
from eventhub.store.postgres import publishing as postgres_publishing
from eventhub.store.postgres import settling as postgres_settling
from eventhub.store.postgres.marker_floor import MarkerFloor
from eventhub.store.sqlite import connection as connecting
from eventhub.store.sqlite import engine, settling
from eventhub.store.sqlite import publishing as sqlite_publishing
from eventhub.store.sqlite.delivering import SqliteDelivering
from eventhub.store.values import Published
from eventhub.testing.torture.roles import publisher
from tests.torture.planting import change, put

FEW_KEYS = 2
"""So that events meet at them."""
SQLITE = sqlite_publishing.SQL
POSTGRES = postgres_publishing.SQL


# ---------------------------------------------------------------------------- keys


def let_retries_be_overtaken() -> None:
    """Whoever waits for a retry leaves its key, and the next steps forward."""
    apply = settling._apply
    change(SQLITE, "fail", "failures = failures + 1", "failures = failures + 1, lane = NULL")

    def applied(connection: apsw.Connection, accepted: list[Any], routes: Any, now: int) -> None:
        apply(connection, accepted, routes, now)
        settling.advance(connection, [row[4] for row, _ in accepted if row[4] is not None], now)

    put(publisher, "ORDERING_KEYS", FEW_KEYS)
    put(settling, "_apply", applied)


def free_keys_without_lock() -> None:
    """PostgreSQL: a publisher goes behind a head that is leaving at this moment, and nobody wakes it."""
    advance = postgres_settling.advance

    async def advanced(connection: Any, heads: Any, now: datetime | None) -> postgres_settling.Freed:
        freed = await advance(connection, heads, now)
        await asyncio.sleep(0.1)  # nothing is committed
        return freed

    put(publisher, "ORDERING_KEYS", FEW_KEYS)
    put(postgres_settling, "advance", advanced)
    change(POSTGRES, "hold_lanes", "FOR UPDATE", "")
    change(
        POSTGRES, "lock_lanes", "DO UPDATE SET returned = true WHERE $4::boolean AND NOT known.returned", "DO NOTHING"
    )
    change(POSTGRES, "advance", "DELETE FROM eventhub.lanes WHERE", "DELETE FROM eventhub.lanes WHERE false AND")


def send_blocked_keys() -> None:
    """Dispatchers take what stands behind another of its key."""

    def connected(path: str, **rest: Any) -> apsw.Connection:
        connection = connecting.connect(path, **rest)
        if not rest.get("read_only"):
            connection.execute("DROP INDEX IF EXISTS eventhub_deliveries_head")
        return connection

    put(publisher, "ORDERING_KEYS", FEW_KEYS)
    put(engine, "connect", connected)
    change(SQLITE, "claim_messages", "d.state = 0", "d.state IN (0, 2)")
    change(SQLITE, "lease", "+state = 0", "+state IN (0, 2)")


# ------------------------------------------------------------------------ webhooks


def hand_out_without_lock() -> None:
    """PostgreSQL: two processes hand out the same markers."""
    POSTGRES.hold_fanout = "SELECT true"
    change(POSTGRES, "fanout_moment", "FROM eventhub.meta", "FROM pg_sleep(0.02), eventhub.meta")


def pass_over_late_commits() -> None:
    """PostgreSQL: the fan-out goes on above what it handed out last, whatever is committed below later."""

    def passed(self: MarkerFloor, last: int, **_: int) -> None:
        self.start = last + 1

    insert: Any = postgres_publishing._insert

    async def inserted(*arguments: Any, **named: Any) -> list[Published]:
        await asyncio.sleep(random.uniform(0, 0.1))  # ids are taken, nothing is committed
        stored: list[Published] = await insert(*arguments, **named)
        return stored

    put(MarkerFloor, "passed", passed)
    put(postgres_publishing, "_insert", inserted)


def lose_a_subscriber() -> None:
    """Of every seven events handed out, one misses a message."""
    chosen = SqliteDelivering._insert_messages

    def inserted(self: Any, connection: Any, handed: Any, placements: list[Any], now: int) -> None:
        chosen(self, connection, handed, [one for one in placements if one.event_id % 7], now)

    put(SqliteDelivering, "_insert_messages", inserted)


def send_twice() -> None:
    """Every message is sent a second time, for good measure."""
    send = Dispatcher._send

    async def sent(self: Any, *arguments: Any) -> Any:
        await send(self, *arguments)
        return await send(self, *arguments)

    put(Dispatcher, "_send", sent)


def answer_without_sending() -> None:
    """Of every seven messages one is called delivered, and was never sent."""
    send = Dispatcher._send

    async def sent(self: Any, line: Any, claim: Any, tenure: Any) -> Any:
        if claim.held.id % 7:
            return await send(self, line, claim, tenure)
        return WebhookRequest(line.ready.subscriber.url, {}, b""), WebhookAnswer(status=200)

    put(Dispatcher, "_send", sent)


def misread_answers() -> None:
    """Of every seven messages the first answer is taken for a failure, whatever it was."""
    send = Dispatcher._send

    async def sent(self: Any, line: Any, claim: Any, tenure: Any) -> Any:
        request, answer = await send(self, line, claim, tenure)
        return request, WebhookAnswer(status=503) if claim.attempts == 1 and claim.held.id % 7 == 0 else answer

    put(Dispatcher, "_send", sent)


def send_after_the_lease() -> None:
    """A dispatcher that was held up sends what it has claimed, though the lease is over and others may have it."""
    send, composed = Dispatcher._send, attempts.compose

    async def held_up(self: Any, line: Any, claim: Any, tenure: Any) -> Any:
        if claim.attempts == 1 and claim.held.id % 7 == 0:
            await asyncio.sleep(1.5)
        return await send(self, line, claim, tenure)

    def compose(*arguments: Any, until: float, **rest: Any) -> WebhookRequest:
        return composed(*arguments, until=until + math.inf, **rest)

    put(Subscriber, "lease", property(lambda _: timedelta(seconds=0.5)))
    put(Dispatcher, "_send", held_up)
    put(dispatcher, "compose", compose)


# -------------------------------------------------------------------------- content


def alter_payloads() -> None:
    """Workers get something else than what was published."""
    for name in ("claim_route", "claim_routes"):
        change(SQLITE, name, "e.payload,", "replace(e.payload, '\"n\":', '\"m\":'),")


def alter_messages() -> None:
    """Receivers get something else than what was published."""
    change(SQLITE, "claim_messages", "e.payload,", "replace(e.payload, '\"n\":', '\"m\":'),")


# ----------------------------------------------------------------------------- lake


def number_copies_anew(put: Callable[[Any, str, Any], Any] = put) -> None:
    """The lake does not know which copies it has, as when they are Spark's batches and the checkpoint is lost."""
    from eventhub.lake.tables import LakeTable
    from eventhub.pipeline import extraction, running

    replace = LakeTable.replace

    async def agreed(*_: Any) -> None:
        return None

    def replaced(self: Any, *arguments: Any, source: str, after: int, **rest: Any) -> bool:
        return replace(self, *arguments, source=f"{source}/{uuid4().hex}", **rest)

    put(extraction, "check_agreement", agreed)
    put(running, "check_agreement", agreed)
    put(LakeTable, "last_number", lambda self, source: 0)
    put(LakeTable, "replace", replaced)


# ----------------------------------------------------------------------------- disk


def never_sync() -> None:
    """Nothing is written to the disk before it is acknowledged."""
    put(opening, "_SYNCHRONOUS", ("OFF",))
