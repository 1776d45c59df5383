"""Answers get lost, so every report may come again: the same answer, one log row, whoever is asked."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from eventhub.clock import ManualClock
from eventhub.core.events import Action
from eventhub.errors import AlreadyReported, ClaimLost
from eventhub.queue.work import Recorded, WorkQueue
from tests.queue.work.conftest import MakeWork, OpenAnother
from tests.queue.work.support import actions, everything, log_of, picked, take_one

ME, OTHER = "host-a:1", "host-b:2"
FIVE_MINUTES = timedelta(minutes=5)
REPORTS = ["complete", "fail"]
DETAILS: dict[str, dict[str, Any]] = {
    "complete": {"execution_ms": 12, "status_code": 201},
    "fail": {"execution_ms": 12, "status_code": 503, "error": "boom"},
}


def opposite(report: str) -> str:
    return "fail" if report == "complete" else "complete"


def again(recorded: Recorded) -> Recorded:
    return msgspec.structs.replace(recorded, repeated=True)


async def say(queue: WorkQueue, report: str, number: int, worker: str = ME, **rest: Any) -> Recorded:
    recorded: Recorded = await getattr(queue, report)(number, worker, **DETAILS[report], **rest)
    return recorded


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_same_report_again_gets_the_same_answer_and_changes_nothing(
    work: WorkQueue, other_process: OpenAnother, clock: ManualClock, report: str, *, elsewhere: bool
) -> None:
    number = await picked(work)
    first = await say(work, report, number)
    before = await everything(work, number)
    clock.advance(10)
    asked = await other_process() if elsewhere else work
    assert await say(asked, report, number) == again(first)
    assert await say(asked, report, number, fence=first.fence) == again(first)
    assert await everything(work, number) == before
    with pytest.raises(AlreadyReported):
        await say(asked, opposite(report), number)
    assert await everything(work, number) == before


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_failure_repeated_after_somebody_else_took_the_event_is_still_the_same(
    work: WorkQueue, other_process: OpenAnother, clock: ManualClock, *, elsewhere: bool
) -> None:
    number = await picked(work)
    first = await say(work, "fail", number)
    clock.advance(FIVE_MINUTES)
    await take_one(work, OTHER)
    asked = await other_process() if elsewhere else work
    before = await everything(work, number)
    assert await say(asked, "fail", number) == again(first)
    assert await say(asked, "fail", number, fence=first.fence) == again(first)
    with pytest.raises(AlreadyReported):
        await say(asked, "complete", number)
    assert await everything(work, number) == before
    assert (await say(asked, "complete", number, OTHER)).repeated is False
    assert await say(asked, "fail", number) == again(first)


async def test_a_new_claim_by_the_same_worker_is_a_new_attempt(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    first = await say(work, "fail", number)
    clock.advance(FIVE_MINUTES)
    claim = await take_one(work)
    second = await say(work, "fail", number)
    assert (second.repeated, second.fence, second.retry_count) == (False, claim.held.fence, 2)
    assert len(await log_of(work, number, Action.FAILED)) == 2
    assert await say(work, "fail", number, fence=first.fence) == again(first)
    assert await say(work, "fail", number) == again(second)


async def test_an_old_fence_never_stands_for_the_new_claim(work: WorkQueue, clock: ManualClock) -> None:
    number = await picked(work)
    first = await say(work, "fail", number)
    clock.advance(FIVE_MINUTES)
    await take_one(work)
    before = await everything(work, number)
    with pytest.raises(AlreadyReported):
        await say(work, "complete", number, fence=first.fence)
    assert await everything(work, number) == before


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_final_failure_repeated_makes_no_second_dead_letter(
    make_work: MakeWork, other_process: OpenAnother, *, elsewhere: bool
) -> None:
    queue = make_work(max_retries=1)
    number = await picked(queue)
    first = await say(queue, "fail", number)
    asked = await other_process(max_retries=1) if elsewhere else queue
    repeated = await say(asked, "fail", number)
    assert repeated == again(first)
    assert (repeated.retry_scheduled, repeated.final, repeated.retry_count) == (False, True, 1)
    assert (await queue.store.dead()).total == 1
    assert (await actions(queue, number))[-3:] == ["PICKED", "FAILED", "DEAD"]
    with pytest.raises(AlreadyReported):
        await say(asked, "complete", number)


async def test_a_failure_before_a_fresh_start_counts_as_it_did_then(make_work: MakeWork) -> None:
    queue = make_work(max_retries=2, retry_after=0)
    number = await picked(queue)
    first = await say(queue, "fail", number)
    await take_one(queue)
    last = await say(queue, "fail", number)
    assert (last.final, last.retry_count) == (True, 2)
    assert await queue.store.retry_dead([number], by="operator", now=queue.now()) == {number}
    await take_one(queue)
    fresh = await say(queue, "fail", number)
    assert (fresh.final, fresh.retry_count, fresh.retry_scheduled) == (False, 1, True)
    for recorded in (first, last, fresh):
        assert await say(queue, "fail", number, fence=recorded.fence) == again(recorded)


async def test_the_answer_says_when_the_retry_is_due_even_if_the_setting_has_changed(
    work: WorkQueue, other_process: OpenAnother
) -> None:
    number = await picked(work)
    first = await say(work, "fail", number)
    assert await say(await other_process(retry_after=7), "fail", number) == again(first)


# --------------------------------------------------------------------- races


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("processes", [1, 3])
async def test_fifty_times_the_same_report_at_once_is_one_log_row_and_one_answer(
    live: WorkQueue, other_process: OpenAnother, report: str, processes: int
) -> None:
    number = await picked(live)
    asked = [live, *[await other_process(clock=None) for _ in range(processes - 1)]]
    answers = await asyncio.gather(*(say(asked[n % processes], report, number) for n in range(50)))
    assert {again(answer) for answer in answers} == {again(answers[0])}
    assert sum(not answer.repeated for answer in answers) == 1
    assert len(await log_of(live, number, Action.COMPLETED, Action.FAILED)) == 1


@pytest.mark.parametrize("processes", [1, 2])
async def test_of_complete_and_fail_at_once_exactly_one_wins(
    live: WorkQueue, other_process: OpenAnother, processes: int
) -> None:
    other = live if processes == 1 else await other_process(clock=None)
    for turn in range(10):
        number = await picked(live)
        reports = [say(live, "complete", number), say(other, "fail", number)]
        answers = await asyncio.gather(*(reports if turn % 2 else reversed(reports)), return_exceptions=True)
        assert sorted(type(answer).__name__ for answer in answers) == ["AlreadyReported", "Recorded"]
        (entry,) = await log_of(live, number, Action.COMPLETED, Action.FAILED)
        (won,) = [answer for answer in answers if isinstance(answer, Recorded)]
        assert (entry.action, entry.created_at) == (won.action, won.created_at)


@pytest.mark.parametrize("report", REPORTS)
async def test_a_report_racing_the_sweep_wins_or_is_lost_but_never_half(
    make_work: MakeWork, other_process: OpenAnother, clock: ManualClock, report: str
) -> None:
    work = make_work(retry_after=timedelta(days=1))
    sweeper = await other_process()
    for turn in range(10):
        number = await picked(work)
        clock.advance(work.lease + timedelta(seconds=1))
        both = [say(work, report, number), sweeper.store.tend(now=clock.now())]
        answer, _ = sorted(
            await asyncio.gather(*(both if turn % 2 else reversed(both)), return_exceptions=True),
            key=lambda each: not isinstance(each, Recorded | ClaimLost),
        )
        ends = [entry.action for entry in await log_of(work, number) if entry.action is not Action.PICKED]
        ends = [action for action in ends if action is not Action.PUBLISHED]
        if isinstance(answer, Recorded):
            assert ends == [answer.action]
        else:
            assert isinstance(answer, ClaimLost)
            assert ends == [Action.ABANDONED]
            await work.complete((await take_one(work)).event.id, ME)


async def test_a_report_racing_a_reset_wins_or_is_lost(live: WorkQueue, other_process: OpenAnother) -> None:
    operator = await other_process(clock=None)
    for _ in range(10):
        number = await picked(live)
        answer, reset = await asyncio.gather(
            live.complete(number, ME), operator.reset(number, "stuck"), return_exceptions=True
        )
        if isinstance(answer, Recorded):
            assert type(reset).__name__ == "NotProcessing"
        else:
            assert isinstance(answer, ClaimLost)
            assert reset is None
            assert (await take_one(live)).event.id == number
            await live.complete(number, ME)
