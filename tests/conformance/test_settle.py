"""How a claim may end: completed, to be tried again, given back or given up, and what each leaves behind."""

from datetime import datetime
from http import HTTPStatus

import msgspec
import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Outcome, Reason, Release, Retry, State
from eventhub.store import Store
from eventhub.store.claims import Held
from eventhub.store.values import Report
from tests.conformance.support import (
    MICROSECOND,
    MINUTE,
    START,
    actions,
    at,
    bury,
    complete,
    fail,
    ids,
    new,
    publish,
    publish_one,
    release,
    report,
    seconds,
    take,
    take_one,
)

CODES = (HTTPStatus.ACCEPTED, 200, None)
TROUBLE = 'Zeile 1\nline 2\t"quoted" \\ back \' € 😀 {json: [1]} %s $1 ?'


async def test_nothing_to_report_is_fine(store: Store) -> None:
    assert await store.settle([]) == []


async def test_a_completed_delivery_is_gone_and_its_event_stays(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store, at(1))
    settled = await report(store, claim, Complete(execution_ms=12, status_code=HTTPStatus.NO_CONTENT), now=at(2))
    assert (settled.id, settled.accepted, settled.current) == (number, True, None)
    assert await store.current([number]) == {}
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.COMPLETED, 1, 0)
    assert (event.updated_at, event.lease_expires_at, event.next_retry_at) == (at(2), None, None)
    entry = (await store.log(number))[-1]
    assert (entry.action, entry.worker, entry.attempt, entry.fence) == ("COMPLETED", "worker-a", 1, 1)
    assert (entry.execution_ms, entry.status_code, entry.error) == (12, 204, None)
    assert (entry.delivery_id, entry.created_at) == (number, at(2))


async def test_a_failed_attempt_waits_for_its_retry_as_pending(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store, at(1))
    settled = await report(store, claim, Retry(TROUBLE, seconds(30), 7, 503), now=at(2))
    assert settled.accepted
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.PENDING, 1, 1)
    assert (event.next_retry_at, event.lease_expires_at, event.errors) == (at(32), None, (TROUBLE,))
    entry = (await store.log(number))[-1]
    assert (entry.action, entry.error, entry.status_code, entry.execution_ms) == ("FAILED", TROUBLE, 503, 7)
    assert (entry.worker, entry.attempt, entry.fence) == ("worker-a", 1, 1)
    current = (await store.current([number]))[number]
    assert (current.state, current.worker, current.due) == (State.WAITING, None, at(32))


async def test_a_retry_is_due_exactly_at_its_time(store: Store) -> None:
    number = await publish_one(store)
    await fail(store, await take_one(store), after=30)
    assert await take(store, now=at(30) - MICROSECOND) == []
    assert ids(await take(store, now=at(30))) == [number]


@pytest.mark.parametrize("after", [0, -5])
async def test_a_retry_without_a_wait_is_ready_at_once(store: Store, after: float) -> None:
    number = await publish_one(store)
    await fail(store, await take_one(store), after=after)
    current = (await store.current([number]))[number]
    assert (current.state, current.due) == (State.READY, None)
    assert ids(await take(store)) == [number]


async def test_a_retry_goes_back_to_its_place_by_age(store: Store) -> None:
    old, young = await publish(store, new(), new())
    await fail(store, await take_one(store), after=5)
    assert ids(await take(store, 10, now=at(5))) == [old, young]


async def test_younger_work_does_not_wait_for_a_retry(store: Store) -> None:
    _, young = await publish(store, new(), new())
    await fail(store, await take_one(store), after=5)
    assert ids(await take(store, 10, now=at(4))) == [young]


async def test_errors_are_kept_in_order_and_counted(store: Store) -> None:
    number = await publish_one(store)
    for turn in range(3):
        await fail(store, await take_one(store), f"error {turn}")
    event = await store.event(number)
    assert event is not None
    assert (event.attempts, event.retry_count) == (3, 3)
    assert event.errors == ("error 0", "error 1", "error 2")


async def test_only_the_last_hundred_errors_are_kept(store: Store) -> None:
    number = await publish_one(store)
    for turn in range(105):
        await fail(store, await take_one(store), f"error {turn}")
    event = await store.event(number)
    assert event is not None
    assert event.retry_count == 105
    assert event.errors == tuple(f"error {turn}" for turn in range(5, 105))
    await bury(store, await take_one(store), "the end")
    letter = await store.dead_event(number)
    assert letter is not None
    assert letter.retry_count == 106
    assert letter.errors == [f"error {turn}" for turn in range(6, 105)] + ["the end"]


async def test_giving_back_is_no_attempt_and_no_failure(store: Store) -> None:
    number = await publish_one(store, max_attempts=1)
    claim = await take_one(store, at(1))
    assert await release(store, claim, now=at(2))
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count, event.errors) == (Status.PENDING, 0, 0, ())
    assert (event.lease_expires_at, event.next_retry_at) == (None, None)
    entry = (await store.log(number))[-1]
    assert (entry.action, entry.worker, entry.attempt, entry.fence) == ("RELEASED", "worker-a", 0, 1)
    again = await take_one(store, at(3))
    assert (again.event.attempts, again.held.fence) == (1, 2)


async def test_giving_back_for_later_waits(store: Store) -> None:
    number = await publish_one(store)
    await release(store, await take_one(store), after=10)
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.next_retry_at) == (Status.PENDING, 0, at(10))
    assert await take(store, now=at(10) - MICROSECOND) == []
    assert ids(await take(store, now=at(10))) == [number]


async def test_a_delivery_given_back_keeps_its_place(store: Store) -> None:
    old, young = await publish(store, new(), new())
    await release(store, await take_one(store))
    assert ids(await take(store, 10)) == [old, young]


async def test_a_buried_delivery_is_failed_and_in_the_dead_letter_queue(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store, at(1))
    outcome = Bury(TROUBLE, Reason.REJECTED, execution_ms=3, status_code=400)
    assert (await report(store, claim, outcome, now=at(2))).accepted
    assert await store.current([number]) == {}
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.FAILED, 1, 1)
    assert (event.errors, event.updated_at) == ((TROUBLE,), at(2))
    failed, died = (await store.log(number))[-2:]
    assert (failed.action, failed.error, failed.status_code, failed.execution_ms) == ("FAILED", TROUBLE, 400, 3)
    assert (died.action, died.error, died.worker, died.attempt) == ("DEAD", "rejected", "worker-a", 1)


async def test_burying_without_an_error_adds_no_failure(store: Store) -> None:
    number = await publish_one(store)
    await fail(store, await take_one(store), "the only one")
    await bury(store, await take_one(store), None, reason=Reason.MANUAL)
    letter = await store.dead_event(number)
    assert letter is not None
    assert (letter.errors, letter.retry_count, letter.attempts) == (["the only one"], 1, 2)
    assert await actions(store, number) == ["PUBLISHED", "PICKED", "FAILED", "PICKED", "DEAD"]


async def test_finalized_with_errors_is_completed_with_errors(store: Store) -> None:
    number = await publish_one(store)
    outcome = Bury("partly", Reason.FINALIZED, Status.COMPLETED_WITH_ERRORS)
    await report(store, await take_one(store), outcome)
    event = await store.event(number)
    assert event is not None
    assert event.status is Status.COMPLETED_WITH_ERRORS
    (letter,) = (await store.dead()).events
    assert (letter.status, letter.reason) == (Status.COMPLETED_WITH_ERRORS, "finalized")


async def test_a_completion_after_failures_keeps_their_count(store: Store) -> None:
    number = await publish_one(store)
    await fail(store, await take_one(store))
    await fail(store, await take_one(store))
    await complete(store, await take_one(store))
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.COMPLETED, 3, 2)


async def test_a_reset_attempt_is_an_attempt_but_no_failure(store: Store) -> None:
    number = await publish_one(store)
    await take_one(store)
    await store.reset(number, reason="stuck", now=START)
    await complete(store, await take_one(store))
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.COMPLETED, 2, 0)


async def test_who_resets_the_last_attempt_grants_another(store: Store) -> None:
    number = await publish_one(store, max_attempts=1)
    await take_one(store)
    await store.reset(number, reason="stuck", now=START)
    claim = await take_one(store)
    assert (claim.event.attempts, claim.max_attempts) == (2, 2)
    assert (await store.tend(now=at(61))).buried == (number,)


async def test_an_event_completed_by_hand_keeps_its_failures(store: Store) -> None:
    number = await publish_one(store)
    await fail(store, await take_one(store), after=30)
    assert (await report(store, Held(number, 1), Complete(), leased=False)).accepted
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.COMPLETED, 1, 1)


async def test_an_event_buried_by_hand_keeps_the_reason_but_no_attempt_failed(store: Store) -> None:
    number = await publish_one(store)
    outcome = Bury("not wanted any more", Reason.MANUAL)
    assert (await report(store, Held(number, 0), outcome, leased=False)).accepted
    letter = await store.dead_event(number)
    assert letter is not None
    assert (letter.attempts, letter.retry_count, letter.errors) == (0, 0, ["not wanted any more"])


async def test_a_large_batch_of_every_kind_is_settled_in_one_call(store: Store) -> None:
    await publish(store, *(new(payload=n) for n in range(400)))
    claims = await take(store, 400)
    kinds: list[Outcome] = [Complete(), Retry("later", MINUTE), Bury("bad"), Release()]
    answers = await store.settle([Report(c.held, kinds[n % 4]) for n, c in enumerate(claims)], now=START)
    assert all(answer.accepted for answer in answers)
    assert [answer.id for answer in answers] == ids(claims)
    (stats,) = await store.stats("work")
    assert stats.depth[Status.COMPLETED] == stats.depth[Status.FAILED] == stats.waiting_for_retry == 100
    assert stats.depth[Status.PENDING] == 200


async def test_many_completions_are_logged_in_their_order_each_with_its_own_time_and_code(store: Store) -> None:
    await publish(store, *(new(payload=n) for n in range(50)))
    claims = (await take(store, 50))[::-1]
    said = [(None if number % 3 == 0 else number, CODES[number % 3]) for number in range(50)]
    reports = [Report(claim.held, Complete(*words)) for claim, words in zip(claims, said, strict=True)]
    answers = await store.settle(reports, now=at(7))
    assert [(answer.id, answer.accepted, answer.at) for answer in answers] == [(n, True, at(7)) for n in ids(claims)]
    logged = [(await store.log(number))[-1] for number in ids(claims)]
    assert [(entry.execution_ms, entry.status_code) for entry in logged] == said
    assert {(entry.action, entry.created_at) for entry in logged} == {("COMPLETED", at(7))}
    if "://" not in store.url:  # PostgreSQL writes them by id
        assert [entry.id for entry in logged] == sorted(entry.id for entry in logged)
    assert await store.current(ids(claims)) == {}


async def test_what_is_held_and_what_nobody_holds_may_be_completed_in_one_batch(store: Store) -> None:
    numbers = await publish(store, *(new(payload=n) for n in range(4)))
    claims = await take(store, 2)
    reports = [Report(claim.held, Complete(1)) for claim in claims]
    by_hand = [Report(Held(number, 0), Complete(), leased=False) for number in numbers[2:]]
    wrong = [msgspec.structs.replace(one, leased=not one.leased) for one in (reports[1], by_hand[1])]
    answers = await store.settle([reports[0], wrong[0], by_hand[0], wrong[1]], now=at(1))
    assert [answer.accepted for answer in answers] == [True, False, True, False]
    assert sorted(await store.current(numbers)) == [numbers[1], numbers[3]]


async def test_an_operator_may_reset_what_is_being_worked_on(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    assert await store.reset(number, reason="worker hangs", now=at(1))
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.PENDING, 1, 0)
    entry = (await store.log(number))[-1]
    assert (entry.action, entry.error, entry.attempt, entry.fence) == ("RESET", "worker hangs", 1, 1)
    assert entry.created_at == at(1)
    assert not await complete(store, claim, at(2))
    assert ids(await take(store, now=at(3))) == [number]


async def test_a_reset_of_the_last_attempt_grants_one_more(store: Store) -> None:
    number = await publish_one(store, max_attempts=1)
    await take_one(store)
    assert await store.reset(number, reason="it was our fault", now=START)
    claim = await take_one(store)
    assert (claim.event.attempts, claim.max_attempts) == (2, 2)


async def test_only_what_is_being_worked_on_can_be_reset(store: Store) -> None:
    ready, waiting, done, dead = await publish(store, new(), new(delay=MINUTE), new(), new())
    (claim,) = await store.claim_ids([done], worker="w", lease=MINUTE, now=START)
    await complete(store, claim)
    (claim,) = await store.claim_ids([dead], worker="w", lease=MINUTE, now=START)
    await bury(store, claim)
    for number in (ready, waiting, done, dead, 999_999):
        assert not await store.reset(number, reason="no", now=at(1))


@pytest.mark.parametrize(
    ("outcome", "action"),
    [(Complete(), "COMPLETED"), (Retry("boom", MINUTE), "FAILED"), (Bury("boom"), "FAILED"), (Release(), "RELEASED")],
)
@pytest.mark.parametrize("now", [at(5), None])
async def test_the_answer_has_the_time_of_the_log(
    store: Store, outcome: Outcome, action: str, now: datetime | None
) -> None:
    number = await publish_one(store, now=now)
    claim = await take_one(store, now=now)
    settled = await report(store, claim, outcome, now=now)
    (entry,) = [entry for entry in await store.log(number) if entry.action == action]
    assert settled.at == entry.created_at
    assert now in (None, settled.at)
    again = await report(store, claim, outcome, now=now)
    assert (again.accepted, again.at) == (False, None)
