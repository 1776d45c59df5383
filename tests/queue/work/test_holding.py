"""While a worker is at it: it may say so, ask for more time or give the event back; an operator may take it away."""

import asyncio
from datetime import timedelta

import pytest

from eventhub.clock import ManualClock
from eventhub.core.events import Action, Status
from eventhub.errors import ClaimLost, NotProcessing
from eventhub.queue.work import Lease, WorkQueue
from tests.queue.work.conftest import MakeWork, OpenAnother
from tests.queue.work.support import actions, everything, log_of, picked, publish, take_one

ME, OTHER = "host-a:1", "host-b:2"
FIVE_MINUTES = timedelta(minutes=5)


async def test_start_is_logged_once_a_call_and_counts_the_lease_anew(work: WorkQueue, clock: ManualClock) -> None:
    await publish(work)
    claim = await take_one(work)
    clock.advance(20)
    lease = await work.start(claim.event.id, ME)
    assert lease == Lease(
        event_id=claim.event.id, worker=ME, fence=claim.held.fence, expires_at=clock.now() + FIVE_MINUTES
    )
    (entry,) = await log_of(work, claim.event.id, Action.STARTED)
    assert (entry.worker, entry.attempt, entry.fence, entry.created_at) == (ME, 1, claim.held.fence, clock.now())
    await work.start(claim.event.id, ME, fence=claim.held.fence)
    assert len(await log_of(work, claim.event.id, Action.STARTED)) == 2
    assert (await work.complete(claim.event.id, ME)).repeated is False


async def test_heartbeats_keep_the_claim_and_leave_no_log_row(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    before = await actions(work, number)
    for _ in range(4):
        clock.advance(work.lease - timedelta(seconds=1))
        lease = await work.heartbeat(number, ME)
        assert lease.expires_at == clock.now() + FIVE_MINUTES
        assert await work.take(OTHER, "email") == []
    assert await actions(work, number) == before
    assert (await work.heartbeat(number, ME, lease=3600)).expires_at == clock.now() + timedelta(hours=1)
    event = await work.store.event(number)
    assert event is not None
    assert event.lease_expires_at == clock.now() + timedelta(hours=1)
    assert (await work.start(number, ME, lease=10)).expires_at == clock.now() + timedelta(hours=1), "never shorter"


async def test_the_lease_is_told_by_the_databases_clock(live: WorkQueue) -> None:
    number = await picked(live)
    lease = await live.heartbeat(number, ME, lease=600)
    event = await live.store.event(number)
    assert event is not None
    assert lease.expires_at == event.lease_expires_at


@pytest.mark.parametrize("step", ["start", "heartbeat", "release"])
async def test_all_of_it_goes_through_another_process_too(
    work: WorkQueue, other_process: OpenAnother, step: str
) -> None:
    number = await picked(work)
    elsewhere = await other_process()
    await getattr(elsewhere, step)(number, ME)
    current = (await work.store.current([number]))[number]
    assert current.worker == (None if step == "release" else ME)


async def test_a_lease_that_has_ended_may_be_saved_while_nobody_took_it(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    clock.advance(work.lease + timedelta(seconds=1))
    await work.heartbeat(number, ME)
    assert await work.take(OTHER, "email") == []
    assert (await work.complete(number, ME)).repeated is False


@pytest.mark.parametrize("step", ["start", "heartbeat"])
async def test_many_signs_of_life_at_once_all_count(live: WorkQueue, step: str) -> None:
    number = await picked(live)
    leases = await asyncio.gather(*(getattr(live, step)(number, ME) for _ in range(20)))
    assert {(lease.event_id, lease.worker, lease.fence) for lease in leases} == {(number, ME, 1)}
    assert len(await log_of(live, number, Action.STARTED)) == (20 if step == "start" else 0)


async def test_a_released_event_is_ready_at_once_and_nothing_is_charged(work: WorkQueue) -> None:
    number = await picked(work)
    await work.release(number, ME)
    event = await work.store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.PENDING, 0, 0)
    (entry,) = await log_of(work, number, Action.RELEASED)
    assert entry.worker == ME
    again = await take_one(work, OTHER)
    assert (again.event.id, again.event.attempts) == (number, 1)


async def test_a_worker_may_take_again_what_it_released(work: WorkQueue) -> None:
    number = await picked(work)
    await work.release(number, ME)
    claim = await take_one(work)
    with pytest.raises(ClaimLost):
        await work.complete(number, ME, fence=claim.held.fence - 1)
    assert (await work.complete(number, ME)).fence == claim.held.fence


async def test_releasing_for_ever_never_kills_an_event(make_work: MakeWork) -> None:
    queue = make_work(max_retries=1)
    (number,) = await publish(queue)
    for _ in range(5):
        await take_one(queue)
        await queue.release(number, ME)
    await take_one(queue)
    assert (await queue.complete(number, ME)).retry_count == 0


# --------------------------------------------------------------------- reset


async def test_a_reset_event_is_pending_at_once_and_the_log_says_why(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    clock.advance(40)
    await work.reset(number, "worker_timeout")
    event = await work.store.event(number)
    assert event is not None
    assert (event.status, event.next_retry_at, event.retry_count) == (Status.PENDING, None, 0)
    (entry,) = await log_of(work, number, Action.RESET)
    assert (entry.error, entry.created_at) == ("worker_timeout", clock.now())
    claim = await take_one(work, OTHER)
    before = await everything(work, number)
    for say in (work.complete, work.fail, work.start, work.heartbeat, work.release):
        with pytest.raises(ClaimLost, match=r"an operator took the event back at .* \(worker_timeout\)"):
            await say(number, ME)
    assert await everything(work, number) == before
    assert (await work.complete(number, OTHER)).fence == claim.held.fence


async def test_the_worker_may_take_the_reset_event_again(work: WorkQueue) -> None:
    number = await picked(work)
    await work.reset(number, "try again")
    claim = await take_one(work)
    assert (await work.fail(number, ME)).fence == claim.held.fence


@pytest.mark.parametrize("state", ["never taken", "waiting", "completed", "dead", "released", "reset before"])
async def test_only_what_is_being_worked_on_can_be_reset(make_work: MakeWork, state: str) -> None:
    queue = make_work(max_retries=1 if state == "dead" else 3)
    (number,) = await publish(queue)
    if state != "never taken":
        await take_one(queue)
    if state in ("waiting", "dead"):
        await queue.fail(number, ME)
    elif state == "completed":
        await queue.complete(number, ME)
    elif state == "released":
        await queue.release(number, ME)
    elif state == "reset before":
        await queue.reset(number, "first")
    before = await everything(queue, number)
    with pytest.raises(NotProcessing, match=f"Event {number} .*: nobody is working on it"):
        await queue.reset(number, "second")
    assert await everything(queue, number) == before


async def test_a_reason_that_no_database_could_keep_is_kept_readable(work: WorkQueue) -> None:
    number = await picked(work)
    await work.reset(number, "nul \x00")
    (entry,) = await log_of(work, number, Action.RESET)
    assert entry.error == "nul \\x00"
