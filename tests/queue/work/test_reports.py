"""What a report does: to the event, to the log, and to nobody else's claim."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventhub.clock import ManualClock
from eventhub.core.events import Action, Status
from eventhub.errors import AlreadyReported, ClaimLost, EventHubError, EventNotFound
from eventhub.queue import EventQueue
from eventhub.queue.work import WorkQueue
from eventhub.store import Store
from tests.queue.work.conftest import MakeWork, OpenAnother
from tests.queue.work.support import Spy, actions, everything, log_of, picked, publish, take_one

ME, OTHER = "host-a:1", "host-b:2"
FIVE_MINUTES = timedelta(minutes=5)
REPORTS = ["complete", "fail"]


async def test_complete_ends_the_event_and_is_logged(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    clock.advance(2)
    recorded = await work.complete(number, ME, execution_ms=1250, status_code=200)
    assert (recorded.event_id, recorded.worker, recorded.action) == (number, ME, Action.COMPLETED)
    assert (recorded.execution_ms, recorded.status_code, recorded.error) == (1250, 200, None)
    assert (recorded.repeated, recorded.final, recorded.retry_scheduled) == (False, False, False)
    assert (recorded.created_at, recorded.next_retry_at) == (clock.now(), None)
    (entry,) = await log_of(work, number, Action.COMPLETED)
    assert (entry.worker, entry.created_at, entry.execution_ms, entry.status_code) == (ME, clock.now(), 1250, 200)
    event = await work.store.event(number)
    assert event is not None
    assert event.status is Status.COMPLETED


async def test_fail_schedules_a_retry_after_the_fixed_delay(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    recorded = await work.fail(number, ME, error="mail server down", execution_ms=5000, status_code=500)
    assert (recorded.action, recorded.error, recorded.status_code) == (Action.FAILED, "mail server down", 500)
    assert (recorded.retry_scheduled, recorded.next_retry_at) == (True, clock.now() + FIVE_MINUTES)
    assert (recorded.retry_count, recorded.max_retries, recorded.final) == (1, 3, False)
    event = await work.store.event(number)
    assert event is not None
    assert (event.status, event.retry_count, event.next_retry_at) == (Status.PENDING, 1, clock.now() + FIVE_MINUTES)


async def test_a_failed_event_is_offered_when_it_is_due_and_not_before(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    await work.fail(number, ME)
    clock.advance(FIVE_MINUTES - timedelta(microseconds=1))
    assert await work.take(ME, "email") == []
    clock.advance(timedelta(microseconds=1))
    assert (await take_one(work)).event.id == number


async def test_the_last_failure_allowed_is_final_and_the_event_is_dead(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    for expected in (1, 2):
        recorded = await work.fail(number, ME, error=f"failure {expected}")
        assert (recorded.retry_count, recorded.final, recorded.retry_scheduled) == (expected, False, True)
        clock.advance(FIVE_MINUTES)
        await take_one(work)
    last = await work.fail(number, ME, error="failure 3")
    assert (last.retry_count, last.max_retries, last.final) == (3, 3, True)
    assert (last.retry_scheduled, last.next_retry_at, last.created_at) == (False, None, clock.now())
    letter = await work.store.dead_event(number)
    assert letter is not None
    assert (letter.status, letter.reason) == (Status.FAILED, "retries_exhausted")
    assert (letter.errors, letter.retry_count) == (["failure 1", "failure 2", "failure 3"], 3)
    assert (await actions(work, number))[-2:] == ["FAILED", "DEAD"]


@pytest.mark.parametrize("max_retries", [1, 2, 5])
async def test_exactly_max_retries_failures_are_allowed(make_work: MakeWork, max_retries: int) -> None:
    queue = make_work(max_retries=max_retries, retry_after=0)
    number = await picked(queue)
    for failures in range(1, max_retries):
        recorded = await queue.fail(number, ME)
        assert (recorded.final, recorded.retry_count) == (False, failures)
        await take_one(queue)
    last = await queue.fail(number, ME)
    assert (last.final, last.retry_count) == (True, max_retries)


async def test_an_abandoned_claim_counts_as_a_failure(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    for _ in range(2):
        clock.advance(work.lease + timedelta(seconds=1))
        await take_one(work, OTHER)
    last = await work.fail(number, OTHER)
    assert (last.final, last.retry_count) == (True, 3)


async def test_an_event_that_its_workers_never_report_ends_dead_whoever_published_it(
    work: WorkQueue, store: Store, clock: ManualClock
) -> None:
    event = await EventQueue(store, queue="work", clock=clock).publish("job", {}, tags="email")
    for _ in range(3):
        assert (await take_one(work)).event.id == event.id
        clock.advance(work.lease + timedelta(seconds=1))
    assert await work.take(ME, "email") == []
    letter = await store.dead_event(event.id)
    assert letter is not None
    assert letter.reason == "worker_lost"


async def test_a_failure_without_a_reason_is_recorded_as_such(work: WorkQueue) -> None:
    number = await picked(work)
    recorded = await work.fail(number, ME)
    (entry,) = await log_of(work, number, Action.FAILED)
    assert recorded.error == entry.error == "The worker gave no reason."


async def test_an_error_that_no_database_could_keep_is_kept_readable(work: WorkQueue) -> None:
    number = await picked(work)
    recorded = await work.fail(number, ME, error="nul \x00, half \ud800, " + "long " * 5000)
    (entry,) = await log_of(work, number, Action.FAILED)
    assert recorded.error == entry.error
    assert entry.error is not None
    assert entry.error.startswith("nul \\x00, half \\ud800, long")


@pytest.mark.parametrize("report", REPORTS)
async def test_the_time_of_a_report_is_that_of_the_log_by_the_databases_clock(live: WorkQueue, report: str) -> None:
    number = await picked(live)
    recorded = await getattr(live, report)(number, ME)
    (entry,) = await log_of(live, number, recorded.action)
    assert recorded.created_at == entry.created_at
    assert abs(recorded.created_at - datetime.now(UTC)) < timedelta(seconds=30)
    if recorded.retry_scheduled:
        event = await live.store.event(number)
        assert event is not None
        assert recorded.next_retry_at == event.next_retry_at == entry.created_at + FIVE_MINUTES


@pytest.mark.parametrize("report", REPORTS)
async def test_an_accepted_report_on_a_remembered_claim_is_one_settle_and_nothing_else(
    work: WorkQueue, spy: Spy, report: str
) -> None:
    number = await picked(work)
    spy.calls.clear()
    await getattr(work, report)(number, ME)
    del spy.calls["see_workers"]
    assert spy.calls == {"settle": 1}


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("with_fence", [True, False])
async def test_a_report_may_come_through_another_process(
    work: WorkQueue, other_process: OpenAnother, report: str, *, with_fence: bool
) -> None:
    await publish(work)
    claim = await take_one(work)
    elsewhere = await other_process()
    fence = claim.held.fence if with_fence else None
    recorded = await getattr(elsewhere, report)(claim.event.id, ME, fence=fence)
    assert (recorded.repeated, recorded.fence, recorded.worker) == (False, claim.held.fence, ME)
    assert recorded.retry_count == (1 if report == "fail" else 0)


@pytest.mark.parametrize("report", REPORTS)
async def test_a_stale_memory_does_not_keep_a_worker_from_its_current_claim(
    work: WorkQueue, other_process: OpenAnother, report: str, clock: ManualClock
) -> None:
    number = await picked(work)
    elsewhere = await other_process()
    await elsewhere.fail(number, ME)
    clock.advance(FIVE_MINUTES)
    claim = await take_one(elsewhere)
    recorded = await getattr(work, report)(number, ME)  # this process remembers the first claim
    assert (recorded.fence, recorded.repeated) == (claim.held.fence, False)
    assert recorded.retry_count == (2 if report == "fail" else 1)


# ------------------------------------------------------------------ refusals


async def refused(queue: WorkQueue, event_id: int, worker: str, error: type[EventHubError], **rest: Any) -> str:
    """Whatever the worker says about the event is refused, and changes nothing; what it is told."""
    before = await everything(queue, event_id)
    for say in (queue.complete, queue.fail, queue.start, queue.heartbeat, queue.release):
        with pytest.raises(error) as caught:
            await say(event_id, worker, **rest)
    assert await everything(queue, event_id) == before
    return str(caught.value)


async def test_another_workers_claim_cannot_be_touched(work: WorkQueue) -> None:
    number = await picked(work)
    text = await refused(work, number, OTHER, ClaimLost)
    assert f"Event {number}: {OTHER} never took it; attempt 1 is running on {ME}" in text
    assert (await work.complete(number, ME)).repeated is False


async def test_a_guessed_fence_does_not_open_another_workers_claim(work: WorkQueue) -> None:
    await publish(work)
    claim = await take_one(work)
    await refused(work, claim.event.id, OTHER, ClaimLost, fence=claim.held.fence)


async def test_a_fence_that_was_never_given_out_is_refused(work: WorkQueue) -> None:
    await publish(work)
    claim = await take_one(work)
    await refused(work, claim.event.id, ME, ClaimLost, fence=claim.held.fence + 1)


async def test_an_event_that_nobody_took_cannot_be_reported(work: WorkQueue) -> None:
    (number,) = await publish(work)
    text = await refused(work, number, ME, ClaimLost)
    assert text == f"Event {number}: {ME} never took it. Take it first, and report under the same worker id."


async def test_an_abandoned_claim_is_lost(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    clock.advance(work.lease + timedelta(seconds=1))
    await work.store.tend(now=clock.now())
    text = await refused(work, number, ME, ClaimLost)
    assert "the lease ended and the claim was abandoned at 2026-01-01T00:05:01.000Z" in text
    assert "Ask for a longer lease, or send heartbeats" in text


async def test_a_claim_that_went_to_another_worker_is_lost(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    clock.advance(work.lease + timedelta(seconds=1))
    await take_one(work, OTHER)
    assert f"attempt 2 is running on {OTHER}" in await refused(work, number, ME, ClaimLost)
    await work.complete(number, OTHER)


async def test_a_released_claim_is_lost(work: WorkQueue) -> None:
    number = await picked(work)
    await work.release(number, ME)
    assert "the claim was given back at" in await refused(work, number, ME, ClaimLost)


async def test_a_reset_claim_is_lost(work: WorkQueue) -> None:
    number = await picked(work)
    await work.reset(number, "worker_timeout")
    assert "an operator took the event back at" in await refused(work, number, ME, ClaimLost)


async def test_a_claim_that_died_with_its_worker_is_lost(make_work: MakeWork, clock: ManualClock) -> None:
    queue = make_work(max_retries=1)
    number = await picked(queue)
    clock.advance(queue.lease + timedelta(seconds=1))
    assert await queue.take(OTHER, "email") == []
    assert "the claim was abandoned" in await refused(queue, number, ME, ClaimLost)


@pytest.mark.parametrize("number", [1, 999_999, 2**63 - 1, 2**63, 2**70, 0, -1])
async def test_an_unknown_id_is_not_found(work: WorkQueue, number: int) -> None:
    for say in (work.complete, work.fail, work.start, work.heartbeat, work.release):
        with pytest.raises(EventNotFound, match=f"Event with id {number} not found"):
            await say(number, ME)
    with pytest.raises(EventNotFound):
        await work.reset(number, "why not")


async def test_events_of_other_queues_are_unknown_in_every_state(work: WorkQueue, store: Store) -> None:
    others = EventQueue(store, queue="default", worker=ME, clock=work.clock)
    ready, held, done, dead = [(await others.publish("a", {}, tags="email")).id for _ in range(4)]
    await store.claim_ids([held, done, dead], worker=ME, lease=FIVE_MINUTES, now=work.now())
    await others.finalize(done)
    await others.finalize(dead, success=False)
    assert await work.take(ME, "email") == []
    assert await work.take(ME, None) == []
    for number in (ready, held, done, dead):
        before = await everything(work, number)
        assert "not found" in await refused(work, number, ME, EventNotFound)
        with pytest.raises(EventNotFound):
            await work.reset(number, "not yours")
        assert await everything(work, number) == before


async def test_an_event_that_somebody_else_settled_is_lost(work: WorkQueue, store: Store) -> None:
    number = await picked(work)
    await work.reset(number, "by hand")
    await EventQueue(store, queue="work", clock=work.clock).finalize(number)
    with pytest.raises(ClaimLost):
        await work.complete(number, ME)


async def test_the_opposite_report_is_refused_with_values_and_a_remedy(work: WorkQueue) -> None:
    number = await picked(work)
    await work.complete(number, ME)
    before = await everything(work, number)
    with pytest.raises(AlreadyReported) as caught:
        await work.fail(number, ME)
    assert str(caught.value) == (
        f"Event {number}, attempt 1 on {ME}: COMPLETED was reported at 2026-01-01T00:00:00.000Z and stands, so FAILED "
        "changes nothing. Report each claim once; a repeated report must be the same."
    )
    assert await everything(work, number) == before
