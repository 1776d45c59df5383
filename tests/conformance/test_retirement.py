"""Routes that nothing uses: out of claims, back when they are used again, gone with their last event; in any race."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from eventhub.core.lifecycle import Complete
from eventhub.errors import StoreBusy
from eventhub.store import Store, open_store
from eventhub.store.composing import Composer
from eventhub.store.postgres.publishing import SQL
from eventhub.store.values import NewEvent, Report
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import MINUTE, QUEUE, actions, bury, ids, new, publish, publish_one, take, take_one
from tests.conformance.test_outbox import connected, transaction
from tests.conformance.test_routes import Rows

NOW = timedelta(0)
COUNT = itertools.count()
MANY = 600
COMPOSER = Composer(QUEUE)

TYPE = "order.placed"
WAYS: dict[str, Callable[[], Sequence[NewEvent]]] = {
    "one": lambda: [new(tags=("t",))],
    "several": lambda: [new(tags=("t",)), new(tags=("u",)), new(tags=("t",))],
    "keyed": lambda: [new(tags=("t",), key="k"), new(tags=("t",), idempotency_key=f"i{next(COUNT)}")],
    "bare": lambda: [COMPOSER.one(TYPE, {"n": 1}, {})],
    "bare ones": lambda: COMPOSER.many([{"type": TYPE, "payload": n} for n in range(3)]),
    "many": lambda: COMPOSER.alike(TYPE, [{"n": n} for n in range(MANY)]),
}


async def retire(store: Store) -> int:
    retired, _ = await store.retire_routes(idle=NOW)
    return retired


async def drain(store: Store) -> list[int]:
    """Claim and complete all that is ready; returns what that was."""
    done: list[int] = []
    while claims := await store.claim(QUEUE, worker="w", lease=MINUTE, limit=1000):
        await store.settle([Report(claim.held, Complete()) for claim in claims])
        done += ids(claims)
    return done


async def routes(store: Any) -> dict[str, int]:
    """How many routes there are, and how many of them are retired."""
    sql = "SELECT count(*), count(*) FILTER (WHERE retired) FROM {} WHERE queue = 'work'"
    if store.engine == "postgres":
        ((total, retired),) = await store._fetch(sql.format("eventhub.routes"))
    else:
        ((total, retired),) = await store._read(sql.format("eventhub_routes").replace("retired)", "retired = 1)"))
    return {"total": total, "retired": retired}


async def test_a_route_is_retired_when_nothing_of_it_is_open_and_comes_back_when_it_is_used(store: Store) -> None:
    await publish(store, new(tags=("a",)), new(tags=("b",)), now=None)
    (first,) = await store.claim(QUEUE, worker="w", lease=MINUTE, tags=["a"])
    assert await retire(store) == 0, "one is leased, one ready"
    await store.settle([Report(first.held, Complete())])
    assert await retire(store) == 1
    assert await routes(store) == {"total": 2, "retired": 1}
    assert await retire(store) == 0, "not twice"
    again = await publish_one(store, None, tags=("a",))
    assert await routes(store) == {"total": 2, "retired": 0}
    assert again in await drain(store)


async def test_what_is_young_waiting_behind_or_parked_keeps_its_route(store: Store) -> None:
    await publish(
        store,
        new(tags=("later",), delay=timedelta(hours=1)),
        new(tags=("key",), key="k", park_when_dead=True),
        now=None,
    )
    claim = await take_one(store, None)
    assert await bury(store, claim, now=None)
    assert await retire(store) == 0
    await publish(store, new(tags=("young",)), now=None)
    await drain(store)
    assert await store.retire_routes() == (0, 0), "its last event is not a minute old"
    assert await retire(store) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_what_is_published_on_a_route_that_another_process_has_retired_is_found(
    store: Store, open_another: OpenAnother, way: str
) -> None:
    another = await open_another()
    for now in (None, None):
        numbers = [published.id for published in await store.publish(WAYS[way](), now=now)]
        assert await drain(another) == numbers
        assert await retire(another) > 0
        assert (await routes(store))["total"] == (await routes(store))["retired"]


@pytest.mark.parametrize("way", WAYS)
async def test_so_is_what_is_published_in_the_caller_s_own_transaction(
    store: Store, open_another: OpenAnother, way: str
) -> None:
    another = await open_another()
    await store.publish(WAYS[way]())
    await drain(store)
    async with connected(store) as own:
        async with transaction(own):
            if store.engine == "postgres":
                await retire(another)  # on SQLite nobody else writes now
            numbers = [published.id for published in await store.publish(WAYS[way](), connection=own)]
        assert await drain(another) == numbers
        await retire(another)
        async with transaction(own):
            numbers = [published.id for published in await store.publish(WAYS[way](), connection=own)]
        assert await drain(another) == numbers


async def test_a_dead_letter_that_is_retried_brings_its_route_back(store: Store, open_another: OpenAnother) -> None:
    another = await open_another()
    number = await publish_one(store, None, tags=("dead",))
    assert await bury(store, await take_one(store, None), now=None)
    assert await retire(another) == 1
    assert await store.retry_dead([number], by="me") == {number}
    assert (await routes(store))["retired"] == 0
    assert await drain(another) == [number]
    assert "RETRIED" in await actions(store, number)


async def test_a_route_goes_when_no_event_names_it(store: Store, open_another: OpenAnother) -> None:
    another = await open_another()
    gone, _ = await publish(store, new(tags=("gone",)), new(tags=("stays",)), now=None)
    claims = await take(store, 2, now=None)
    for claim in claims:
        assert await bury(store, claim, now=None)
    assert await store.retire_routes(idle=NOW, kept=NOW) == (2, 0), "their events are there"
    await store.retry_dead([gone], by="me")
    await drain(store)
    await forget_event(store, gone)
    assert await store.retire_routes(idle=NOW) == (1, 0), "it has not been retired for long"
    assert await store.retire_routes(idle=NOW, kept=NOW) == (0, 1)
    assert (await routes(store))["total"] == 1
    back = await publish_one(another, None, tags=("gone",))
    assert await drain(store) == [back]


async def forget_event(store: Any, number: int) -> None:
    """As the archive and the purge of dead letters do it, when their time has come."""
    for table, column in (("events", "id"), ("dead_letters", "event_id")):
        if store.engine == "postgres":
            await store._fetch(f"DELETE FROM eventhub.{table} WHERE {column} = $1", number)
        else:
            sql = f"DELETE FROM eventhub_{table} WHERE {column} = ?"
            await store._writer.run(lambda connection, sql=sql: list(connection.execute(sql, (number,))))


async def test_claims_look_at_the_routes_that_have_something_open_and_no_others(
    store: Store, open_another: OpenAnother, monkeypatch: pytest.MonkeyPatch
) -> None:
    another = await open_another()
    await drain(another)
    await publish(store, *(new(tags=(f"order-{n}",)) for n in range(MANY)), now=None)
    assert len(await drain(another)) == MANY
    assert await retire(store) == MANY
    assert await drain(another) == []  # it hears of the change
    number = await publish_one(store, None, tags=("last",))
    rows = Rows(store, monkeypatch)
    assert ids(await another.claim(QUEUE, worker="w", lease=MINUTE)) == [number]
    assert rows.looked_at <= 3
    fresh = await open_another()
    rows.learnt = 0
    assert await fresh.claim(QUEUE, worker="w", lease=MINUTE) == []
    assert rows.learnt <= 3, "who comes later never hears of them"


async def test_numbers_are_not_remembered_for_ever(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from eventhub.store.postgres import route_numbers
    from eventhub.store.sqlite import engine

    for module in (route_numbers, engine):
        monkeypatch.setattr(module, "CACHE_SIZE", 10)
    for turn in range(5):
        await publish(store, *(new(tags=(f"{turn}-{n}",)) for n in range(4)), now=None)
        remembered = store._memory.routes if store.engine == "postgres" else store._routes
        assert len(remembered) <= 10
    assert len(await drain(store)) == 20


# ------------------------------------------------------------------- PostgreSQL: transactions that stay open


@pytest.fixture
async def postgres_store(postgres_url: str) -> AsyncIterator[Store]:
    async with open_store(postgres_url) as opened:
        yield opened


async def test_a_route_is_not_retired_under_a_publisher_that_has_not_committed(postgres_store: Store) -> None:
    await publish_one(postgres_store, None)
    await drain(postgres_store)
    publisher = await asyncpg.connect(postgres_store.url)
    late = publisher.transaction()
    await late.start()
    (published,) = await postgres_store.publish([new()], connection=publisher)
    assert await retire(postgres_store) == 0
    await late.commit()
    await publisher.close()
    assert await drain(postgres_store) == [published.id]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("commits", [True, False])
async def test_a_publisher_waits_for_whoever_is_retiring_its_route(
    postgres_store: Store, way: str, *, commits: bool
) -> None:
    await postgres_store.publish(WAYS[way]())
    await drain(postgres_store)
    await retiring_meets(postgres_store, lambda: postgres_store.publish(WAYS[way]()), commits=commits)


@pytest.mark.parametrize("commits", [True, False])
async def test_whoever_retries_a_dead_letter_waits_for_it_too(postgres_store: Store, *, commits: bool) -> None:
    number = await publish_one(postgres_store, None)
    assert await bury(postgres_store, await take_one(postgres_store, None), now=None)
    await retiring_meets(postgres_store, lambda: postgres_store.retry_dead([number], by="me"), commits=commits)


async def retiring_meets(store: Store, doing: Callable[[], Awaitable[Any]], *, commits: bool) -> None:
    """Somebody has retired all routes and not committed yet when ``doing`` begins, which then waits for it."""
    sweeper = await asyncpg.connect(store.url)
    retiring = sweeper.transaction()
    await retiring.start()
    idle = [row[0] for row in await sweeper.fetch(SQL.idle_routes, 0, NOW, 100)]
    assert len(await sweeper.fetch(SQL.retire_routes, idle)) == len(idle) > 0
    task = asyncio.ensure_future(doing())
    watcher = await asyncpg.connect(store.url)
    while not await watcher.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        assert not task.done()
        await asyncio.sleep(0.01)
    await (retiring.commit() if commits else retiring.rollback())
    done = await task
    await sweeper.close()
    await watcher.close()
    expected = sorted(one if isinstance(one, int) else one.id for one in done)
    assert await drain(store) == expected


async def until_stored(store: Store, events: Sequence[NewEvent]) -> list[int]:
    while True:
        with suppress(StoreBusy):  # a sweep without a pause: no route lasts
            return await publish(store, *events, now=None)


async def test_publishers_and_sweepers_at_full_speed_lose_nothing(store: Store, open_another: OpenAnother) -> None:
    """Every round publishes on routes that the sweepers are just about to retire."""
    others = [await open_another() for _ in range(3)]
    stop = asyncio.Event()
    found: list[int] = []

    async def sweep() -> None:
        while not stop.is_set():
            await retire(others[0])
            await asyncio.sleep(0)

    async def work() -> None:
        while not stop.is_set():
            found.extend(await drain(others[1]))
            await asyncio.sleep(0)

    async def produce(which: Store, name: str) -> list[int]:
        numbers: list[int] = []
        for turn in range(40):
            numbers += await until_stored(which, [new(tags=(name, f"t{n}")) for n in range(turn % 3 + 1)])
            numbers += await until_stored(which, [COMPOSER.one(TYPE, turn, {})])
        return numbers

    background = [asyncio.ensure_future(sweep()), asyncio.ensure_future(work())]
    made = await asyncio.gather(produce(store, "a"), produce(store, "b"), produce(others[2], "a"))
    stop.set()
    await asyncio.gather(*background)
    found += await drain(others[1])
    assert sorted(found) == sorted(number for numbers in made for number in numbers)


# ------------------------------------------- what cannot know that a route was retired


async def retire_under(store: Any, event_id: int, type_: str) -> None:
    """The route of an open event is retired all the same; without a type it is one of an older version."""
    prefix, retired = ("eventhub.", "true") if store.engine == "postgres" else ("eventhub_", "1")
    chosen = f"(SELECT route FROM {prefix}deliveries WHERE id = {event_id})"
    statement = f"UPDATE {prefix}routes SET retired = {retired}, type = '{type_}' WHERE id = {chosen}"
    if store.engine == "postgres":
        await store._fetch(statement)
    else:
        await store._write(lambda connection, _: connection.execute(statement).fetchall())


@pytest.mark.parametrize("type_", [TYPE, ""])
async def test_open_work_on_a_retired_route_is_found_by_the_next_sweep(
    store: Store, open_another: OpenAnother, type_: str
) -> None:
    published = await publish(store, new(tags=("t",)), new(tags=("t",), key="k"), new(tags=("t",), key="k"))
    await retire_under(store, published[0], type_)
    other = await open_another()
    assert await take(other, 10) == []
    await other.retire_routes()
    assert await drain(other) == published
    await other.retire_routes()
    assert await drain(other) == []


@pytest.mark.parametrize("isolation", ["read_committed", "repeatable_read", "serializable"])
async def test_a_type_that_is_new_is_published_in_a_caller_s_transaction_of_any_kind(
    postgres_store: Store, isolation: Any
) -> None:
    connection = await asyncpg.connect(postgres_store.url)
    try:
        async with connection.transaction(isolation=isolation):
            await connection.fetchval("SELECT count(*) FROM eventhub.meta")  # its snapshot is older than the route
            (published,) = await postgres_store.publish([new("new.type")], connection=connection)
    finally:
        await connection.close()
    assert await drain(postgres_store) == [published.id]


async def test_a_caller_s_transaction_does_not_wait_in_a_circle_with_whoever_retires_its_route(
    postgres_store: Any,
) -> None:
    """It holds no lock on the route while it has it made known anew, and the next sweep finds what it stored."""
    await publish_one(postgres_store)
    await drain(postgres_store)
    connection = await asyncpg.connect(postgres_store.url)
    try:
        async with asyncio.timeout(30), postgres_store._transaction() as retiring:
            await retiring.fetch("UPDATE eventhub.routes SET retired = true WHERE queue = $1", QUEUE)
            async with connection.transaction():
                (published,) = await postgres_store.publish([new()], connection=connection)
    finally:
        await connection.close()
    await postgres_store.retire_routes()
    assert await drain(postgres_store) == [published.id]
