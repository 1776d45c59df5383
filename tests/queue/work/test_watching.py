"""What an operator sees: work of which nothing is heard, and workers that seem to be gone."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from eventhub.clock import ManualClock
from eventhub.errors import StoreUnavailable
from eventhub.queue import EventQueue
from eventhub.queue.work import WorkerState, WorkQueue
from eventhub.store import Store
from tests.queue.support import until
from tests.queue.work.conftest import MakeWork, OpenAnother
from tests.queue.work.support import Spy, picked, publish, take_one

ME, OTHER = "host-a:1", "host-b:2"
INSTANT = timedelta(microseconds=1)
HALF_A_MINUTE = timedelta(seconds=30)


async def worker(queue: WorkQueue, name: str = ME) -> WorkerState:
    (found,) = [state for state in await queue.workers() if state.name == name]
    return found


# ------------------------------------------------------------------- orphans


async def test_silent_work_is_an_orphan_after_more_than_half_a_minute(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    taken_at = clock.now()
    clock.advance(HALF_A_MINUTE)
    assert await work.orphans() == []
    clock.advance(INSTANT)
    (orphan,) = await work.orphans()
    assert (orphan.event.id, orphan.worker, orphan.fence) == (number, ME, 1)
    assert (orphan.silent_since, orphan.lease_expires_at) == (taken_at, taken_at + work.lease)


async def test_a_log_row_ends_the_silence_and_an_orphan_stays_with_its_worker(
    work: WorkQueue, clock: ManualClock
) -> None:
    number = await picked(work)
    clock.advance(60)
    assert len(await work.orphans()) == 1
    assert await work.take(OTHER, "email") == []
    await work.start(number, ME)
    assert await work.orphans() == []
    clock.advance(60)
    assert len(await work.orphans(silent=59)) == 1
    assert await work.orphans(silent=60) == []
    await work.complete(number, ME)
    assert await work.orphans(silent=0) == []


async def test_orphans_of_other_queues_are_not_shown_and_the_most_silent_come_first(
    work: WorkQueue, store: Store, clock: ManualClock
) -> None:
    others = EventQueue(store, queue="default", clock=clock)
    await others.publish("a", {})
    await others.poll()
    numbers = await publish(work, count=3)
    for number in numbers:
        assert (await take_one(work)).event.id == number
        clock.advance(1)
    clock.advance(60)
    assert [orphan.event.id for orphan in await work.orphans()] == numbers
    assert [orphan.event.id for orphan in await work.orphans(limit=2)] == numbers[:2]


# ------------------------------------------------------------------- workers


async def test_every_worker_is_listed_with_its_last_action_and_open_claims(work: WorkQueue, clock: ManualClock) -> None:
    started_at = clock.now()
    first, second = await publish(work, count=2)
    await work.take(ME, "email", limit=2)
    assert await worker(work) == WorkerState(
        queue=work.name,
        name=ME,
        first_seen=started_at,
        last_seen=started_at,
        last_action="PICKED",
        open_claims=2,
        stale=False,
    )
    last_actions = []
    for step, number in (
        (work.start, first),
        (work.heartbeat, first),
        (work.complete, first),
        (work.release, second),
    ):
        clock.advance(1)
        await step(number, ME)
        last_actions.append((await worker(work)).last_action)
    assert last_actions == ["STARTED", "HEARTBEAT", "COMPLETED", "RELEASED"]
    await take_one(work)
    await work.fail(second, ME)
    assert (await worker(work)).last_action == "FAILED"
    await work.take(OTHER, "email")
    assert (await worker(work, OTHER)).last_action == "POLLED"
    seen = await worker(work)
    assert (seen.first_seen, seen.last_seen, seen.open_claims) == (started_at, clock.now(), 0)


async def test_a_report_that_was_refused_is_no_action(work: WorkQueue) -> None:
    number = await picked(work)
    with pytest.raises(Exception, match="never took it"):
        await work.complete(number, OTHER)
    assert [state.name for state in await work.workers()] == [ME]


async def test_workers_of_other_queues_are_not_shown(work: WorkQueue, store: Store, clock: ManualClock) -> None:
    others = WorkQueue(store, queue="elsewhere", clock=clock)
    await others.take(OTHER, "email")
    await others.close()
    await work.take(ME, "email")
    assert [state.name for state in await work.workers()] == [ME]


async def test_a_worker_with_an_orphan_that_is_itself_not_seen_is_stale(work: WorkQueue, clock: ManualClock) -> None:
    await picked(work)
    clock.advance(HALF_A_MINUTE)
    assert not (await worker(work)).stale
    clock.advance(INSTANT)
    assert (await worker(work)).stale


async def test_a_worker_that_sends_heartbeats_is_not_stale_though_the_log_is_silent(
    work: WorkQueue, clock: ManualClock
) -> None:
    number = await picked(work)
    for _ in range(5):
        clock.advance(25)
        await work.heartbeat(number, ME)
        assert not (await worker(work)).stale
    assert len(await work.orphans()) == 1


async def test_a_worker_whose_lease_has_ended_is_stale(work: WorkQueue, clock: ManualClock) -> None:
    await publish(work)
    await take_one(work, lease=5)
    clock.advance(5)
    assert not (await worker(work)).stale
    clock.advance(INSTANT)
    await work.take(ME, "sms")  # seen just now, but that claim has ended all the same
    state = await worker(work)
    assert (state.stale, state.open_claims) == (False, 0)  # asking for work has swept it


async def test_an_ended_lease_that_nobody_swept_yet_makes_its_worker_stale(work: WorkQueue, clock: ManualClock) -> None:
    await publish(work)
    await take_one(work, lease=5)
    clock.advance(timedelta(seconds=5) + INSTANT)
    state = await worker(work)
    assert (state.stale, state.open_claims) == (True, 1)


async def test_a_worker_without_claims_is_never_stale(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    await work.complete(number, ME)
    clock.advance(timedelta(days=1))
    assert not (await worker(work)).stale


async def test_a_holder_that_was_never_seen_is_stale(work: WorkQueue, store: Store, clock: ManualClock) -> None:
    (number,) = await publish(work)
    await store.claim_ids([number], worker=OTHER, lease=work.lease, now=clock.now())
    state = await worker(work, OTHER)
    assert (state.last_seen, state.open_claims, state.stale) == (None, 1, True)


async def test_workers_are_judged_by_the_databases_clock(live: WorkQueue) -> None:
    await picked(live)
    state = await worker(live)
    assert (state.stale, state.open_claims) == (False, 1)


async def test_workers_of_all_processes_are_seen(work: WorkQueue, other_process: OpenAnother) -> None:
    elsewhere = await other_process()
    await elsewhere.take(OTHER, "email")
    await elsewhere.close()
    await work.take(ME, "email")
    assert {state.name for state in await work.workers()} == {ME, OTHER}


# ----------------------------------------------------------------- sightings


async def test_sightings_are_written_together_and_at_most_once_a_second(live: WorkQueue, spy: Spy) -> None:
    await asyncio.gather(*(live.take(f"host:{n}", "email") for n in range(200)))
    await until(lambda: spy.calls["see_workers"] >= 1)
    numbers = [await picked(live, f"host:{n}") for n in range(50)]
    for n, number in enumerate(numbers):
        await live.complete(number, f"host:{n}")
    assert spy.calls["see_workers"] <= 2
    states = {state.name: state.last_action for state in await live.workers()}
    assert len(states) == 200
    assert {states[f"host:{n}"] for n in range(50)} == {"COMPLETED"}
    assert {states[f"host:{n}"] for n in range(50, 200)} == {"POLLED"}


async def test_what_is_not_written_yet_is_written_on_close(make_work: MakeWork, store: Store) -> None:
    queue = make_work()
    for name in (ME, OTHER):
        await queue.take(name, "email")
    await queue.close()
    assert {seen.name for seen in await store.workers("work")} == {ME, OTHER}


async def test_sightings_that_could_not_be_written_are_kept(make_work: MakeWork, store: Store) -> None:
    queue = make_work()
    see_for_real = store.see_workers

    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    store.see_workers = away  # type: ignore[method-assign]
    await queue.take(ME, "email")
    with pytest.raises(StoreUnavailable):
        await queue.workers()
    store.see_workers = see_for_real  # type: ignore[method-assign]
    await queue.close()
    assert [seen.name for seen in await store.workers("work")] == [ME]


async def test_closing_without_a_database_is_quiet_about_sightings(store_url: str) -> None:
    queue = WorkQueue(store_url)
    await queue.take(ME, "email")
    await queue.store.close()
    await queue.close()
