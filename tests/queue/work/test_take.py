"""Taking work: which, how much, for how long, and how nobody waits longer than needed."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from eventhub.clock import ManualClock
from eventhub.core.lifecycle import State
from eventhub.errors import InvalidEventError, SettingsError, StoreError
from eventhub.queue import EventQueue
from eventhub.queue.work import WorkQueue
from eventhub.queue.work.waiting_room import LOOK_SECONDS
from eventhub.store import Store
from tests.queue.support import until
from tests.queue.work.conftest import MakeWork, OpenAnother
from tests.queue.work.support import Spy, actions, picked, publish, take_one, waiting

ME, OTHER = "host-a:1", "host-b:2"
SOON = 20.0
"""Seconds that no test needs, unless something is wrong."""


async def test_a_worker_gets_the_claim_with_its_fence_and_lease(work: WorkQueue, clock: ManualClock) -> None:
    (number,) = await publish(work, title="Send it")
    claim = await take_one(work)
    assert (claim.event.id, claim.event.title, claim.event.payload) == (number, "Send it", {"n": 0})
    assert (claim.held.fence, claim.event.attempts, claim.max_attempts) == (1, 1, 3)
    assert claim.lease_expires_at == clock.now() + timedelta(seconds=300)


async def test_a_worker_may_ask_for_another_lease(work: WorkQueue, clock: ManualClock) -> None:
    await publish(work, count=2)
    assert (await take_one(work, lease=10)).lease_expires_at == clock.now() + timedelta(seconds=10)
    assert (await take_one(work, lease=timedelta(hours=1))).lease_expires_at == clock.now() + timedelta(hours=1)


async def test_at_most_the_limit_is_taken_oldest_first(work: WorkQueue) -> None:
    numbers = await publish(work, count=5)
    assert [claim.event.id for claim in await work.take(ME, "email", limit=3)] == numbers[:3]
    assert [claim.event.id for claim in await work.take(ME, "email", limit=3)] == numbers[3:]
    assert await work.take(ME, "email", limit=3) == []


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [("email", True), ("sms, email", True), (["x", "urgent"], True), ("mail", False), ("email2", False), (None, True)],
)
async def test_any_tag_fits_but_only_whole(work: WorkQueue, wanted: Any, *, fits: bool) -> None:
    await publish(work, "email, urgent")
    assert bool(await work.take(ME, wanted)) is fits


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"worker": ""}, InvalidEventError),
        ({"worker": "w" * 201}, InvalidEventError),
        ({"worker": "nul\x00"}, InvalidEventError),
        ({"worker": "half\ud800"}, InvalidEventError),
        ({"worker": 7}, InvalidEventError),
        ({"tags": " , "}, InvalidEventError),
        ({"tags": "not a tag"}, InvalidEventError),
        ({"limit": 0}, SettingsError),
        ({"lease": 0}, SettingsError),
        ({"wait": float("nan")}, SettingsError),
        ({"wait": "long"}, SettingsError),
    ],
)
async def test_what_cannot_be_meant_is_refused(work: WorkQueue, arguments: Any, error: type[Exception]) -> None:
    await publish(work)
    with pytest.raises(error):
        await work.take(**{"worker": ME, "tags": "email", **arguments})
    assert len(await work.take("w" * 200, "email")) == 1


@pytest.mark.parametrize("max_retries", [0, -1, None])
async def test_at_least_one_attempt_must_be_allowed(make_work: MakeWork, max_retries: Any) -> None:
    with pytest.raises(SettingsError):
        make_work(max_retries=max_retries)


# ------------------------------------------------------------------ waiting


async def test_work_that_is_there_is_taken_without_waiting(live: WorkQueue, spy: Spy) -> None:
    await publish(live)
    async with asyncio.timeout(SOON):
        assert len(await live.take(ME, "email", wait=60)) == 1
    assert (spy.calls["claim"], spy.calls["ready_routes"]) == (1, 0)


async def test_a_wait_ends_empty_when_its_time_is_up(live: WorkQueue) -> None:
    async with asyncio.timeout(SOON):
        assert await live.take(ME, "email", wait=0.05) == []
    assert live.room.waiting == 0


async def test_a_publish_ends_the_wait(live: WorkQueue) -> None:
    (task,) = waiting(live, 1)
    await until(lambda: live.room.waiting == 1)
    (number,) = await publish(live)
    async with asyncio.timeout(SOON):
        (claim,) = await task
    assert claim.event.id == number
    assert (await live.complete(number, "host-email:0")).repeated is False


async def test_a_publish_through_any_face_of_the_store_ends_the_wait(live: WorkQueue, store: Store) -> None:
    (task,) = waiting(live, 1)
    await until(lambda: live.room.waiting == 1)
    event = await EventQueue(store, queue="work").publish("job", {}, tags="email")
    async with asyncio.timeout(SOON):
        assert [claim.event.id for claim in await task] == [event.id]


async def test_a_publish_in_another_process_ends_the_wait(live: WorkQueue, other_process: OpenAnother) -> None:
    assert LOOK_SECONDS <= 1.0  # however badly signals go
    elsewhere = await other_process(clock=None)
    for _ in range(3):
        (task,) = waiting(live, 1)
        await until(lambda: live.room.waiting == 1)
        (number,) = await publish(elsewhere)
        async with asyncio.timeout(30):
            assert [claim.event.id for claim in await task] == [number]


async def test_a_publish_that_races_with_sitting_down_is_never_missed(live: WorkQueue) -> None:
    for turn in range(30):
        (task,) = waiting(live, 1)
        for _ in range(turn):
            await asyncio.sleep(0)
        (number,) = await publish(live)
        async with asyncio.timeout(SOON):
            assert [claim.event.id for claim in await task] == [number]


async def test_a_look_that_comes_while_a_waiter_is_still_asking_does_not_pass_it_over(
    live: WorkQueue, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eventhub.queue.work.waiting_room.LOOK_SECONDS", 1000.0)
    (bystander,) = waiting(live, 1, "sms")
    await until(lambda: live.room.waiting == 1)
    claim_for_real = store.claim

    async def claim(*args: Any, **named: Any) -> Any:
        store.claim = claim_for_real  # type: ignore[method-assign]
        claims = await claim_for_real(*args, **named)
        looks = live.room.looks
        await publish(live)
        await until(lambda: live.room.looks > looks)
        return claims

    store.claim = claim  # type: ignore[method-assign]
    async with asyncio.timeout(SOON):
        assert len(await live.take(ME, "email", wait=SOON)) == 1
    bystander.cancel()


async def test_a_due_retry_ends_the_wait_without_a_publish(make_work: MakeWork) -> None:
    queue = make_work(clock=None, retry_after=0.2)
    number = await picked(queue)
    await queue.fail(number, ME)
    async with asyncio.timeout(SOON):
        (claim,) = await queue.take(OTHER, "email", wait=SOON)
    assert (claim.event.id, claim.event.retry_count) == (number, 1)


async def test_an_ended_lease_ends_the_wait_without_a_publish(live: WorkQueue) -> None:
    await publish(live)
    first = await take_one(live, lease=0.2)
    async with asyncio.timeout(SOON):
        (claim,) = await live.take(OTHER, "email", wait=SOON)
    assert (claim.event.id, claim.event.attempts) == (first.event.id, 2)


@pytest.mark.parametrize("how", ["release", "reset", "give_back"])
async def test_work_that_comes_back_ends_the_wait(live: WorkQueue, how: str) -> None:
    await publish(live)
    claim = await take_one(live)
    task = asyncio.create_task(live.take(OTHER, "email", wait=SOON))
    await until(lambda: live.room.waiting == 1)
    if how == "release":
        await live.release(claim.event.id, ME)
    elif how == "reset":
        await live.reset(claim.event.id, "stuck")
    else:
        await live.give_back([claim])
    async with asyncio.timeout(SOON):
        assert [again.event.id for again in await task] == [claim.event.id]


async def test_the_injected_clock_moves_waits_as_well(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    await work.fail(number, ME)
    (task,) = waiting(work, 1)
    await until(lambda: work.room.waiting == 1)
    clock.advance(work.retry_after)
    async with asyncio.timeout(SOON):
        assert [claim.event.id for claim in await task] == [number]


async def test_a_waiter_may_take_several_at_once(live: WorkQueue) -> None:
    task = asyncio.create_task(live.take(ME, "email", limit=10, wait=SOON))
    await until(lambda: live.room.waiting == 1)
    numbers = await publish(live, count=4)
    async with asyncio.timeout(SOON):
        assert [claim.event.id for claim in await task] == numbers


# ------------------------------------------------------------- ordered keys


async def test_of_an_ordering_key_at_most_one_is_in_flight_and_the_next_comes_at_once(live: WorkQueue) -> None:
    numbers = await publish(live, count=3, ordering_key="customer-7")
    (claim,) = await live.take(ME, "email", limit=10)
    for current, following in zip(numbers, [*numbers[1:], None], strict=True):
        assert claim.event.id == current
        task = asyncio.create_task(live.take(OTHER, "email", wait=SOON))
        await until(lambda: live.room.waiting == 1)
        await live.complete(current, ME if current == numbers[0] else OTHER)
        if following is None:
            task.cancel()
            break
        async with asyncio.timeout(SOON):
            (claim,) = await task


async def test_a_failed_event_holds_its_successors_until_its_retry(work: WorkQueue, clock: ManualClock) -> None:
    first, second = await publish(work, count=2, ordering_key="customer-7")
    await take_one(work)
    await work.fail(first, ME)
    assert await work.take(ME, "email") == []
    clock.advance(work.retry_after)
    assert [claim.event.id for claim in await work.take(ME, "email", limit=5)] == [first]
    await work.complete(first, ME)
    assert [claim.event.id for claim in await work.take(ME, "email", limit=5)] == [second]


# --------------------------------------------------------- going away, stopping


async def test_a_waiter_that_goes_away_at_any_moment_costs_nobody_anything(live: WorkQueue) -> None:
    (number,) = await publish(live)
    for turn in range(60):
        task = asyncio.create_task(live.take(f"host:{turn}", "email", wait=SOON if turn % 2 else 0))
        for _ in range(turn // 3):
            await asyncio.sleep(0)
        task.cancel()
        (answer,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(answer, list):
            await live.give_back(answer)
        await until(lambda: not live.store._background)  # where the store gives back what came too late
    current = (await live.store.current([number]))[number]
    assert (current.state, current.attempts, current.failures) == (State.READY, 0, 0)
    assert live.room.waiting == 0
    assert {"FAILED", "ABANDONED"}.isdisjoint(await actions(live, number))


@pytest.mark.parametrize("moment", ["claiming", "answered"])
async def test_a_claim_for_a_waiter_that_has_gone_is_given_back_uncharged(
    live: WorkQueue, store: Store, moment: str
) -> None:
    (task,) = waiting(live, 1)
    await until(lambda: live.room.waiting == 1)
    claim_for_real = store.claim

    async def claim(*args: Any, **named: Any) -> Any:
        claims = await claim_for_real(*args, **named)
        if claims and named["worker"] == "host-email:0":
            if moment == "claiming":
                task.cancel()
                await asyncio.wait({task})
            else:  # the answer is there before its reader is gone, but is not read any more
                asyncio.get_running_loop().call_soon(task.cancel)
        return claims

    store.claim = claim  # type: ignore[method-assign]
    (number,) = await publish(live)
    with pytest.raises(asyncio.CancelledError):
        await task
    other = asyncio.create_task(live.take(OTHER, "email", wait=SOON))
    async with asyncio.timeout(SOON):
        (again,) = await other
    assert (again.event.id, again.event.attempts, again.event.retry_count) == (number, 1, 0)
    assert (await actions(live, number))[-3:] == ["PICKED", "RELEASED", "PICKED"]


async def test_a_claim_that_comes_when_the_time_is_up_is_still_the_answer(live: WorkQueue, store: Store) -> None:
    claim_for_real = store.claim

    async def claim(*args: Any, **named: Any) -> Any:
        claims = await claim_for_real(*args, **named)
        if claims:
            waiter = next(iter(live.room._groups[frozenset({"email"})]))
            waiter.expire()
        return claims

    (task,) = waiting(live, 1)
    await until(lambda: live.room.waiting == 1)
    store.claim = claim  # type: ignore[method-assign]
    (number,) = await publish(live)
    async with asyncio.timeout(SOON):
        assert [each.event.id for each in await task] == [number]


async def test_stop_ends_all_waits_at_once_and_nothing_more_is_claimed(live: WorkQueue, spy: Spy) -> None:
    tasks = waiting(live, 20) + waiting(live, 20, "sms")
    await until(lambda: live.room.waiting == 40)
    live.stop()
    async with asyncio.timeout(SOON):
        assert await asyncio.gather(*tasks) == [[]] * 40
    (number,) = await publish(live)
    spy.calls.clear()
    assert await live.take(ME, "email") == await live.take(ME, "email", wait=60) == []
    assert spy.calls["claim"] == 0
    assert [ready.id for ready in await live.store.ready("work")] == [number]


async def test_a_claim_on_its_way_when_the_queue_stops_is_given_back(make_work: MakeWork, store: Store) -> None:
    queue = make_work(clock=None)
    claim_for_real = store.claim

    async def claim(*args: Any, **named: Any) -> Any:
        claims = await claim_for_real(*args, **named)
        if claims:
            queue.stop()
        return claims

    (task,) = waiting(queue, 1)
    await until(lambda: queue.room.waiting == 1)
    store.claim = claim  # type: ignore[method-assign]
    (number,) = await publish(queue)
    assert await task == []
    await queue.close()
    assert [ready.id for ready in await store.ready("work")] == [number]
    assert (await store.current([number]))[number].attempts == 0


async def test_reports_go_through_after_the_stop(live: WorkQueue) -> None:
    number = await picked(live)
    live.stop()
    assert (await live.complete(number, ME)).repeated is False


async def test_trouble_with_the_store_is_told_to_those_who_wait(store_url: str) -> None:
    queue = WorkQueue(store_url)
    tasks = waiting(queue, 3) + waiting(queue, 3, "sms")
    await until(lambda: queue.room.waiting == 6)
    await queue.store.close()
    async with asyncio.timeout(SOON):
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(answer, StoreError) for answer in answers)
    await queue.close()


# -------------------------------------------------------------------- its life


async def test_a_queue_closes_the_store_that_it_opened(store_url: str) -> None:
    async with WorkQueue(store_url) as queue:
        assert await queue.take(ME, "email") == []
    assert queue.store.closed
    await queue.close()


async def test_a_shared_store_stays_open_for_its_other_faces(store: Store, clock: ManualClock) -> None:
    async with WorkQueue(store, clock=clock) as queue:
        number = await picked(queue)
    assert not store.closed
    async with WorkQueue(store, clock=clock) as queue:
        await queue.complete(number, ME)
