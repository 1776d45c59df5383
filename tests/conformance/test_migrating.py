"""A database of the first version, with work in it, is brought up to date and goes on where it was."""

import asyncio
from datetime import timedelta
from typing import Any

import apsw
import asyncpg
import pytest

from eventhub.core.events import Status
from eventhub.errors import IdempotencyConflict
from eventhub.store import Store, open_store
from eventhub.store.claims import Held
from eventhub.store.queries import load_migrations
from eventhub.store.values import EventFilter, Sighting
from tests.conformance.support import MINUTE, QUEUE, complete, ids, new, publish, publish_one, take_one

NEWEST = load_migrations("eventhub.store.sqlite")[-1][0]
DONE, DEAD, LEASED, BEHIND = 1, 2, 3, 4
WORK = """
INSERT INTO {0}meta VALUES ('schema_version', '1');
INSERT INTO {0}routes (queue, tags, priority) VALUES ('work', 'x', 0), ('work', '', 0), ('work', 'x,y', 0);
INSERT INTO {0}lanes VALUES (77, 'work', 'k');
INSERT INTO {0}events (id, route, type, payload, tags, ordering_key, created_at)
VALUES (1, 1, 'a', '"one"', 'x', NULL, {1}), (2, 2, 'b', '2', NULL, NULL, {1}),
       (3, 3, 'a', '3', 'y, x', 'k', {1}), (4, 1, 'a', '4', 'x', 'k', {1});
INSERT INTO {0}deliveries (id, event_id, lane, route, state, due, fence, attempts, failures, max_attempts, worker)
VALUES (3, 3, 77, 3, 1, {2}, 2, 2, 1, 3, 'worker-a'), (4, 4, 77, 1, 2, NULL, 0, 0, 0, 3, NULL);
INSERT INTO {0}dead_letters (delivery_id, event_id, route, fence, attempts, failures, parks, errors, reason, status,
                             dead_at, type, payload, created_at)
VALUES (2, 2, 2, 1, 1, 1, {3}, '["boom"]', 'rejected', 'FAILED', {1}, 'b', '2', {1});
INSERT INTO {0}idempotency_keys (scope, key, event_id, created_at) VALUES ('work', 'key-1', 1, {1});
INSERT INTO {0}event_log (event_id, delivery_id, action, worker, attempt, fence, created_at)
VALUES (1, 1, 'PUBLISHED', NULL, NULL, NULL, {1}), (1, 1, 'COMPLETED', 'worker-a', 1, 1, {1}),
       (3, 3, 'PICKED', 'worker-a', 2, 2, {1});
"""


@pytest.fixture(params=["sqlite", "postgres"])
async def old_url(request: pytest.FixtureRequest) -> str:
    """A database as the first version left it: one event completed, one dead, one leased, one behind it."""
    if request.param == "sqlite":
        path = str(request.getfixturevalue("sqlite_path"))
        direct = apsw.Connection(path)
        direct.execute(load_migrations("eventhub.store.sqlite")[0][2])
        direct.execute(WORK.format("eventhub_", "1767225600000000", "9000000000000000", "0"))
        direct.execute("UPDATE eventhub_sequence SET next = 5")
        direct.close()
        return path
    url: str = request.getfixturevalue("bare_postgres_url")
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE SCHEMA eventhub")
    await connection.execute(load_migrations("eventhub.store.postgres")[0][2])
    await connection.execute(WORK.format("eventhub.", "now()", "now() + interval '1 hour'", "false"))
    await connection.execute("SELECT setval('eventhub.ids', 4)")
    await connection.close()
    return url


async def listed(store: Store, **wanted: Any) -> list[int]:
    return [event.id for event in await store.events(EventFilter(**wanted))]


async def test_a_database_of_the_first_version_goes_on_with_all_it_has(old_url: str) -> None:
    async with open_store(old_url) as store:
        assert await store.schema_version() == NEWEST
        assert await listed(store, tags=frozenset({"x"})) == [BEHIND, LEASED, DONE]
        assert await listed(store, tags=frozenset({"x"}), status=Status.COMPLETED) == [DONE]
        assert await listed(store, tags=frozenset({"y"}), type="a") == [LEASED]
        assert await listed(store, status=Status.PENDING, type="a") == [BEHIND]
        assert await listed(store, status=Status.FAILED) == [DEAD]
        assert await store.count_events(EventFilter(type="a")) == 3
        assert (await store.current([LEASED]))[LEASED].failures == 1
        assert [worker.name for worker in await store.workers(QUEUE)] == ["worker-a"]
        assert await complete(store, Held(LEASED, 2, 77), None)
        assert (await take_one(store, None)).event.id == BEHIND
        assert await publish_one(store, None) == BEHIND + 1
        await store.see_workers([Sighting(QUEUE, "worker-b", "PICKED")])
        assert not await store.any_keys()


async def test_a_key_of_the_first_version_still_stands_for_its_event(old_url: str) -> None:
    async with open_store(old_url) as store:
        same = new("a", "one", tags=("x",), idempotency_key="key-1")
        assert await publish(store, same, now=None) == [DONE]
        with pytest.raises(IdempotencyConflict):
            await publish(store, new("a", "two", tags=("x",), idempotency_key="key-1"), now=None)


async def test_many_may_bring_it_up_to_date_at_once(old_url: str) -> None:
    stores = [open_store(old_url) for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    assert {await store.schema_version() for store in stores} == {NEWEST}
    assert await asyncio.gather(*(store.count_events(EventFilter()) for store in stores)) == [4] * 5
    for store in stores:
        await store.close()


async def test_what_is_open_or_dead_is_claimed_by_its_type_afterwards(old_url: str) -> None:
    async with open_store(old_url) as store:
        assert await store.retry_dead([DEAD], by="me") == {DEAD}
        assert ids(await store.claim(QUEUE, worker="w", lease=MINUTE, types=["b"])) == [DEAD]
        assert await complete(store, Held(LEASED, 2, 77), None)
        assert await store.claim(QUEUE, worker="w", lease=MINUTE, types=["b"]) == []
        assert ids(await store.claim(QUEUE, worker="w", lease=MINUTE, types=["a"], tags=["x"])) == [BEHIND]
        retired, _ = await store.retire_routes(idle=timedelta(0))
        assert retired == 1, "two are leased"
