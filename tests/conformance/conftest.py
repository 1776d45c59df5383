"""One store of each engine in turn, and more of them on the same database where a test needs several processes."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import asyncpg
import pytest

from eventhub.store import Store, open_store
from tests.postgres_cluster import PostgresCluster

OpenAnother = Callable[[], Awaitable[Store]]

EMPTY = """
DO $$
DECLARE name text;
BEGIN
  FOR name IN SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'eventhub'::regnamespace
              AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'meta' LOOP
    EXECUTE 'DELETE FROM ' || name;
  END LOOP;
  UPDATE eventhub.meta SET value = '0' WHERE key = 'clock';
END $$
"""


@pytest.fixture(scope="session")
def shared_postgres_url(postgres: PostgresCluster) -> Iterator[str]:
    """A database for all conformance tests of this process; making one for each would take most of the time."""
    yield postgres.create_database("conformance")
    postgres.start()
    postgres.drop_database("conformance")


async def empty_store_url(request: pytest.FixtureRequest, database: str) -> str:
    """The URL of an empty store of the engine that is asked for; on PostgreSQL in the database of that fixture."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('sqlite_path')}"
    url: str = request.getfixturevalue(database)
    request.getfixturevalue("postgres").start()
    connection = await asyncpg.connect(url)
    try:
        if await connection.fetchval("SELECT to_regnamespace('eventhub') IS NOT NULL"):
            await connection.execute(EMPTY)
    finally:
        await connection.close()
    return url


@pytest.fixture(params=["sqlite", "postgres"])
async def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store, each engine in turn."""
    return await empty_store_url(request, "shared_postgres_url")


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
async def open_another(store_url: str) -> AsyncIterator[OpenAnother]:
    """Further stores on the same database, as other processes would open them."""
    opened: list[Store] = []

    async def open_one() -> Store:
        opened.append(open_store(store_url))
        return await opened[-1]

    yield open_one
    for each in opened:
        await each.close()
