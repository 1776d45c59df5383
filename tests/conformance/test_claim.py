"""Claiming: oldest first, only what the worker asked for, and never one delivery for two."""

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from eventhub.core.events import Status
from eventhub.errors import InvalidEventError
from eventhub.store import Store
from eventhub.store.buses import ReadyEvent
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import (
    MINUTE,
    QUEUE,
    START,
    at,
    bury,
    complete,
    fail,
    ids,
    new,
    publish,
    publish_one,
    seconds,
    take,
    take_one,
)

SPREADS = {
    "evenly": [number % 30 for number in range(120)],
    "at random": Random(7).choices(range(30), k=120),
    "one has nearly all": [0 if number % 12 else 1 + number for number in range(120)],
    "one after the other": [number // 25 for number in range(120)],
    "the oldest are all of one": [0] * 60 + [number % 30 for number in range(60)],
}
"""Which of thirty tags each event has."""


async def test_a_claim_tells_all_a_worker_needs(store: Store) -> None:
    number = await publish_one(store, payload=[1], max_attempts=3, metadata='{"a":"b"}')
    claim = await take_one(store, at(5), worker="w", lease=seconds(30))
    assert (claim.held.id, claim.held.fence, claim.held.lane) == (number, 1, None)
    assert (claim.claimed_at, claim.lease_expires_at, claim.max_attempts) == (at(5), at(35), 3)
    event = claim.event
    assert (event.id, event.payload, event.metadata, event.created_at) == (number, [1], {"a": "b"}, START)
    assert (event.status, event.attempts, event.retry_count) == (Status.PROCESSING, 1, 0)


async def test_a_claim_is_seen_in_the_event_and_in_the_log(store: Store) -> None:
    number = await publish_one(store)
    await take_one(store, at(5), worker="w")
    event = await store.event(number)
    assert event is not None
    assert (event.status, event.lease_expires_at, event.updated_at) == (Status.PROCESSING, at(65), at(5))
    assert (event.attempts, event.retry_count, event.fence, event.next_retry_at) == (1, 0, 1, None)
    entry = (await store.log(number))[-1]
    assert (entry.action, entry.worker, entry.attempt, entry.fence) == ("PICKED", "w", 1, 1)
    assert (entry.delivery_id, entry.created_at) == (number, at(5))


async def test_an_empty_queue_gives_nothing_at_once(store: Store) -> None:
    assert await take(store) == []
    assert await take(store, now=None) == []


async def test_the_oldest_come_first_and_no_more_than_asked_for(store: Store) -> None:
    numbers = await publish(store, *(new() for _ in range(10)))
    assert ids(await take(store, 3)) == numbers[:3]
    assert ids(await take(store, 3)) == numbers[3:6]
    assert ids(await take(store, 100)) == numbers[6:]
    assert await take(store, 100) == []


async def test_a_claimed_delivery_is_not_claimed_again(store: Store) -> None:
    await publish_one(store)
    assert len(await take(store, 10)) == 1
    assert await take(store, 10, worker="worker-b") == []


async def test_queues_are_separate(store: Store) -> None:
    one, two = await publish(store, new(queue="one"), new(queue="two"))
    assert ids(await take(store, 10, queue="one")) == [one]
    assert ids(await take(store, 10, queue="two")) == [two]
    assert await take(store, 10, queue="three") == []


async def test_tags_match_when_any_of_them_is_wanted(store: Store) -> None:
    ab, b, c, none = await publish(store, new(tags=("a", "b")), new(tags=("b",)), new(tags=("c",)), new())
    assert ids(await take(store, 10, tags=["a"])) == [ab]
    assert ids(await take(store, 10, tags=["b", "x"])) == [b]
    assert await take(store, 10, tags=["d"]) == []
    assert ids(await take(store, 10)) == [c, none]


async def test_tags_match_as_whole_words(store: Store) -> None:
    await publish(store, new(tags=("ab",)), new(tags=("a-b",)))
    assert await take(store, 10, tags=["a"]) == []
    assert await take(store, 10, tags=["b"]) == []


async def test_work_with_different_tags_still_comes_by_age(store: Store) -> None:
    numbers = await publish(store, *(new(tags=(("a",), ("b",), ("a", "b"))[n % 3]) for n in range(30)))
    assert ids(await take(store, 7, tags=["a", "b"])) == numbers[:7]
    assert ids(await take(store, 100, tags=["a", "b"])) == numbers[7:]


@pytest.mark.parametrize("limit", [1, 7, 40, 300])
@pytest.mark.parametrize("turns", SPREADS.values(), ids=SPREADS.keys())
async def test_work_of_many_tags_comes_by_age_however_it_is_spread(
    store: Store, turns: Sequence[int], limit: int
) -> None:
    numbers = await publish(store, *(new(tags=(f"t{turn}",)) for turn in turns))
    seen: list[int] = []
    while claims := await take(store, limit):
        assert len(claims) == min(limit, len(numbers) - len(seen))
        seen += ids(claims)
    assert seen == numbers


async def test_a_higher_priority_goes_first_and_age_counts_within_one(store: Store) -> None:
    low, high, middle, high_again = await publish(
        store, new(priority=-1), new(priority=5), new(), new(priority=5, tags=("t",))
    )
    assert ids(await take(store, 3)) == [high, high_again, middle]
    assert ids(await take(store, 3)) == [low]


async def test_max_attempts_of_the_worker_overrides_that_of_the_publisher(store: Store) -> None:
    numbers = await publish(store, new(max_attempts=9), new())
    claims = await take(store, 2, max_attempts=2)
    assert [claim.max_attempts for claim in claims] == [2, 2]
    current = await store.current(numbers)
    assert [current[number].max_attempts for number in numbers] == [2, 2]


async def test_each_claim_raises_the_fence_and_the_attempts(store: Store) -> None:
    await publish_one(store)
    for turn in range(1, 5):
        claim = await take_one(store)
        assert (claim.held.fence, claim.event.attempts, claim.event.retry_count) == (turn, turn, turn - 1)
        await fail(store, claim)


async def test_chosen_deliveries_are_claimed_if_they_are_ready(store: Store) -> None:
    one, two, three, later = await publish(store, new(), new(), new(), new(delay=MINUTE))
    await take_one(store)
    claims = await store.claim_ids([later, three, two, one, 999_999], worker="w", lease=MINUTE, now=START)
    assert ids(claims) == [two, three]
    assert [claim.held.fence for claim in claims] == [1, 1]
    assert await store.claim_ids([], worker="w", lease=MINUTE, now=START) == []
    assert await store.claim_ids([two], worker="w", lease=MINUTE, now=START) == []


async def test_settled_deliveries_are_never_claimed(store: Store) -> None:
    one, two = await publish(store, new(), new())
    first, second = await take(store, 2)
    await complete(store, first)
    await bury(store, second)
    assert await take(store, 10, now=at(10_000)) == []
    assert await store.claim_ids([one, two], worker="w", lease=MINUTE, now=at(10_000)) == []


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, "a,b"])
async def test_a_queue_needs_a_usable_name(store: Store, name: str) -> None:
    with pytest.raises(InvalidEventError, match="The queue"):
        await take(store, queue=name)


async def test_ready_lists_what_could_be_claimed_without_claiming_it(store: Store) -> None:
    one, _, three, *_ = await publish(
        store, new("a"), new("b", delay=MINUTE), new("c"), new("d", worker="w", lease=MINUTE), new(queue="x")
    )
    assert await store.ready(QUEUE) == [ReadyEvent(one, "a"), ReadyEvent(three, "c")]
    assert await store.ready(QUEUE, after_id=one) == [ReadyEvent(three, "c")]
    assert await store.ready(QUEUE, limit=1) == [ReadyEvent(one, "a")]
    assert ids(await take(store, 10)) == [one, three]


async def test_a_route_that_another_process_adds_is_found_at_once(store: Store, open_another: OpenAnother) -> None:
    other = await open_another()
    await publish_one(store, tags=("known",), now=None)
    assert len(await take(store, now=None)) == 1
    number = await publish_one(other, tags=("fresh",), now=None)
    assert ids(await take(store, now=None)) == [number]


@pytest.mark.parametrize("tags", [1, 4], ids=["one route", "several routes"])
async def test_concurrent_claimers_never_share_and_leave_nothing_behind(
    store: Store, open_another: OpenAnother, tags: int
) -> None:
    stores = [store, await open_another(), await open_another()]
    numbers = await publish(store, *(new(tags=(f"t{n % tags}",)) for n in range(300)), now=None)
    taken: list[int] = []

    async def work(each: Store, name: str) -> None:
        while claims := await take(each, 5, now=None, worker=name):
            taken.extend(ids(claims))

    await asyncio.gather(*(work(each, f"{n}-{m}") for n, each in enumerate(stores) for m in range(4)))
    assert sorted(taken) == numbers


async def test_nobody_is_told_that_the_queue_is_empty_while_there_is_enough_for_all(
    store: Store, open_another: OpenAnother
) -> None:
    stores = [store, *[await open_another() for _ in range(3)]]
    await publish(store, *(new(tags=(f"t{n % 4}",)) for n in range(400)), now=None)
    for _ in range(25):
        claims = await asyncio.gather(*(take(each, 2, now=None) for each in stores))
        assert all(claims)


async def test_ready_work_is_listed_by_its_tags_as_often_as_there_is_some_up_to_a_limit(store: Store) -> None:
    await publish(store, *[new(tags=("a", "b"))] * 3, new(tags=("c",)), new(), new(tags=("c",), priority=5))
    await publish_one(store, queue="other", tags=("d",))
    await publish_one(store, tags=("e",), delay=MINUTE)
    assert await store.ready_routes(QUEUE) == [("c",), ("a", "b"), ()]
    assert await store.ready_routes(QUEUE, most=2) == [("c",), ("a", "b"), ("a", "b"), ("c",), ()]
    assert (await store.ready_routes(QUEUE, most=9)).count(("a", "b")) == 3
    assert await store.ready_routes("nowhere", most=9) == []
    await take(store, 9)
    assert await store.ready_routes(QUEUE, most=9) == []
