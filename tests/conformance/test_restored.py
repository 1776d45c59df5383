"""A database is restored from a backup: nothing that was given out since the backup is given out again."""

from collections.abc import Callable
from pathlib import Path

import apsw
import asyncpg
import pytest

from eventhub.core.lifecycle import Complete, Retry
from eventhub.errors import StoreBusy, StoreUnavailable
from eventhub.hub.attempts import webhook_id
from eventhub.store import Store, open_store
from eventhub.store.incarnations import Restored
from eventhub.store.messages import MessageClaim
from eventhub.store.values import NewEvent, Report, Route
from tests.conformance.hub_support import MINUTE, broadcast, claim, plan, subscriber
from tests.postgres_cluster import PostgresCluster

Restore = Callable[[], str]
"""Puts the backup in the place of the database; returns the URL to it."""
Backup = Callable[[], Restore]


def event() -> NewEvent:
    return NewEvent(type="a", payload="1", route=Route("work"))


async def say_restored(url: str | Path) -> Restored:
    store = open_store(url)
    try:
        return await store.begin_incarnation()
    finally:
        await store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_path"))
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def backup(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> Backup:
    """As people do it: SQLite's backup API, pg_dump and pg_restore."""
    if "://" not in database:
        return lambda: _copied(Path(database), tmp_path / "copy.db")
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    return lambda: _dumped(cluster, database)


def _copied(path: Path, copy: Path) -> Restore:
    def copy_to(target: Path, source: Path) -> None:
        into, whole = apsw.Connection(str(target)), apsw.Connection(str(source))
        with into.backup("main", whole, "main") as work:
            work.step()
        into.close()
        whole.close()

    copy_to(copy, path)

    def restore() -> str:
        for end in ("", "-wal", "-shm"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        copy_to(path, copy)
        return str(path)

    return restore


def _dumped(cluster: PostgresCluster, url: str) -> Restore:
    name = url.partition("@/")[2].partition("?")[0]
    dump = cluster._run("pg_dump", "--clean", "--if-exists", "-h", str(cluster.directory), "-U", "postgres", name)
    file = cluster.directory / f"{name}.sql"
    file.write_text(dump)
    file.chmod(0o644)

    def restore() -> str:
        psql = ["-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", str(cluster.directory), "-U", "postgres"]
        cluster._run("psql", *psql, "-d", name, "-f", str(file))
        return url

    return restore


async def messages(store: Store, number: int, count: int) -> list[MessageClaim]:
    await broadcast(store, *("1" for _ in range(count)))
    await store.fan_out(await plan(store, number))
    return await claim(store, number)


async def test_a_consumer_that_deduplicates_gets_all_new_messages(database: str, backup: Backup) -> None:
    async with open_store(database) as store:
        number = await subscriber(store)
        hub = await store.hub_id()
        (old,) = await messages(store, number, 1)
        restore = backup()
        seen = {webhook_id(hub, one.held.id) for one in await messages(store, number, 20)}
    url = restore()
    await say_restored(url)
    async with open_store(url) as store:
        assert await store.hub_id() == hub
        await store.recover("hub")
        new = [webhook_id(hub, one.held.id) for one in await messages(store, number, 20)]
        assert len(set(new) - seen) == len(new) >= 20
        assert not any("." in one for one in new)
        again = await store.message(old.held.id)
        assert again is not None
        assert again.id == old.held.id


async def test_a_message_keeps_its_webhook_id_when_it_is_retried_after_a_restore(database: str, backup: Backup) -> None:
    async with open_store(database) as store:
        number = await subscriber(store)
        (first,) = await messages(store, number, 1)
        await store.settle([Report(first.held, Retry("503", delay=MINUTE * 0))])
        restore = backup()
        (second,) = await claim(store, number)
        await store.settle([Report(second.held, Complete(), detail="{}")])
    url = restore()
    await say_restored(url)
    async with open_store(url) as store:
        await store.tend()
        (again,) = await claim(store, number)
        assert again.held.id == first.held.id == second.held.id
        assert again.held.fence > second.held.fence + 1000


async def test_restoring_the_same_backup_twice_gives_other_ids_each_time(database: str, backup: Backup) -> None:
    async with open_store(database) as store:
        await store.publish([event()])
        restore = backup()
    seen: set[int] = set()
    for _ in range(3):
        url = restore()
        done = await say_restored(url)
        async with open_store(url) as store:
            new = {one.id for one in await store.publish([event() for _ in range(20)])}
            assert (await store.incarnation()).began is not None
        assert not new & seen
        assert min(new) > done.after >= max(seen, default=0)
        assert max(new) < 2**53, "numbers that JavaScript can read"
        seen |= new


async def test_entries_of_the_log_and_dead_letters_are_not_numbered_again(database: str, backup: Backup) -> None:
    async with open_store(database) as store:
        await store.publish([event() for _ in range(3)])
        restore = backup()
        (lost,) = await store.publish([event()])
        log = [entry[0] for entry in await store.snapshot("log", 0, lost.id + 1)]
    url = restore()
    await say_restored(url)
    async with open_store(url) as store:
        (new,) = await store.publish([event()])
        assert min(entry[0] for entry in await store.snapshot("log", new.id, new.id + 1)) > max(log)


async def test_a_claim_from_before_is_void(database: str, backup: Backup) -> None:
    async with open_store(database) as store:
        await store.publish([event()])
        restore = backup()
        (claimed,) = await store.claim("work", worker="w", lease=MINUTE)
    url = restore()
    await say_restored(url)
    async with open_store(url) as store:
        (current,) = await store.claim("work", worker="v", lease=MINUTE)
        assert current.held.id == claimed.held.id
        (late,) = await store.settle([Report(claimed.held, Complete())])
        assert not late.accepted
        (right,) = await store.settle([Report(current.held, Complete())])
        assert right.accepted


async def test_a_file_that_is_open_elsewhere_is_refused(sqlite_path: Path) -> None:
    async with open_store(sqlite_path) as other:
        await other.publish([event()])
        with pytest.raises(StoreBusy, match="Stop all that use it"):
            await say_restored(sqlite_path)
        assert (await other.incarnation()).number == 1
    assert (await say_restored(sqlite_path)).incarnation.number == 2


async def test_processes_that_are_connected_find_out(postgres_url: str) -> None:
    """What they remember is dropped: their sessions end, and the next ones look where they lead to."""
    async with open_store(postgres_url) as running:
        await running.publish([NewEvent(type="a", payload="1", route=Route("work", ("t",)))])
        done = await say_restored(postgres_url)
        assert done.ended >= 1
        while True:
            try:
                assert await running.incarnation() == done.incarnation
                break
            except StoreUnavailable:
                continue
        (new,) = await running.publish([event()])
        assert new.id > done.after


async def test_a_dump_that_was_restored_is_noticed_by_itself(postgres_url: str, postgres: PostgresCluster) -> None:
    async with open_store(postgres_url) as store:
        await store.publish([event()])
        restore = _dumped(postgres, postgres_url)
        seen = {one.id for one in await store.publish([event() for _ in range(20)])}
    async with open_store(restore()) as store:
        assert (await store.incarnation()).number == 2
        assert min(one.id for one in await store.publish([event()])) > max(seen)


async def test_who_may_only_read_begins_nothing(postgres_url: str, postgres: PostgresCluster) -> None:
    async with open_store(postgres_url) as store:
        await store.publish([event()])
    name = postgres_url.partition("@/")[2].partition("?")[0]
    postgres.execute("UPDATE eventhub.meta SET value = 'elsewhere' WHERE key = 'place'", database=name)
    postgres.execute(
        "DROP ROLE IF EXISTS looker",
        "CREATE ROLE looker LOGIN",
        "GRANT USAGE ON SCHEMA eventhub TO looker",
        "GRANT SELECT ON ALL TABLES IN SCHEMA eventhub TO looker",
        "GRANT SELECT ON ALL SEQUENCES IN SCHEMA eventhub TO looker",
        database=name,
    )
    try:
        async with open_store(postgres_url.replace("postgres@", "looker@")) as store:
            assert await store.last_event() == 1
            assert (await store.incarnation()).number == 1
        async with open_store(postgres_url) as store:
            assert (await store.incarnation()).number == 2
    finally:
        postgres.execute("DROP OWNED BY looker", "DROP ROLE looker", database=name)


async def test_a_callers_own_connection_to_another_incarnation_is_refused(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        async with open_store(postgres_url) as store:
            async with connection.transaction():
                await store.publish([event()], connection=connection)
            await say_restored(postgres_url)
            while True:
                try:
                    await store.incarnation()
                    break
                except StoreUnavailable:
                    continue
            with pytest.raises(StoreUnavailable, match="Connect it anew"):
                async with connection.transaction():
                    await store.publish([event()], connection=connection)
            assert len(await store.claim("work", worker="w", lease=MINUTE, limit=10)) == 1
    finally:
        await connection.close()
