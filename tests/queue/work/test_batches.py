"""Many reports at once: one write, and each report has its own answer."""

import msgspec
import pytest

from eventhub.core.events import Action
from eventhub.errors import AlreadyReported, ClaimLost, EventNotFound
from eventhub.queue.work import Recorded, WorkQueue, WorkReport
from tests.queue.work.conftest import MakeWork, OpenAnother
from tests.queue.work.support import Spy, log_of, picked, publish, take_one

ME, OTHER = "host-a:1", "host-b:2"
REPORTS = ["complete_many", "fail_many"]


async def taken(queue: WorkQueue, count: int) -> list[int]:
    await publish(queue, count=count)
    return [claim.event.id for claim in await queue.take(ME, "email", limit=count)]


def about(numbers: list[int], worker: str = ME) -> list[WorkReport]:
    return [
        WorkReport(event_id=number, worker=worker, execution_ms=place, error=f"error {place}")
        for place, number in enumerate(numbers)
    ]


@pytest.mark.parametrize("report", REPORTS)
async def test_a_batch_is_one_settle_and_nothing_else(work: WorkQueue, spy: Spy, report: str) -> None:
    numbers = await taken(work, 100)
    spy.calls.clear()
    answers = await getattr(work, report)(about(numbers))
    del spy.calls["see_workers"]
    assert spy.calls == {"settle": 1}
    assert [answer.event_id for answer in answers] == numbers
    assert [answer.execution_ms for answer in answers] == list(range(100))


@pytest.mark.parametrize("report", REPORTS)
async def test_a_batch_through_another_process_is_one_look_and_one_settle(
    work: WorkQueue, other_process: OpenAnother, report: str
) -> None:
    numbers = await taken(work, 20)
    elsewhere = await other_process()
    counted = Spy(elsewhere.store)
    answers = await getattr(elsewhere, report)(about(numbers))
    assert counted.calls["settle"] == counted.calls["current"] == 1
    assert [answer.event_id for answer in answers] == numbers
    assert not any(answer.repeated for answer in answers)


@pytest.mark.parametrize("report", REPORTS)
async def test_every_report_has_its_own_answer(work: WorkQueue, report: str) -> None:
    action = Action.COMPLETED if report == "complete_many" else Action.FAILED
    good, repeated, opposite, stolen = await taken(work, 4)
    (never_taken,) = await publish(work)
    before, against = (work.complete, work.fail) if action is Action.COMPLETED else (work.fail, work.complete)
    first = await before(repeated, ME)
    await against(opposite, ME)
    reports = [
        *about([good, repeated, opposite]),
        *about([stolen], OTHER),
        *about([never_taken, 987_654, 2**65]),
    ]
    answers = await getattr(work, report)(reports)
    assert [type(answer) for answer in answers] == [
        Recorded,
        Recorded,
        AlreadyReported,
        ClaimLost,
        ClaimLost,
        EventNotFound,
        EventNotFound,
    ]
    assert (answers[0].repeated, answers[0].action) == (False, action)
    assert answers[1] == msgspec.structs.replace(first, repeated=True)
    (untouched,) = (await work.store.current([stolen])).values()
    assert untouched.worker == ME


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("retry_after", [0, 300])
async def test_the_same_report_twice_in_one_batch_is_recorded_once(
    make_work: MakeWork, report: str, retry_after: int
) -> None:
    queue = make_work(retry_after=retry_after)
    number = await picked(queue)
    once = WorkReport(event_id=number, worker=ME, error="boom")
    with_fence = WorkReport(event_id=number, worker=ME, error="boom", fence=1)
    first, *rest = await getattr(queue, report)([once, with_fence, once])
    assert not first.repeated
    assert rest == [msgspec.structs.replace(first, repeated=True)] * 2
    assert len(await log_of(queue, number, Action.COMPLETED, Action.FAILED)) == 1


async def test_several_attempts_of_one_event_in_one_batch_are_told_apart(make_work: MakeWork) -> None:
    queue = make_work(retry_after=0)
    number = await picked(queue)
    first = await queue.fail(number, ME)
    current = await take_one(queue)
    reports = [
        WorkReport(event_id=number, worker=ME, fence=first.fence),
        WorkReport(event_id=number, worker=ME, fence=current.held.fence),
    ]
    old, new = await queue.fail_many(reports)
    assert isinstance(old, Recorded)
    assert isinstance(new, Recorded)
    assert (old.repeated, old.retry_count, new.repeated, new.retry_count) == (True, 1, False, 2)


async def test_some_failures_of_a_batch_may_be_final(make_work: MakeWork) -> None:
    queue = make_work(max_retries=2, retry_after=0)
    number = await picked(queue)
    await queue.fail(number, ME)
    fresh, again = sorted([number, *await publish(queue)], reverse=True)
    await queue.take(ME, "email", limit=2)
    answers = await queue.fail_many(about([fresh, again]))
    assert [(a.event_id, a.final, a.retry_count) for a in answers if isinstance(a, Recorded)] == [
        (fresh, False, 1),
        (again, True, 2),
    ]


async def test_no_reports_no_answers(work: WorkQueue) -> None:
    assert await work.complete_many([]) == await work.fail_many([]) == []
