"""Migrations while others work: behind a long reader they keep nobody waiting; an index grows beside the writers."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
import structlog

from eventhub.store import open_store
from eventhub.store.postgres.connection import open_pool
from eventhub.store.postgres.memory import HubConnection, Incarnations
from eventhub.store.postgres.schema import migrate
from eventhub.store.postgres.server import Server
from eventhub.store.queries import load_migrations

BEFORE = 7
"""The next migration after this one adds a column to the log."""
WRITE = "INSERT INTO eventhub.event_log (event_id, delivery_id, action, created_at) VALUES (1, 1, 'PUBLISHED', now())"
EVENT = "INSERT INTO eventhub.events (id, route, type, payload, created_at) VALUES ($1, 1, 'a', '1', now())"
LOG_WAITS = """
SELECT count(*) FROM pg_locks
WHERE NOT granted AND mode = 'AccessExclusiveLock' AND relation = 'eventhub.event_log'::regclass
"""
LONGEST = 2.0
NUMBER = 9001
CONCURRENT = """-- concurrently
-- What this index is for.
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_title
ON eventhub.events (title);
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_description ON eventhub.events (description);
"""


@pytest.fixture
async def old_url(bare_postgres_url: str) -> str:
    """A database whose tables an older version has made."""
    async with connected(bare_postgres_url) as connection:
        await connection.execute("CREATE SCHEMA eventhub")
        for number, _, script in load_migrations("eventhub.store.postgres"):
            if number <= BEFORE:
                await connection.execute(script)
        await connection.execute(f"INSERT INTO eventhub.meta VALUES ('schema_version', '{BEFORE}')")
        await connection.execute("SELECT eventhub.make_log_days((now() AT TIME ZONE 'UTC')::date, 8)")
    return bare_postgres_url


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not await condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


@pytest.mark.alone
async def test_a_migration_behind_a_long_reader_keeps_nobody_waiting(old_url: str) -> None:
    """A dump holds the log open; publishers of the old version go on until it has ended, and so does the migration."""
    opening: list[asyncio.Task[Any]] = []
    longest = [0.0]

    async def write() -> None:
        async with connected(old_url) as connection:
            while True:
                began = time.monotonic()
                await connection.execute(WRITE)
                longest[0] = max(longest[0], time.monotonic() - began)

    async with connected(old_url) as dump, connected(old_url) as looker:
        stores = [open_store(old_url) for _ in range(3)]
        reading = dump.transaction()
        await reading.start()
        await dump.execute("LOCK TABLE eventhub.event_log IN ACCESS SHARE MODE")
        writing = asyncio.create_task(write())
        with structlog.testing.capture_logs() as logs:
            opening = [asyncio.create_task(store.open()) for store in stores]

            async def waits() -> bool:
                return bool(await looker.fetchval(LOG_WAITS))

            async def gave_up() -> bool:
                return not await looker.fetchval(LOG_WAITS)

            for _ in range(3):
                await until(waits)
                await until(gave_up)
            assert not any(task.done() for task in opening)
        await reading.rollback()
        await asyncio.gather(*opening)
        assert await looker.fetchval("SELECT value::integer FROM eventhub.meta WHERE key = 'schema_version'") > BEFORE
        assert not writing.done()
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        for store in stores:
            await store.close()
    assert 0 < longest[0] < LONGEST
    said = [entry for entry in logs if entry["event"].startswith("a migration waits for a table")]
    assert len(said) == 1, "the others wait for their turn, not for the table"


async def apply(url: str) -> None:
    server = Server(url)
    incarnations = Incarnations(url, lambda: None)
    pool = await open_pool(server, 2, connection_class=HubConnection, init=incarnations.check)
    try:
        known = [*load_migrations("eventhub.store.postgres"), (NUMBER, "titles", CONCURRENT)]
        assert await migrate(server, pool, known) == NUMBER
    finally:
        pool.terminate()


async def indexes(connection: Any) -> dict[str, bool]:
    rows = await connection.fetch(
        "SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE c.relname IN ('events_title', 'events_description')"
    )
    return {row[0]: row[1] for row in rows}


async def test_an_index_is_built_while_writers_go_on_and_after_a_kill_it_is_built_anew(postgres_url: str) -> None:
    async with connected(postgres_url) as writer, connected(postgres_url) as looker:
        open_transaction = writer.transaction()
        await open_transaction.start()
        await writer.execute(EVENT, 1)
        building = asyncio.create_task(apply(postgres_url))
        await until(lambda: indexes(looker))
        assert await indexes(looker) == {"events_title": False}, "it waits for the writer to end"
        async with asyncio.timeout(60):
            await looker.execute(EVENT, 2)
        killed = await looker.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND query LIKE 'CREATE INDEX CONCURRENTLY%'"
        )
        assert killed == 1
        with pytest.raises(Exception, match=r"terminat|closed"):
            await building
        await open_transaction.rollback()
        assert await indexes(looker) == {"events_title": False}, "what an interrupted building leaves"
        await asyncio.gather(*(apply(postgres_url) for _ in range(3)))
        assert await indexes(looker) == {"events_title": True, "events_description": True}
