"""Fencing: only the current claim may report; whatever a worker that lost its claim says changes nothing at all."""

from collections.abc import Awaitable, Callable

import pytest

from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry, State
from eventhub.store import Store
from eventhub.store.claims import Claim, Held
from eventhub.store.values import Report
from tests.conformance.support import (
    MINUTE,
    START,
    actions,
    at,
    at_fence,
    bury,
    complete,
    fail,
    ids,
    new,
    observe,
    publish,
    publish_one,
    release,
    report,
    seconds,
    take,
    take_one,
)

OUTCOMES: dict[str, Outcome] = {
    "complete": Complete(5, 200),
    "retry": Retry("zombie", seconds(5)),
    "retry at once": Retry("zombie"),
    "bury": Bury("zombie"),
    "bury without error": Bury(None),
    "release": Release(),
    "release for later": Release(seconds(5)),
}


async def again(store: Store, claim: Claim) -> None:
    """The lease ends and another worker has the delivery."""
    await take_one(store, at(100), worker="successor")


async def ready(store: Store, claim: Claim) -> None:
    await store.tend(now=at(100))


async def waiting(store: Store, claim: Claim) -> None:
    await fail(store, claim, after=1000)


async def released(store: Store, claim: Claim) -> None:
    await release(store, claim)


async def reset(store: Store, claim: Claim) -> None:
    await store.reset(claim.held.id, reason="operator", now=START)


async def completed(store: Store, claim: Claim) -> None:
    await complete(store, claim)


async def dead(store: Store, claim: Claim) -> None:
    await bury(store, claim)


async def revived(store: Store, claim: Claim) -> None:
    await bury(store, claim)
    await store.retry_dead([claim.held.id], by="operator", now=at(1))


async def revived_and_taken(store: Store, claim: Claim) -> None:
    await revived(store, claim)
    await take_one(store, at(2), worker="successor")


FATES = [again, ready, waiting, released, reset, completed, dead, revived, revived_and_taken]


@pytest.mark.parametrize("key", [None, "k"], ids=["unordered", "ordered"])
@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.__name__)
async def test_a_report_of_a_lost_claim_changes_nothing(
    store: Store, fate: Callable[[Store, Claim], Awaitable[None]], key: str | None
) -> None:
    numbers = await publish(store, new(key=key), new(key=key))
    claim = await take_one(store)
    await fate(store, claim)
    before = await observe(store, numbers)
    for outcome in OUTCOMES.values():
        settled = await report(store, claim, outcome, now=at(100))
        assert not settled.accepted
        assert settled.current == before["current"].get(numbers[0])
    assert await store.extend([claim.held], MINUTE, now=at(100)) == {numbers[0]}
    assert not await store.record_results(claim.held, [("h", "success", None)], now=at(100))
    assert await observe(store, numbers) == before


async def test_a_made_up_fence_is_refused(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    before = await observe(store, [number])
    for fence in (-1, 0, 2, 99):
        for outcome in OUTCOMES.values():
            assert not (await report(store, at_fence(claim, fence), outcome)).accepted
    assert await observe(store, [number]) == before
    assert await complete(store, claim)


async def test_an_unknown_delivery_is_refused(store: Store) -> None:
    for outcome in OUTCOMES.values():
        settled = await report(store, Held(12345, 1), outcome)
        assert (settled.id, settled.accepted, settled.current) == (12345, False, None)


async def test_the_answer_tells_who_has_the_delivery_now(store: Store) -> None:
    await publish_one(store)
    claim = await take_one(store)
    successor = await take_one(store, at(61), worker="worker-b", lease=seconds(30))
    settled = await report(store, claim, Complete(), now=at(62))
    assert settled.current is not None
    assert settled.current.worker == "worker-b"
    assert (settled.current.fence, settled.current.attempts) == (successor.held.fence, 2)
    assert (settled.current.state, settled.current.due) == (State.LEASED, at(91))


async def test_the_successors_claim_is_unharmed_by_the_zombie(store: Store) -> None:
    number = await publish_one(store)
    zombie = await take_one(store)
    successor = await take_one(store, at(61), worker="worker-b")
    for outcome in OUTCOMES.values():
        assert not (await report(store, zombie, outcome, now=at(62))).accepted
    assert await complete(store, successor, at(63))
    assert await actions(store, number) == ["PUBLISHED", "PICKED", "ABANDONED", "PICKED", "COMPLETED"]


@pytest.mark.parametrize("first", OUTCOMES.values(), ids=OUTCOMES)
async def test_of_two_reports_of_one_claim_the_first_counts(store: Store, first: Outcome) -> None:
    for second in OUTCOMES.values():
        number = await publish_one(store)
        (claim,) = await store.claim_ids([number], worker="w", lease=MINUTE, now=START)
        answers = await store.settle([Report(claim.held, first), Report(claim.held, second)], now=START)
        assert [answer.accepted for answer in answers] == [True, False]
        assert answers[1].current == (await store.current([number])).get(number)


async def test_a_zombies_report_does_not_stand_in_the_way_of_the_current_one_beside_it(store: Store) -> None:
    number = await publish_one(store)
    zombie = await take_one(store)
    successor = await take_one(store, at(61), worker="worker-b")
    reports = [Report(zombie.held, Bury("zombie")), Report(successor.held, Complete())]
    assert [answer.accepted for answer in await store.settle(reports, now=at(62))] == [False, True]
    assert (await actions(store, number))[-1] == "COMPLETED"


@pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)
async def test_a_report_that_does_not_know_its_ordering_key_still_moves_the_key_on(
    store: Store, outcome: Outcome
) -> None:
    head, behind = await publish(store, new(key="k"), new(key="k"))
    zombie = await take_one(store)
    claim = await take_one(store, at(61))
    reports = [Report(Held(head, zombie.held.fence), Complete()), Report(Held(head, claim.held.fence), outcome)]
    assert [answer.accepted for answer in await store.settle(reports, now=at(61))] == [False, True]
    next_up = head if isinstance(outcome, Retry | Release) else behind
    assert ids(await take(store, 10, now=at(100))) == [next_up]


async def test_good_and_bad_reports_of_one_batch_are_told_apart(store: Store) -> None:
    await publish(store, *(new() for _ in range(6)))
    zombies = await take(store, 3)
    current = await take(store, 6, now=at(61), worker="worker-b")
    reports = [
        Report(current[0].held, Complete()),
        Report(zombies[1].held, Complete()),
        Report(current[2].held, Retry("later", MINUTE)),
        Report(zombies[2].held, Bury("zombie")),
        Report(current[3].held, Bury("bad")),
        Report(current[4].held, Release()),
        Report(Held(999_999, 1), Complete()),
        Report(current[5].held, Complete(), leased=False),
    ]
    answers = await store.settle(reports, now=at(62))
    assert [answer.accepted for answer in answers] == [True, False, True, False, True, True, False, False]
    assert [answer.id for answer in answers] == [report.held.id for report in reports]


@pytest.mark.parametrize("outcome", [Complete(), Bury("no"), Bury(None)])
@pytest.mark.parametrize("how", ["ready", "waiting", "behind"])
async def test_a_delivery_that_nobody_holds_may_be_ended(store: Store, how: str, outcome: Outcome) -> None:
    if how == "behind":
        await publish_one(store, key="k")
    number = await publish_one(store, key="k" if how == "behind" else None, delay=MINUTE if how == "waiting" else None)
    current = (await store.current([number]))[number]
    held = Held(number, current.fence, current.lane)
    assert not (await report(store, held, outcome)).accepted, "it is not leased"
    assert (await report(store, held, outcome, leased=False)).accepted
    assert await store.current([number]) == {}
    assert not (await report(store, held, outcome, leased=False)).accepted


@pytest.mark.parametrize("outcome", [Retry("no"), Release()])
async def test_what_nobody_holds_can_neither_fail_nor_be_given_back(store: Store, outcome: Outcome) -> None:
    number = await publish_one(store)
    for fence in (0, 1):
        before = await observe(store, [number])
        assert not (await report(store, Held(number, fence), outcome, leased=False)).accepted
        assert await observe(store, [number]) == before
        await take(store)


async def test_fences_grow_through_every_kind_of_return(store: Store) -> None:
    number = await publish_one(store)
    fences = []
    claim = await take_one(store)
    fences.append(claim.held.fence)
    await fail(store, claim)
    claim = await take_one(store)
    fences.append(claim.held.fence)
    await release(store, claim)
    claim = await take_one(store)
    fences.append(claim.held.fence)
    claim = await take_one(store, at(61))
    fences.append(claim.held.fence)
    await store.reset(number, reason="operator", now=at(62))
    claim = await take_one(store, at(63))
    fences.append(claim.held.fence)
    await bury(store, claim, now=at(64))
    await store.retry_dead([number], by="me", now=at(65))
    claim = await take_one(store, at(66))
    fences.append(claim.held.fence)
    assert fences == [1, 2, 3, 4, 5, 6]
    assert ids([claim]) == [number]
