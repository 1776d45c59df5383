"""What operators and servers ask: what is ready, how much is open, who is silent, who works here, what time it is."""

import asyncio

import apsw
import pytest

from eventhub.core.events import Status
from eventhub.errors import StoreUnavailable
from eventhub.store import Store, open_store
from eventhub.store.values import Sighting, WorkerSeen
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import (
    MICROSECOND,
    MINUTE,
    QUEUE,
    START,
    at,
    bury,
    complete,
    fail,
    kill,
    new,
    publish,
    publish_one,
    seconds,
    take,
    take_one,
)
from tests.postgres_cluster import PostgresCluster

# ------------------------------------------------------------------- current


async def test_how_a_delivery_stands_tells_its_queue_and_its_failures(store: Store) -> None:
    number = await publish_one(store, queue="other", max_attempts=5)
    await fail(store, await take_one(store, queue="other"))
    await take_one(store, at(1), queue="other")
    current = (await store.current([number]))[number]
    assert (current.queue, current.failures, current.attempts, current.max_attempts) == ("other", 1, 2, 5)
    await take_one(store, at(62), queue="other")
    current = (await store.current([number]))[number]
    assert (current.failures, current.attempts) == (2, 3)


# -------------------------------------------------------------- ready routes


async def test_routes_are_ready_when_one_of_theirs_is(store: Store) -> None:
    await publish(
        store,
        new(tags=("leased",)),
        new(tags=("done",)),
        new(tags=("later",), delay=MINUTE),
        new(tags=("a", "b")),
        new(),
        new(tags=("key",), key="k"),
        new(tags=("behind",), key="k"),
        new(tags=("elsewhere",), queue="other"),
        new(tags=("nobody wants",), completed=True),
        new(tags=("dead",)),
    )
    for tag in ("leased", "done", "dead"):
        claim = await take_one(store, tags=[tag])
        if tag == "done":
            await complete(store, claim)
        if tag == "dead":
            await bury(store, claim)
    assert await store.ready_routes(QUEUE) == [("a", "b"), (), ("key",)]
    assert await store.ready_routes("other") == [("elsewhere",)]
    assert await store.ready_routes("nobody") == []
    await store.tend(now=at(61))
    assert await store.ready_routes(QUEUE) == [("leased",), ("later",), ("a", "b"), (), ("key",)]


async def test_the_most_urgent_route_is_named_first_and_each_once(store: Store) -> None:
    await publish(
        store,
        new(tags=("old",)),
        new(tags=("urgent",), priority=5),
        new(tags=("old",), priority=9),
        new(tags=("low",), priority=-1),
        new(tags=("young",)),
    )
    assert await store.ready_routes(QUEUE) == [("old",), ("urgent",), ("young",), ("low",)]


# ---------------------------------------------------------------- open count


async def test_open_work_is_counted_up_to_a_limit(store: Store) -> None:
    assert await store.open_count(10) == 0
    await publish(store, new(), new(key="k"), new(key="k"), new(delay=MINUTE), new(completed=True), new(queue="other"))
    await kill(store)
    await kill(store, key="p", park_when_dead=True)
    await take_one(store)
    assert await store.open_count(10) == 5
    assert await store.open_count(5) == 5
    assert await store.open_count(3) == 3
    assert await store.open_count(0) == 0


# ------------------------------------------------------------------- orphans


async def test_a_claim_is_an_orphan_when_the_log_is_silent_for_longer(store: Store) -> None:
    number = await publish_one(store, payload="kept", tags=("red",), title="a title")
    claim = await take_one(store, at(10), lease=seconds(300))
    assert await store.orphans(QUEUE, silent=seconds(30), now=at(40)) == [], "exactly at the limit it is none yet"
    (orphan,) = await store.orphans(QUEUE, silent=seconds(30), now=at(40) + MICROSECOND)
    assert (orphan.worker, orphan.fence) == ("worker-a", claim.held.fence)
    assert (orphan.silent_since, orphan.lease_expires_at) == (at(10), at(310))
    assert orphan.event == await store.event(number)
    assert (orphan.event.payload, orphan.event.title, orphan.event.status) == ("kept", "a title", Status.PROCESSING)
    assert orphan.event.attempts == 1


async def test_a_start_is_heard_and_a_heartbeat_is_not(store: Store) -> None:
    started, extended = await publish(store, new(), new())
    first, second = await take(store, 2, lease=seconds(300))
    await store.start([first.held], seconds(300), now=at(25))
    await store.extend([second.held], seconds(300), now=at(25))
    assert [o.event.id for o in await store.orphans(QUEUE, silent=seconds(30), now=at(50))] == [extended]
    both = await store.orphans(QUEUE, silent=seconds(30), now=at(56))
    assert [orphan.event.id for orphan in both] == [extended, started], "the most silent first"
    assert len(await store.orphans(QUEUE, silent=seconds(30), limit=1, now=at(56))) == 1
    for limit, counted in ((1, 1), (2, 2), (100, 2)):
        assert await store.count_orphans(QUEUE, silent=seconds(30), limit=limit, now=at(56)) == counted
    assert await store.count_orphans(QUEUE, silent=seconds(30), limit=9, now=at(50)) == 1
    assert await store.count_orphans("nobody", silent=seconds(30), limit=9, now=at(56)) == 0


async def test_only_claims_of_the_queue_are_orphans(store: Store) -> None:
    await publish(store, new(), new(), new(delay=MINUTE), new(queue="other"))
    await take_one(store)
    await complete(store, await take_one(store))
    await publish_one(store)
    await take_one(store, queue="other")
    assert [o.event.queue for o in await store.orphans(QUEUE, silent=seconds(1), now=at(30))] == [QUEUE]
    assert [o.event.queue for o in await store.orphans("other", silent=seconds(1), now=at(30))] == ["other"]
    assert await store.orphans("nobody", silent=seconds(1), now=at(30)) == []
    assert await store.orphans(QUEUE, silent=seconds(1)) != [], "by the clock of the database it is long after"


# ------------------------------------------------------------------- workers


def seen(worker: str, action: str = "POLLED", queue: str = QUEUE) -> Sighting:
    return Sighting(queue, worker, action)


async def test_workers_are_told_with_what_they_did_and_hold(store: Store) -> None:
    await store.see_workers([seen("idle"), seen("busy")], now=START)
    await store.see_workers([seen("busy", "PICKED"), seen("busy", "COMPLETED"), seen("x", queue="other")], now=at(5))
    await publish(store, *(new() for _ in range(3)), new(queue="other"))
    await take(store, 1, worker="busy", now=at(5), lease=seconds(100))
    await take(store, 1, worker="busy", now=at(6))
    await take(store, 1, worker="unseen", now=at(7))
    await take(store, 1, worker="unseen", now=at(7), queue="other")
    assert await store.workers(QUEUE, now=at(10)) == [
        WorkerSeen(
            queue=QUEUE,
            name="busy",
            first_seen=START,
            last_seen=at(5),
            last_action="COMPLETED",
            silent=seconds(5),
            open_claims=2,
            lease_expires_at=at(66),
        ),
        WorkerSeen(
            queue=QUEUE, name="idle", first_seen=START, last_seen=START, last_action="POLLED", silent=seconds(10)
        ),
        WorkerSeen(queue=QUEUE, name="unseen", open_claims=1, lease_expires_at=at(67)),
    ]
    assert [worker.name for worker in await store.workers("other")] == ["x", "unseen"]
    both = await store.workers(QUEUE, "other")
    assert {(worker.queue, worker.name, worker.open_claims) for worker in both} == {
        (QUEUE, "busy", 2),
        (QUEUE, "idle", 0),
        (QUEUE, "unseen", 1),
        ("other", "x", 0),
        ("other", "unseen", 1),
    }
    assert await store.count_workers(QUEUE, "other") == 5
    await store.see_workers([seen("dispatcher", queue="hub"), seen("fanout", queue="#fanout")], now=START)
    assert await store.queues_of_workers() == sorted([QUEUE, "other"])
    assert await store.workers("nobody") == []


async def test_a_page_of_workers_and_how_many_there_are(store: Store) -> None:
    await store.see_workers([seen(f"w{n}") for n in range(5)], now=START)
    await publish(store, new(), new())
    await take(store, 1, worker="w1")
    await take(store, 1, worker="unseen")
    assert [worker.name for worker in await store.workers(QUEUE, limit=2)] == ["w0", "w1"]
    assert await store.count_workers(QUEUE) == 6
    assert await store.count_workers("nobody") == 0


async def test_who_was_not_seen_for_long_and_holds_nothing_is_forgotten(store: Store) -> None:
    await store.see_workers([seen("old"), seen("busy"), seen("x", queue="other")], now=START)
    await store.see_workers([seen("young")], now=START + MICROSECOND)
    await publish(store, new())
    await take(store, 1, worker="busy", lease=seconds(1000))
    assert await store.forget_workers(unseen=MINUTE, now=at(60)) == 0, "exactly at the limit they are still known"
    assert await store.forget_workers(unseen=MINUTE, now=at(60) + MICROSECOND) == 2
    assert [worker.name for worker in await store.workers(QUEUE)] == ["young", "busy"]
    assert await store.workers("other") == []


async def test_a_sighting_never_makes_anything_older(store: Store) -> None:
    await store.see_workers([seen("w", "PICKED")], now=at(10))
    await store.see_workers([seen("w", "POLLED")], now=at(5))
    (worker,) = await store.workers(QUEUE, now=at(10))
    assert (worker.first_seen, worker.last_seen, worker.last_action) == (at(5), at(10), "PICKED")


async def test_sightings_go_by_the_databases_clock(store: Store) -> None:
    before = await store.now()
    await store.see_workers([seen("w")])
    await store.see_workers([])
    (worker,) = await store.workers(QUEUE)
    assert worker.last_seen is not None
    assert worker.silent is not None
    assert before <= worker.last_seen <= await store.now()
    assert seconds(0) <= worker.silent < seconds(100)


async def test_many_who_see_the_same_workers_at_once_agree(store: Store, open_another: OpenAnother) -> None:
    stores = [store, await open_another(), await open_another()]
    names = [f"worker-{n}" for n in range(8)]

    async def see(number: int) -> None:
        order = names[number % 8 :] + names[: number % 8]
        sightings = [seen(name, f"did {number}") for name in order]
        await stores[number % 3].see_workers(sightings, now=at(number * 37 % 60))

    await asyncio.gather(*(see(number) for number in range(60)))
    newest = next(number for number in range(60) if number * 37 % 60 == 59)
    workers = await store.workers(QUEUE, now=at(60))
    assert {worker.name for worker in workers} == set(names)
    assert {(w.first_seen, w.last_seen, w.last_action) for w in workers} == {(START, at(59), f"did {newest}")}


# ------------------------------------------------------------ clock and check


async def test_the_time_is_that_of_the_database_and_goes_on(store: Store) -> None:
    first, second = await store.now(), await store.now()
    assert first.utcoffset() == seconds(0)
    assert START < first <= second
    number = await publish_one(store, now=None)
    event = await store.event(number)
    assert event is not None
    assert second <= event.created_at <= await store.now()


async def test_a_store_that_answers_passes_its_check(store: Store) -> None:
    await store.check()


async def test_a_database_that_is_gone_fails_the_check(postgres_url: str, postgres: PostgresCluster) -> None:
    async with open_store(postgres_url) as store:
        await store.check()
        postgres.stop()
        with pytest.raises(StoreUnavailable):
            await store.check()
        postgres.start()
        await store.check()


async def test_a_file_whose_writer_has_given_up_fails_the_check(sqlite_path: object) -> None:
    async with open_store(str(sqlite_path)) as store:

        def fail_to_sync(_: object) -> None:
            raise apsw.IOError("the sync failed")

        with pytest.raises(StoreUnavailable):
            await store._writer.run(fail_to_sync)  # type: ignore[attr-defined]
        with pytest.raises(StoreUnavailable, match="input/output"):
            await store.check()
