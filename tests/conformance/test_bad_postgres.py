"""PostgreSQL that is away, comes back, is read-only or not ours: each is told in words, and work goes on afterwards."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import asyncpg
import pytest

from eventhub.errors import (
    SchemaMismatch,
    SettingsError,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from eventhub.store import Store, open_store
from tests.conformance.support import (
    QUEUE,
    actions,
    complete,
    ids,
    new,
    publish_one,
    take,
    take_one,
)
from tests.postgres_cluster import PostgresCluster


def database(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


async def until_it_works(store: Store) -> int:
    """Publish, as a caller would who tries again while the database comes back."""
    for _ in range(20):
        with suppress(StoreUnavailable):
            return await publish_one(store, now=None)
    raise AssertionError("the store did not come back")


async def test_a_server_that_is_down_at_the_start_can_come_later(postgres: PostgresCluster, postgres_url: str) -> None:
    postgres.stop()
    store = open_store(postgres_url)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"cannot be reached: check that the server runs"):
            await store.open()
    postgres.start()
    number = await publish_one(store, now=None)
    assert ids(await take(store, now=None)) == [number]
    await store.close()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_server_that_goes_away_is_unavailable_and_then_all_is_as_it_was(
    postgres: PostgresCluster, postgres_url: str, mode: str
) -> None:
    async with open_store(postgres_url) as store:
        kept = await publish_one(store, now=None)
        claim = await take_one(store, None)
        postgres.stop("fast" if mode == "fast" else "immediate")
        with pytest.raises(StoreUnavailable):
            await store.publish([new()])
        with pytest.raises(StoreUnavailable):
            await complete(store, claim, None)
        with pytest.raises(StoreUnavailable):
            await store.event(kept)
        postgres.start()
        more = await until_it_works(store)
        assert ids(await take(store, 10, now=None)) == [more], "what was refused has left nothing"
        assert await complete(store, claim, None)
        assert await actions(store, kept) == ["PUBLISHED", "PICKED", "COMPLETED"]


async def test_a_restart_between_two_calls_is_survived(postgres: PostgresCluster, postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        first = await publish_one(store, now=None)
        postgres.restart("immediate")
        second = await until_it_works(store)
        assert ids(await take(store, 10, now=None)) == [first, second]


async def test_connections_cut_in_the_middle_lose_no_acknowledged_event(
    postgres: PostgresCluster, postgres_url: str
) -> None:
    async with open_store(postgres_url) as store:
        await publish_one(store, now=None)
        tasks = [asyncio.create_task(store.publish([new(payload=n)])) for n in range(200)]
        await asyncio.sleep(0)
        await asyncio.to_thread(postgres.terminate_backends, database(postgres_url))
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, Sequence | StoreError) for answer in answers)
        await until_it_works(store)
        acknowledged = {answer[0].id for answer in answers if isinstance(answer, Sequence)}
        assert acknowledged <= set(ids(await take(store, 1000, now=None)))


async def test_wakeups_come_again_after_a_restart(postgres: PostgresCluster, postgres_url: str) -> None:
    async with open_store(postgres_url) as store, open_store(postgres_url) as other:
        assert await store.wait(QUEUE, since=store.wakeups.mark(QUEUE), timeout=20)
        mark = store.wakeups.mark(QUEUE)
        postgres.restart("fast")
        await until_it_works(other)
        assert await until_woken(store, mark)
        mark = store.wakeups.mark(QUEUE)
        await publish_one(other, now=None)
        assert await until_woken(store, mark)


async def until_woken(store: Store, mark: int) -> bool:
    for _ in range(20):
        with suppress(StoreUnavailable):
            return await store.wait(QUEUE, since=mark, timeout=20)
    return False


async def test_a_database_that_does_not_exist_is_named(postgres: PostgresCluster) -> None:
    with pytest.raises(StoreUnavailable, match=r'"nowhere" does not exist\. Create the database first'):
        await open_store(postgres.url("nowhere")).open()


async def test_a_read_only_database_cannot_be_made_ready(postgres: PostgresCluster, bare_postgres_url: str) -> None:
    postgres.execute(f"ALTER DATABASE {database(bare_postgres_url)} SET default_transaction_read_only = on")
    store = open_store(bare_postgres_url)
    with pytest.raises(StoreReadOnly, match="it may be a standby: give the address of the primary"):
        await store.open()
    postgres.execute(f"ALTER DATABASE {database(bare_postgres_url)} RESET default_transaction_read_only")
    await publish_one(store)
    await store.close()


async def test_a_read_only_database_can_be_read(postgres: PostgresCluster, postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        number = await publish_one(store)
    postgres.execute(f"ALTER DATABASE {database(postgres_url)} SET default_transaction_read_only = on")
    async with open_store(postgres_url) as store:
        assert await store.event(number) is not None
        assert len(await store.log(number)) == 1
        for attempt in (publish_one(store), publish_one(store, key="k"), take(store)):
            with pytest.raises(StoreReadOnly):
                await attempt


async def test_a_user_without_rights_is_told_what_to_grant(postgres: PostgresCluster, bare_postgres_url: str) -> None:
    postgres.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN")
    try:
        with pytest.raises(StoreReadOnly, match="Grant the user the right"):
            await open_store(bare_postgres_url.replace("postgres@", "guest@")).open()
    finally:
        postgres.execute("DROP ROLE guest")


async def test_a_lock_that_is_held_too_long_is_busy(postgres: PostgresCluster, postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        await publish_one(store, key="k")
    postgres.execute(f"ALTER DATABASE {database(postgres_url)} SET lock_timeout = '50ms'")
    async with open_store(postgres_url) as store:
        blocker = await asyncpg.connect(postgres_url)
        async with blocker.transaction():
            await blocker.execute("SELECT FROM eventhub.lanes FOR UPDATE")
            with pytest.raises(StoreBusy, match="Try again"):
                await publish_one(store, key="k")
            await publish_one(store, key="other")
        await blocker.close()
        await publish_one(store, key="k")


async def test_tables_that_are_gone_are_told_with_the_remedy(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        direct = await asyncpg.connect(postgres_url)
        await direct.execute("DROP SCHEMA eventhub CASCADE")
        await direct.close()
        with pytest.raises(SchemaMismatch, match="Run `eventhub migrate`"):
            await store.event(1)


async def test_a_password_is_never_shown(postgres: PostgresCluster) -> None:
    url = f"postgresql://someone:secret@/nowhere?host={postgres.directory}"
    with pytest.raises(StoreUnavailable) as caught:
        await open_store(url).open()
    assert "secret" not in str(caught.value)
    assert "someone@" in str(caught.value)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgresql://me:secret@host/db?application_name=x", "postgresql://me@host/db"),
        ("postgresql://me:secret@one:5432,two:5433/db", "postgresql://me@one:5432,two:5433/db"),
        ("postgresql://me:secret@[::1]:5432/db", "postgresql://me@[::1]:5432/db"),
        ("postgresql:///db?host=/tmp&user=me&password=secret", "postgresql:///db"),
        ("postgresql://me:/secret@host/db", "postgresql://…"),
        ("postgresql://me:1#secret@host/db", "postgresql://…"),
        ("postgresql://me:1?secret@host/db", "postgresql://…"),
        ("postgresql://me:secret@/secret@host/db", "postgresql://…"),
        ("postgresql://me:[secret@host/db", "postgresql://me@host/db"),
    ],
)
async def test_a_closed_store_is_named_without_its_password(url: str, name: str) -> None:
    store = open_store(url)
    await store.close()
    with pytest.raises(StoreClosed) as caught:
        await store.open()
    assert str(caught.value) == f"The store {name} was closed; open it again with open_store."


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret/1@host/db",
        "postgresql://me:secret#1@host/db",
        "postgresql://me:secret[@host/db",
        "postgresql://me:secret@host:port/db",
        "postgresql://me:secret@host/db?sslmode=perhaps",
    ],
)
async def test_a_url_that_cannot_be_read_is_told_without_its_password(url: str) -> None:
    store = open_store(url)
    with pytest.raises(SettingsError, match=r"is not a PostgreSQL URL that can be read.*percent-encoded") as caught:
        await store.open()
    assert "secret" not in str(caught.value)
    assert caught.value.__suppress_context__, "nor in what the driver said, above it in a traceback"
    await store.close()
