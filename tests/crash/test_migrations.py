"""Tables that are being made when the process dies, or by several processes at once: the next one completes them."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import apsw
import pytest

from eventhub.queue import EventQueue
from eventhub.store import open_store
from eventhub.testing.torture.children import Child, Nursery, until
from tests.crash.conftest import Say
from tests.postgres_cluster import PostgresCluster

POSTGRES_SCHEMA = """
SELECT 'column', table_name, column_name, data_type, is_nullable, column_default
FROM information_schema.columns WHERE table_schema = 'eventhub'
UNION ALL SELECT 'index', tablename, indexname, indexdef, '', '' FROM pg_indexes WHERE schemaname = 'eventhub'
UNION ALL SELECT 'function', proname, '', md5(prosrc), '', '' FROM pg_proc
          WHERE pronamespace = to_regnamespace('eventhub')
ORDER BY 1, 2, 3
"""


def sqlite_schema(path: Path) -> str:
    connection = apsw.Connection(str(path))
    try:
        assert connection.pragma("integrity_check") == "ok"
        return "\n".join(
            sql for (sql,) in connection.execute("SELECT sql FROM sqlite_schema ORDER BY type, name") if sql
        )
    finally:
        connection.close()


class Databases:
    """Fresh databases of one engine, one after the other, and what their tables look like."""

    def __init__(self, make: Callable[[], Awaitable[str]], schema: Callable[[], Awaitable[str]]) -> None:
        self.make = make
        self.schema = schema

    async def complete(self, url: str) -> str:
        """Open it, use it, and say what its tables are."""
        async with open_store(url) as store:
            queue = EventQueue(store)
            event = await queue.publish("crash.test", {"token": "t"})
            taken = await queue.poll_many(100)
            assert event.id in {found.id for found in taken}
            await queue.finalize_many(taken)
        return await self.schema()


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Databases:
    if request.param == "sqlite":
        made: list[Path] = []

        async def make() -> str:
            made.append(tmp_path / f"{len(made)}.db")
            return f"sqlite:///{made[-1]}"

        async def schema() -> str:
            return sqlite_schema(made[-1])

        return Databases(make, schema)
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    url: str = request.getfixturevalue("bare_postgres_url")
    name = urlsplit(url).path.removeprefix("/")

    async def clean() -> str:
        await asyncio.to_thread(cluster.execute, "DROP SCHEMA IF EXISTS eventhub CASCADE", database=name)
        return url

    async def described() -> str:
        return await asyncio.to_thread(cluster.execute, POSTGRES_SCHEMA, database=name)

    return Databases(clean, described)


def done(nursery: Nursery, child: Child) -> bool:
    return any(record.op == "end" for record in nursery.records(child.process))


async def begun(nursery: Nursery, child: Child) -> None:
    await until(lambda: nursery.records(child.process), 30.0, f"the beginning of {child.process}")


async def test_a_migration_killed_before_any_of_its_statements_is_completed(
    tmp_path: Path, nursery: Nursery, say: Say
) -> None:
    reference = tmp_path / "reference.db"
    async with open_store(reference):
        pass
    expected, points = sqlite_schema(reference), 0
    while True:
        path = tmp_path / f"{points}.db"
        child = nursery.spawn("migrator", "migrator", url=str(path), die_at=points + 1)
        await child.ended()
        assert nursery.errors() == ""
        if done(nursery, child):
            break
        points += 1
        async with open_store(path) as store:
            await EventQueue(store).publish("crash.test", {"token": "t"})
        assert sqlite_schema(path) == expected, f"killed before statement {points}"
    say(f"{points} kill points")
    assert points > 20


async def test_a_migration_killed_at_any_moment_is_completed(
    databases: Databases, nursery: Nursery, seed: int, say: Say
) -> None:
    url = await databases.make()
    child = nursery.spawn("migrator", "migrator", url=url)
    await child.ended()
    invoked, answered, _ = nursery.records(child.process)
    longest = answered.time - invoked.time
    expected = await databases.complete(url)
    chance = random.Random(seed)
    killed = 0
    for round_ in range(30):
        url = await databases.make()
        child = nursery.spawn("migrator", "migrator", url=url)
        await begun(nursery, child)
        await asyncio.sleep(chance.uniform(0, longest))
        child.kill()
        await child.ended()
        killed += not done(nursery, child)
        assert await databases.complete(url) == expected, f"round {round_}"
    say(f"{killed} of 30 were killed before they had finished")
    assert killed > 0
    assert nursery.errors() == ""


async def test_processes_that_migrate_at_once_agree(databases: Databases, nursery: Nursery) -> None:
    expected = None
    for round_ in range(6):
        url = await databases.make()
        start_at = time.monotonic() + 0.15
        children = [nursery.spawn("migrator", f"m-{n}", url=url, start_at=start_at) for n in range(5)]
        for child in children:
            await child.ended()
        assert all(done(nursery, child) for child in children), nursery.errors()
        schema = await databases.complete(url)
        assert schema == (expected or schema), f"round {round_}"
        expected = schema
    assert nursery.errors() == ""
