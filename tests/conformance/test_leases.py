"""Leases and abandonment: the limit is strict, an abandoned delivery keeps its place, and its attempt counts."""

import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import State
from eventhub.store import Store
from eventhub.store.claims import Claim
from eventhub.store.workers import new_worker, retire
from tests.conformance.support import (
    MICROSECOND,
    MINUTE,
    QUEUE,
    START,
    actions,
    at,
    complete,
    fail,
    ids,
    new,
    observe,
    publish,
    publish_one,
    seconds,
    take,
    take_one,
)

ABANDONED = "Abandoned: worker-a did not report before its lease ended."


async def lease_end(store: Store, number: int) -> object:
    event = await store.event(number)
    assert event is not None
    return event.lease_expires_at


async def test_exactly_at_its_end_a_lease_still_holds(store: Store) -> None:
    number = await publish_one(store)
    await take_one(store)
    assert await take(store, now=at(60)) == []
    assert (await store.tend(now=at(60))).total == 0
    assert ids(await take(store, now=at(60) + MICROSECOND)) == [number]


async def test_an_ended_lease_may_still_be_reported_while_nobody_took_it(store: Store) -> None:
    await publish_one(store)
    claim = await take_one(store)
    assert await complete(store, claim, at(1000))


async def test_an_abandoned_delivery_goes_before_younger_ones(store: Store) -> None:
    old, *young = await publish(store, *(new() for _ in range(4)))
    await take_one(store)
    assert ids(await take(store, 10, now=at(61))) == [old, *young]


async def test_an_abandonment_is_an_attempt_with_an_error_and_a_log_row(store: Store) -> None:
    number = await publish_one(store)
    await take_one(store)
    tended = await store.tend(now=at(61))
    assert (tended.abandoned, tended.promoted, tended.buried, tended.total) == (1, 0, (), 1)
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.attempts, event.retry_count) == (Status.PENDING, 1, 1)
    assert (event.errors, event.next_retry_at, event.lease_expires_at) == ((ABANDONED,), None, None)
    entry = (await store.log(number))[-1]
    assert (entry.action, entry.worker, entry.attempt, entry.fence) == ("ABANDONED", "worker-a", 1, 1)
    assert (entry.error, entry.created_at) == (ABANDONED, at(61))
    current = (await store.current([number]))[number]
    assert (current.state, current.worker, current.due, current.fence) == (State.READY, None, None, 1)


async def test_an_abandonment_is_recorded_once(store: Store) -> None:
    number = await publish_one(store)
    await take_one(store)
    assert (await store.tend(now=at(61))).total == 1
    before = await observe(store, [number])
    assert (await store.tend(now=at(62))).total == 0
    assert await observe(store, [number]) == before


async def test_a_delivery_that_keeps_killing_its_worker_dies_at_exactly_its_limit(store: Store) -> None:
    number = await publish_one(store, max_attempts=3)
    for turn in range(3):
        claim = await take_one(store, at(turn * 100))
        assert claim.event.attempts == turn + 1
    assert await take(store, now=at(300)) == []
    letter = await store.dead_event(number)
    assert letter is not None
    assert (letter.reason, letter.status, letter.dead_at) == ("worker_lost", Status.FAILED, at(300))
    assert (letter.attempts, letter.retry_count, letter.worker) == (3, 3, "worker-a")
    assert letter.errors == [ABANDONED] * 3
    assert await actions(store, number) == [
        "PUBLISHED",
        *["PICKED", "ABANDONED"] * 3,
        "DEAD",
    ]


async def test_tending_tells_who_was_buried(store: Store) -> None:
    last, more = await publish(store, new(max_attempts=1), new(max_attempts=2))
    await take(store, 2)
    tended = await store.tend(now=at(61))
    assert (tended.buried, tended.abandoned, tended.total) == ((last,), 1, 2)
    assert list(await store.current([last, more])) == [more]


async def test_a_store_counts_what_it_takes_back_whoever_asked(store: Store) -> None:
    await publish(store, new(max_attempts=1), new(), new(), new(delay=seconds(10)))
    await take(store, 2)
    assert store.abandoned == 0
    await take(store, 2, now=at(61), worker="worker-b")  # a claim looks for ended leases: one was the last
    assert store.abandoned == 2
    await store.tend(now=at(100))
    assert store.abandoned == 2
    await store.take_back(["worker-b"], now=at(100))
    assert store.abandoned == 4
    await take(store, 3, now=at(101))
    await store.tend(now=at(200))
    assert store.abandoned == 7


async def test_without_a_limit_a_delivery_is_never_given_up(store: Store) -> None:
    number = await publish_one(store)
    for turn in range(120):
        claim = await take_one(store, at(turn * 100))
    assert claim.event.attempts == 120
    event = await store.event(number)
    assert event is not None
    assert event.retry_count == 119
    assert len(event.errors) == 100, "the last hundred errors are kept"


async def test_the_workers_limit_counts_for_abandonment_too(store: Store) -> None:
    number = await publish_one(store)
    await take_one(store, max_attempts=1)
    assert (await store.tend(now=at(61))).buried == (number,)


async def test_extending_gives_the_lease_from_now_on(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    assert await store.extend([claim.held], MINUTE, now=at(50)) == set()
    assert await lease_end(store, number) == at(110)
    assert await take(store, now=at(110)) == []
    assert ids(await take(store, now=at(110) + MICROSECOND)) == [number]


@pytest.mark.parametrize("what", ["extend", "start"])
async def test_no_lease_ever_ends_earlier_than_it_would_have(store: Store, what: str) -> None:
    number = await publish_one(store)
    claim = await take_one(store, lease=seconds(3600))
    lengthen = store.extend if what == "extend" else store.start
    assert await lengthen([claim.held], MINUTE, now=at(10)) == set()
    assert await lease_end(store, number) == at(3600)
    assert await lengthen([claim.held], MINUTE, now=at(3590)) == set()
    assert await lease_end(store, number) == at(3650)


async def test_extending_changes_nothing_else(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    before = await store.current([number])
    log = await store.log(number)
    await store.extend([claim.held], MINUTE, now=at(50))
    after = await store.current([number])
    assert after[number].due == at(110)
    assert {**_facts(after[number]), "due": None} == {**_facts(before[number]), "due": None}
    assert await store.log(number) == log


def _facts(current: object) -> dict[str, object]:
    return {name: getattr(current, name) for name in type(current).__struct_fields__}  # type: ignore[attr-defined]


async def test_an_ended_lease_may_be_saved_while_nobody_took_it(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    assert await store.extend([claim.held], MINUTE, now=at(100)) == set()
    assert await lease_end(store, number) == at(160)
    assert await take(store, now=at(101)) == []


async def test_extending_many_tells_which_are_lost(store: Store) -> None:
    await publish(store, *(new() for _ in range(4)))
    claims = await take(store, 4)
    await complete(store, claims[1])
    await fail(store, claims[3])
    lost = await store.extend([claim.held for claim in claims], MINUTE, now=at(1))
    assert lost == {claims[1].held.id, claims[3].held.id}
    assert await store.extend([], MINUTE) == set()


async def test_results_and_guards_do_not_extend_a_lease(store: Store) -> None:
    number = await publish_one(store)
    claim = await take_one(store)
    await store.record_results(claim.held, [("h", "success", None)], now=at(59))
    await store.guard(number, "step", now=at(59))
    assert await lease_end(store, number) == at(60)
    assert ids(await take(store, now=at(61))) == [number]


async def test_only_what_has_ended_is_abandoned(store: Store) -> None:
    short, long = await publish(store, new(), new())
    await take_one(store, lease=seconds(10))
    await take_one(store, lease=seconds(100))
    assert (await store.tend(now=at(50))).abandoned == 1
    current = await store.current([short, long])
    assert (current[short].state, current[long].state) == (State.READY, State.LEASED)


async def test_tending_takes_no_more_than_it_is_told_to(store: Store) -> None:
    await publish(store, *(new() for _ in range(10)))
    await take(store, 10)
    assert (await store.tend(now=at(61), limit=4)).abandoned == 4
    assert (await store.tend(now=at(61), limit=4)).abandoned == 4
    assert (await store.tend(now=at(61), limit=4)).abandoned == 2


async def test_tending_promotes_and_abandons_in_one_go(store: Store) -> None:
    await publish(store, new(delay=seconds(5)), new(delay=seconds(500)), new(), new(max_attempts=1))
    await take(store, 2)
    tended = await store.tend(now=at(61))
    assert (tended.promoted, tended.abandoned, len(tended.buried)) == (1, 1, 1)


async def test_next_due_tells_when_to_look_again(store: Store) -> None:
    assert await store.next_due() is None
    await publish_one(store, delay=seconds(500), now=None)
    due = await store.next_due()
    assert due is not None
    assert 400 < due <= 500
    await publish_one(store, now=None)
    await take_one(store, None, lease=seconds(50))
    due = await store.next_due()
    assert due is not None
    assert 0 < due <= 50
    await publish_one(store, now=START, delay=seconds(1))
    assert await store.next_due() == 0


async def test_claims_of_dead_workers_are_taken_back_without_waiting(store: Store) -> None:
    mine, theirs, other = await publish(store, new(), new(max_attempts=1), new(key="k"))
    await take_one(store, worker="dead")
    await take_one(store, worker="dead")
    alive = await take_one(store, worker="alive")
    tended = await store.take_back(["dead", "unknown"], now=at(1))
    assert (tended.abandoned, tended.buried) == (1, (theirs,))
    assert ids(await take(store, 10, now=at(1))) == [mine]
    assert (await actions(store, mine))[:3] == ["PUBLISHED", "PICKED", "ABANDONED"]
    letter = await store.dead_event(theirs)
    assert letter is not None
    assert letter.reason == "worker_lost"
    assert alive.event.id == other
    assert await complete(store, alive, at(2))


async def test_taking_back_from_nobody_does_nothing(store: Store) -> None:
    await publish_one(store)
    await take_one(store)
    assert (await store.take_back([])).total == 0
    assert (await store.take_back(["worker-x"])).total == 0


async def test_recovery_finds_the_dead_by_itself(store: Store) -> None:
    gone, here = new_worker(), new_worker()
    await publish(store, new(), new(), new())
    await take_one(store, worker=gone)
    await take_one(store, worker=here)
    await take_one(store, worker="elsewhere:1:abc-1-1")
    retire(gone)
    tended = await store.recover(QUEUE, now=at(1))
    assert tended.abandoned == 1
    claims: list[Claim] = await take(store, 10, now=at(1))
    assert [claim.event.attempts for claim in claims] == [2]
    retire(here)
