"""Opening and closing: many at once, again, by every way a store can be named, and nothing after the end."""

import asyncio
import stat
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from eventhub.core.lifecycle import Complete
from eventhub.errors import SchemaMismatch, SettingsError, StoreClosed
from eventhub.store import Store, open_store
from eventhub.store.buses import Buses
from eventhub.store.claims import Held
from eventhub.store.operating import Operating
from eventhub.store.queries import load_migrations
from eventhub.store.reading import Reading
from eventhub.store.retirement import Retirement
from eventhub.store.values import ApiKey, EventFilter, Report
from eventhub.store.watching import Watching
from tests.conformance.support import MINUTE, QUEUE, START, new, publish_one, seconds, take

HELD = Held(1, 1)
NEWEST = load_migrations("eventhub.store.sqlite")[-1][0]
KEY = ApiKey(id="k", name="test", digest=b"digest", scopes=("work",), created_at=START)


@pytest.fixture(params=["sqlite", "postgres"])
def fresh_url(request: pytest.FixtureRequest) -> str:
    """A database without any tables."""
    if request.param == "sqlite":
        return str(request.getfixturevalue("sqlite_path"))
    url: str = request.getfixturevalue("bare_postgres_url")
    return url


async def set_version(url: str, version: str) -> None:
    if url.startswith("postgresql"):
        connection = await asyncpg.connect(url)
        await connection.execute("UPDATE eventhub.meta SET value = $1 WHERE key = 'schema_version'", version)
        await connection.close()
    else:
        direct = apsw.Connection(url)
        direct.execute("UPDATE eventhub_meta SET value = ? WHERE key = 'schema_version'", (version,))
        direct.close()


async def test_many_stores_may_open_a_fresh_database_at_once(fresh_url: str) -> None:
    stores = [open_store(fresh_url) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    assert {await store.schema_version() for store in stores} == {NEWEST}
    for store in stores:
        await publish_one(store)
    assert len(await take(stores[0], 100)) == 6
    for store in stores:
        await store.close()


async def test_many_processes_may_open_a_fresh_database_at_once(fresh_url: str) -> None:
    program = f"""
import asyncio
from eventhub.store import open_store
from tests.conformance.support import publish_one
async def main():
    async with open_store({fresh_url!r}) as store:
        for _ in range(5):
            await publish_one(store, now=None)
asyncio.run(main())
"""
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", program, stderr=asyncio.subprocess.PIPE)
        for _ in range(4)
    ]
    errors = [(await process.communicate())[1] for process in processes]
    assert errors == [b""] * 4
    async with open_store(fresh_url) as store:
        assert len(await take(store, 100, now=None)) == 20


async def test_a_store_opens_itself_on_first_use(fresh_url: str) -> None:
    store = open_store(fresh_url)
    await publish_one(store)
    assert len(await take(store)) == 1
    await store.close()


async def test_first_uses_at_once_open_it_once(fresh_url: str) -> None:
    store = open_store(fresh_url)
    await asyncio.gather(*(publish_one(store) for _ in range(10)))
    assert len(await take(store, 100)) == 10
    await store.close()


async def test_what_was_stored_is_there_after_opening_again(fresh_url: str) -> None:
    async with open_store(fresh_url) as store:
        number = await publish_one(store, payload="kept", key="k")
    async with await open_store(fresh_url) as store:
        event = await store.event(number)
        assert event is not None
        assert event.payload == "kept"
        (claim,) = await take(store)
        assert claim.event.id == number
        assert await publish_one(store) > number


async def test_tables_of_a_newer_version_are_refused_with_a_remedy(fresh_url: str) -> None:
    async with open_store(fresh_url):
        pass
    await set_version(fresh_url, "999")
    store = open_store(fresh_url)
    with pytest.raises(SchemaMismatch, match=rf"version 999, this eventhub knows up to {NEWEST}\. Upgrade eventhub"):
        await store.open()
    with pytest.raises(SchemaMismatch):
        await publish_one(store)
    await set_version(fresh_url, str(NEWEST))
    await publish_one(store)
    await store.close()


OPERATIONS: dict[str, Callable[[Store], Awaitable[Any]]] = {
    "open": lambda store: store.open(),
    "publish": lambda store: store.publish([new()]),
    "publish nothing": lambda store: store.publish([]),
    "claim": lambda store: store.claim(QUEUE, worker="w", lease=MINUTE),
    "claim_ids": lambda store: store.claim_ids([1], worker="w", lease=MINUTE),
    "extend": lambda store: store.extend([HELD], MINUTE),
    "start": lambda store: store.start([HELD], MINUTE),
    "settle": lambda store: store.settle([Report(HELD, Complete())]),
    "tend": lambda store: store.tend(),
    "ready_types": lambda store: store.ready_types(QUEUE),
    "retire_routes": lambda store: store.retire_routes(),
    "recover": lambda store: store.recover(QUEUE),
    "take_back": lambda store: store.take_back(["w"]),
    "wait": lambda store: store.wait(QUEUE, since=store.wakeups.mark(QUEUE), timeout=5),
    "next_due": lambda store: store.next_due(),
    "ready": lambda store: store.ready(QUEUE),
    "announce_bus": lambda store: store.announce_bus("w", QUEUE, ["h"], lease=MINUTE),
    "buses": lambda store: store.buses(QUEUE),
    "missing_handlers": lambda store: store.missing_handlers(),
    "ready_routes": lambda store: store.ready_routes(QUEUE),
    "current": lambda store: store.current([1]),
    "open_count": lambda store: store.open_count(1),
    "orphans": lambda store: store.orphans(QUEUE, silent=MINUTE),
    "see_workers": lambda store: store.see_workers([]),
    "workers": lambda store: store.workers(QUEUE),
    "count_workers": lambda store: store.count_workers(QUEUE),
    "count_orphans": lambda store: store.count_orphans(QUEUE, silent=MINUTE, limit=1),
    "forget_workers": lambda store: store.forget_workers(unseen=MINUTE),
    "event": lambda store: store.event(1),
    "event_tags": lambda store: store.event_tags([1]),
    "events": lambda store: store.events(EventFilter()),
    "count_events": lambda store: store.count_events(EventFilter()),
    "log": lambda store: store.log(1),
    "stats": lambda store: store.stats(),
    "dead": lambda store: store.dead(),
    "dead_event": lambda store: store.dead_event(1),
    "retry_dead": lambda store: store.retry_dead([1], by="me"),
    "purge_dead": lambda store: store.purge_dead(older_than=seconds(1)),
    "unpark": lambda store: store.unpark(QUEUE, "k", by="me"),
    "reset": lambda store: store.reset(1, reason="why"),
    "record_results": lambda store: store.record_results(HELD, [("h", "success", None)]),
    "handler_results": lambda store: store.handler_results([1]),
    "guard": lambda store: store.guard(1, "step"),
    "is_guarded": lambda store: store.is_guarded(1, "step"),
    "add_key": lambda store: store.add_key(KEY),
    "keys": lambda store: store.keys(),
    "key": lambda store: store.key("k"),
    "has_keys": lambda store: store.has_keys(),
    "revoke_key": lambda store: store.revoke_key("k"),
    "expire_key": lambda store: store.expire_key("k", START),
    "any_keys": lambda store: store.any_keys(),
    "touch_keys": lambda store: store.touch_keys({}),
    "queues_of_workers": lambda store: store.queues_of_workers(),
    "end_session": lambda store: store.end_session("s", ends=START, forget_before=START),
    "ended_sessions": lambda store: store.ended_sessions(),
    "first_event_since": lambda store: store.first_event_since(START),
    "open_counts": lambda store: store.open_counts(),
    "activity": lambda store: store.activity(START, START + MINUTE, MINUTE),
    "newest_log": lambda store: store.newest_log(1),
    "troubles": lambda store: store.troubles(QUEUE, silent=MINUTE),
    "was_seen": lambda store: store.was_seen(QUEUE, within=MINUTE),
    "incarnation": lambda store: store.incarnation(),
    "begin_incarnation": lambda store: store.begin_incarnation(),
    "check": lambda store: store.check(),
    "now": lambda store: store.now(),
    "schema_version": lambda store: store.schema_version(),
    "describe": lambda store: store.describe(),
}


async def test_nothing_works_on_a_closed_store(store: Store) -> None:
    await store.close()
    assert store.closed
    for operation in OPERATIONS.values():
        with pytest.raises(StoreClosed, match="closed"):
            await operation(store)


def test_every_operation_of_the_contract_is_tried_above() -> None:
    contract = [vars(part) for part in (Store, Reading, Operating, Retirement, Watching, Buses)]
    public = {name for part in contract for name in part if not name.startswith("_")} - {
        "close",
        "closed",
        "name",
        "late",
        "incarnation_met",
        "is_stranded",
    }
    assert public == {name.split(maxsplit=1)[0] for name in OPERATIONS}


async def test_closing_twice_or_unopened_is_harmless(store: Store, store_url: str) -> None:
    await asyncio.gather(store.close(), store.close())
    await store.close()
    unopened = open_store(store_url)
    await unopened.close()
    with pytest.raises(StoreClosed, match="open it again with open_store"):
        await unopened.open()


@pytest.mark.parametrize("steps", [0, 1, 2, 4, 8, 16, 32, 64])
async def test_closing_while_it_opens_leaves_nothing_behind(fresh_url: str, steps: int) -> None:
    threads, tasks = our_threads(), asyncio.all_tasks()
    store = open_store(fresh_url)
    opening = asyncio.create_task(store.open())
    using = asyncio.create_task(publish_one(store, None))
    for _ in range(steps):
        await asyncio.sleep(0)
    await store.close()
    for answer in await asyncio.gather(opening, using, return_exceptions=True):
        assert isinstance(answer, Store | int | StoreClosed)
    for operation in OPERATIONS.values():
        with pytest.raises(StoreClosed, match="closed"):
            await operation(store)
    assert await left_open(fresh_url) == 0
    assert asyncio.all_tasks() == tasks
    assert our_threads() <= threads


@pytest.mark.parametrize("steps", [0, 1, 2, 4, 8, 16, 32, 64])
async def test_an_opening_that_is_cancelled_leaves_nothing_behind(fresh_url: str, steps: int) -> None:
    threads, tasks = our_threads(), asyncio.all_tasks()
    store = open_store(fresh_url)
    opening = asyncio.create_task(store.open())
    for _ in range(steps):
        await asyncio.sleep(0)
    opening.cancel()
    await asyncio.wait({opening})
    await publish_one(store, None)
    await store.close()
    assert await left_open(fresh_url) == 0
    assert asyncio.all_tasks() == tasks
    for thread in our_threads() - threads:  # one that was left while it connected ends as soon as it has
        thread.join(10)
    assert our_threads() <= threads


async def test_a_signal_that_is_late_does_not_connect_again(store: Store) -> None:
    await publish_one(store, None)
    await store.close()
    tasks = asyncio.all_tasks()
    store._announce(QUEUE)  # as by a call that was answered while the store was being closed
    assert asyncio.all_tasks() == tasks


def our_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("eventhub")}


async def left_open(url: str) -> int:
    """How many of our connections the server still has; those that were closed may take a moment to go."""
    if not url.startswith("postgresql"):
        return 0
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'eventhub' AND datname = current_database()"
    connection = await asyncpg.connect(url)
    try:
        for _ in range(1000):
            left = int(await connection.fetchval(ours))
            if not left:
                break
    finally:
        await connection.close()
    return left


async def test_closing_one_store_leaves_the_others_alone(store: Store, store_url: str) -> None:
    async with open_store(store_url) as other:
        await publish_one(other)
    assert len(await take(store)) == 1


@pytest.mark.parametrize("form", ["{path}", "sqlite:///{path}", "sqlite:{path}", "sqlite:///{path}?synchronous=NORMAL"])
async def test_a_file_can_be_named_in_several_ways(sqlite_path: Path, form: str) -> None:
    async with open_store(form.format(path=sqlite_path)) as store:
        await publish_one(store)
    async with open_store(sqlite_path) as store:
        assert len(await take(store)) == 1


@pytest.mark.parametrize("url", [":memory:", "sqlite://", "sqlite:///:memory:"])
async def test_a_store_in_memory_is_its_own(url: str) -> None:
    async with open_store(url) as one, open_store(url) as other:
        await publish_one(one)
        assert len(await take(one)) == 1
        assert await take(other) == []


@pytest.mark.parametrize(
    ("url", "options", "problem"),
    [
        ("", {}, "The path of the store is empty"),
        ("mysql://me:secret@host/db", {}, r"mysql://me@host/db is not a store URL"),
        ("postgresql+x://host/db?user=me&password=secret", {}, r"postgresql\+x://host/db is not a store URL"),
        ("x.db", {"synchronous": "OFF"}, "synchronous is 'OFF'; give one of FULL, NORMAL, EXTRA"),
        ("x.db", {"pool_size": 5}, "Unknown option pool_size"),
        ("sqlite:///x.db?cache=shared", {}, "Unknown option cache"),
        ("postgresql://host/db", {"synchronous": "FULL"}, "Unknown option synchronous"),
    ],
)
def test_a_store_that_cannot_be_named_so_is_refused(url: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(SettingsError, match=problem) as caught:
        open_store(url, **options)
    assert "secret" not in str(caught.value)


async def test_a_file_is_as_durable_as_asked_for(sqlite_path: Path) -> None:
    async with open_store(sqlite_path) as store:
        facts = await store.describe()
        assert (facts["synchronous"], facts["journal_mode"]) == ("FULL", "wal")
        assert await store._writer.run(lambda c: c.pragma("synchronous")) == 2  # type: ignore[attr-defined]
    async with open_store(sqlite_path, synchronous="normal") as store:
        assert await store._writer.run(lambda c: c.pragma("synchronous")) == 1  # type: ignore[attr-defined]


def mode_of(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


async def test_a_file_that_we_make_is_its_owners_alone_and_one_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    there = tmp_path / "there.db"
    there.touch()
    there.chmod(0o644)
    for path, mode in ((tmp_path / "made.db", 0o600), (there, 0o644)):
        async with open_store(path) as store:
            await publish_one(store)
            assert [mode_of(f"{path}{companion}") for companion in ("", "-wal", "-shm")] == [mode] * 3
