"""Ordering keys: one head at a time, strictly in order, whatever happens to the head; other keys do not care."""

import pytest

from eventhub.core.lifecycle import Bury, Complete, State
from eventhub.store import Store
from eventhub.store.claims import Held
from eventhub.store.values import Report, lane_id
from tests.conformance.support import (
    MICROSECOND,
    MINUTE,
    QUEUE,
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


async def ordered(store: Store, count: int, *, key: str = "k", **details: object) -> list[int]:
    return await publish(store, *(new(payload=n, key=key, **details) for n in range(count)))  # type: ignore[arg-type]


async def states(store: Store, numbers: list[int]) -> list[State | None]:
    current = await store.current(numbers)
    return [current[number].state if number in current else None for number in numbers]


async def test_of_one_key_only_the_head_can_be_claimed(store: Store) -> None:
    head, *rest = await ordered(store, 3)
    assert await states(store, [head, *rest]) == [State.READY, State.BEHIND, State.BEHIND]
    assert ids(await take(store, 10)) == [head]
    assert await take(store, 10) == []
    assert await store.claim_ids(rest, worker="w", lease=MINUTE, now=START) == []


async def test_a_key_comes_out_in_the_order_it_went_in(store: Store) -> None:
    numbers = [*await ordered(store, 3), *await ordered(store, 3)]
    seen = []
    for _ in numbers:
        claim = await take_one(store)
        seen.append(claim.event.id)
        await complete(store, claim)
    assert seen == numbers
    assert await take(store) == []


async def test_the_next_is_ready_exactly_when_the_head_ends(store: Store) -> None:
    numbers = await ordered(store, 2)
    claim = await take_one(store)
    assert await states(store, numbers) == [State.LEASED, State.BEHIND]
    await complete(store, claim)
    assert await states(store, numbers) == [None, State.READY]


async def test_a_dead_head_is_skipped_by_default(store: Store) -> None:
    numbers = await ordered(store, 2)
    await bury(store, await take_one(store))
    assert await states(store, numbers) == [None, State.READY]
    assert ids(await take(store)) == numbers[1:]


async def test_a_failed_head_that_waits_for_its_retry_blocks_its_key(store: Store) -> None:
    head, _ = await ordered(store, 2)
    await fail(store, await take_one(store), after=30)
    assert await take(store, 10, now=at(30) - MICROSECOND) == []
    assert ids(await take(store, 10, now=at(30))) == [head]


async def test_waiting_behind_costs_no_attempt(store: Store) -> None:
    _, behind = await ordered(store, 2)
    for _ in range(3):
        await fail(store, await take_one(store))
    await complete(store, await take_one(store))
    claim = await take_one(store)
    assert (claim.event.id, claim.event.attempts, claim.held.fence) == (behind, 1, 1)


async def test_an_abandoned_head_keeps_its_place(store: Store) -> None:
    head, behind = await ordered(store, 2)
    await take_one(store)
    claims = await take(store, 10, now=at(61))
    assert ids(claims) == [head]
    await complete(store, claims[0], at(62))
    assert ids(await take(store, 10, now=at(62))) == [behind]


async def test_a_head_that_is_given_back_keeps_its_place(store: Store) -> None:
    head, _ = await ordered(store, 2)
    await release(store, await take_one(store))
    assert ids(await take(store, 10)) == [head]


async def test_a_head_that_is_reset_keeps_its_place(store: Store) -> None:
    head, _ = await ordered(store, 2)
    await take_one(store)
    await store.reset(head, reason="hangs", now=START)
    assert ids(await take(store, 10)) == [head]


async def test_a_head_whose_workers_die_frees_its_key_at_its_limit(store: Store) -> None:
    head, behind = await ordered(store, 2, max_attempts=1)
    await take_one(store)
    claims = await take(store, 10, now=at(61))
    assert ids(claims) == [behind]
    letter = await store.dead_event(head)
    assert letter is not None
    assert letter.reason == "worker_lost"


async def test_taking_back_a_heads_last_attempt_frees_its_key(store: Store) -> None:
    _, behind = await ordered(store, 2, max_attempts=1)
    await take_one(store, worker="gone")
    await store.take_back(["gone"], now=at(1))
    assert ids(await take(store, 10, now=at(1))) == [behind]


async def test_keys_do_not_wait_for_each_other(store: Store) -> None:
    a, b = await ordered(store, 2, key="a"), await ordered(store, 2, key="b")
    free = await publish_one(store)
    first = await take(store, 10)
    assert ids(first) == [a[0], b[0], free]
    await complete(store, first[1])
    assert ids(await take(store, 10)) == [b[1]]


async def test_the_same_key_in_two_queues_is_two_keys(store: Store) -> None:
    one, two = await publish(store, new(key="k", queue="one"), new(key="k", queue="two"))
    assert ids(await take(store, queue="one")) == [one]
    assert ids(await take(store, queue="two")) == [two]


async def test_a_key_may_be_of_several_routes(store: Store) -> None:
    head, behind = await publish(store, new(key="k", tags=("slow",)), new(key="k", tags=("fast",), priority=9))
    assert ids(await take(store, 10)) == [head], "priority does not overtake order"
    assert await take(store, 10, tags=["fast"]) == []
    await complete(store, (await take(store, now=at(61)))[0], at(61))
    assert ids(await take(store, 10, now=at(61))) == [behind]


async def test_a_delayed_head_holds_its_key(store: Store) -> None:
    head, behind = await publish(store, new(key="k", delay=seconds(30)), new(key="k"))
    assert await states(store, [head, behind]) == [State.WAITING, State.BEHIND]
    assert await take(store, 10, now=at(29)) == []
    assert ids(await take(store, 10, now=at(30))) == [head]


async def test_a_delayed_event_waits_for_its_turn_and_for_its_time(store: Store) -> None:
    head, early, late = await publish(
        store, new(key="k"), new(key="k", delay=seconds(10)), new(key="k", deliver_at=at(100))
    )
    await complete(store, await take_one(store), at(1))
    assert await states(store, [early, late]) == [State.WAITING, State.BEHIND]
    assert await take(store, 10, now=at(10) - MICROSECOND) == []
    claim = await take_one(store, at(10))
    assert claim.event.id == early
    await complete(store, claim, at(200))
    assert await states(store, [late]) == [State.READY], "its time has come while it was behind"
    assert ids(await take(store, 10, now=at(200))) == [late]
    assert head not in await store.current([head])


async def test_a_key_that_ended_begins_anew(store: Store) -> None:
    for _ in range(3):
        number = await publish_one(store, key="k")
        claim = await take_one(store)
        assert claim.event.id == number
        await complete(store, claim)


async def test_a_whole_batch_of_heads_moves_all_their_keys_on(store: Store) -> None:
    keys = [f"k{n}" for n in range(20)]
    for _ in range(3):
        await publish(store, *(new(key=key) for key in keys))
    for _ in range(3):
        claims = await take(store, 100)
        assert [claim.event.ordering_key for claim in claims] == keys
        outcomes = [Bury("bad") if n % 3 else Complete() for n in range(20)]
        reports = [Report(claim.held, outcome) for claim, outcome in zip(claims, outcomes, strict=True)]
        assert all(answer.accepted for answer in await store.settle(reports, now=START))
    assert await take(store, 100) == []


async def test_one_behind_may_be_ended_without_moving_the_key(store: Store) -> None:
    head, middle, last = await ordered(store, 3)
    current = (await store.current([middle]))[middle]
    held = Held(middle, current.fence, current.lane)
    assert (await report(store, held, Complete(), leased=False)).accepted
    assert await states(store, [head, middle, last]) == [State.READY, None, State.BEHIND]
    await complete(store, await take_one(store))
    assert ids(await take(store)) == [last]


async def test_a_completed_event_takes_no_place_in_its_key(store: Store) -> None:
    _, second = await publish(store, new(key="k", completed=True), new(key="k"))
    assert ids(await take(store)) == [second]


async def test_the_lane_is_told_with_the_claim(store: Store) -> None:
    await publish_one(store, key="k")
    claim = await take_one(store)
    assert claim.held.lane == lane_id(QUEUE, "k")
    assert claim.event.ordering_key == "k"


# ------------------------------------------------------------------ parking


async def test_a_dead_head_can_hold_its_key(store: Store) -> None:
    head, behind = await ordered(store, 2, park_when_dead=True)
    await bury(store, await take_one(store))
    assert await states(store, [head, behind]) == [State.PARKED, State.BEHIND]
    assert await take(store, 10, now=at(10_000)) == []
    event = await store.event(head)
    assert event is not None
    assert event.status == "FAILED"
    assert [letter.id for letter in (await store.dead()).events] == [head]


async def test_a_head_whose_workers_died_can_hold_its_key_too(store: Store) -> None:
    head, behind = await ordered(store, 2, park_when_dead=True, max_attempts=1)
    await take_one(store)
    assert (await store.tend(now=at(61))).buried == (head,)
    assert await states(store, [head, behind]) == [State.PARKED, State.BEHIND]


async def test_unparking_lets_the_key_go_on_and_keeps_the_letter(store: Store) -> None:
    head, behind = await ordered(store, 2, park_when_dead=True)
    await bury(store, await take_one(store))
    assert await store.unpark(QUEUE, "k", by="anna", now=at(1))
    assert await states(store, [head, behind]) == [None, State.READY]
    assert [letter.id for letter in (await store.dead()).events] == [head]
    entry = (await store.log(head))[-1]
    assert (entry.action, entry.worker, entry.created_at) == ("SKIPPED", "anna", at(1))
    assert ids(await take(store, now=at(1))) == [behind]


@pytest.mark.parametrize("queue", [QUEUE, "other"])
async def test_only_a_parked_key_can_be_unparked(store: Store, queue: str) -> None:
    numbers = await ordered(store, 2, park_when_dead=True)
    assert not await store.unpark(queue, "k", by="anna", now=at(1))
    await take_one(store)
    assert not await store.unpark(queue, "k", by="anna", now=at(1))
    assert await states(store, numbers) == [State.LEASED, State.BEHIND]
    assert not await store.unpark(queue, "unknown", by="anna", now=at(1))


async def test_a_parked_head_that_is_retried_goes_first(store: Store) -> None:
    head, behind = await ordered(store, 2, park_when_dead=True)
    await bury(store, await take_one(store))
    assert await store.retry_dead([head], by="anna", now=at(1)) == {head}
    assert await states(store, [head, behind]) == [State.READY, State.BEHIND]
    claim = await take_one(store, at(2))
    assert (claim.event.id, claim.held.fence, claim.event.attempts) == (head, 2, 1)
    await complete(store, claim, at(3))
    assert ids(await take(store, now=at(3))) == [behind]


async def test_a_parked_head_that_dies_again_holds_its_key_again(store: Store) -> None:
    head, behind = await ordered(store, 2, park_when_dead=True)
    await bury(store, await take_one(store))
    await store.retry_dead([head], by="anna", now=at(1))
    await bury(store, await take_one(store, at(2)), "again", now=at(3))
    assert await states(store, [head, behind]) == [State.PARKED, State.BEHIND]
    assert await actions(store, head) == ["PUBLISHED", *["PICKED", "FAILED", "DEAD", "RETRIED"] * 2][:-1]


async def test_an_unparked_event_that_is_retried_and_dies_again_holds_its_key_again(store: Store) -> None:
    (head,) = await ordered(store, 1, park_when_dead=True)
    await bury(store, await take_one(store))
    await store.unpark(QUEUE, "k", by="anna", now=at(1))
    await store.retry_dead([head], by="anna", now=at(2))
    await bury(store, await take_one(store, at(3)), "again", now=at(3))
    assert await states(store, [head]) == [State.PARKED]


async def test_whether_a_dead_head_holds_its_key_is_its_own_affair(store: Store) -> None:
    head, behind = await publish(store, new(key="k", park_when_dead=True), new(key="k"))
    await bury(store, await take_one(store))
    assert await states(store, [head, behind]) == [State.PARKED, State.BEHIND]
    await store.unpark(QUEUE, "k", by="anna", now=START)
    await bury(store, await take_one(store))
    assert await states(store, [behind]) == [None]


async def test_the_purge_spares_a_parked_head(store: Store) -> None:
    head, _ = await ordered(store, 2, park_when_dead=True)
    await bury(store, await take_one(store))
    assert await store.purge_dead(older_than=seconds(0), now=at(100)) == 0
    assert await store.retry_dead([head], by="anna", now=at(101)) == {head}


async def test_publishing_to_a_parked_key_goes_behind(store: Store) -> None:
    await ordered(store, 1, park_when_dead=True)
    await bury(store, await take_one(store))
    number = await publish_one(store, key="k", park_when_dead=True)
    assert await states(store, [number]) == [State.BEHIND]
    await store.unpark(QUEUE, "k", by="anna", now=START)
    assert ids(await take(store)) == [number]


# -------------------------------------------------------------- fresh starts


async def test_a_dead_one_that_is_retried_goes_back_in_the_order_of_the_key(store: Store) -> None:
    first, second, third, fourth = await ordered(store, 4)
    await bury(store, await take_one(store))
    claim = await take_one(store)
    assert claim.event.id == second
    await store.retry_dead([first], by="anna", now=at(1))
    assert await states(store, [first, second, third]) == [State.BEHIND, State.LEASED, State.BEHIND]
    await complete(store, claim, at(2))
    seen = []
    for _ in range(3):
        claim = await take_one(store, at(3))
        seen.append(claim.event.id)
        await complete(store, claim, at(3))
    assert seen == [first, third, fourth]


async def test_a_dead_one_whose_key_is_forgotten_is_its_head_again(store: Store) -> None:
    (only,) = await ordered(store, 1)
    await bury(store, await take_one(store))
    await store.retry_dead([only], by="anna", now=at(1))
    behind = await publish_one(store, key="k", now=at(2))
    assert await states(store, [only, behind]) == [State.READY, State.BEHIND]
    await complete(store, await take_one(store, at(3)), at(3))
    assert ids(await take(store, now=at(3))) == [behind]


async def test_several_dead_of_one_key_are_retried_in_order(store: Store) -> None:
    numbers = await ordered(store, 3)
    for _ in numbers:
        await bury(store, await take_one(store))
    assert await store.retry_dead(numbers[::-1], by="anna", now=at(1)) == set(numbers)
    assert await states(store, numbers) == [State.READY, State.BEHIND, State.BEHIND]
    for number in numbers:
        claim = await take_one(store, at(2))
        assert claim.event.id == number
        await complete(store, claim, at(2))


async def test_a_key_whose_head_and_dead_are_all_gone_is_forgotten(store: Store) -> None:
    await ordered(store, 3)
    for n in range(3):
        claim = await take_one(store)
        await (bury(store, claim) if n == 1 else complete(store, claim))
    await publish_one(store, key="nobody", completed=True)
    assert await lanes(store) == 0


async def lanes(store: Store) -> int:
    if store.engine == "sqlite":
        return int((await store._read("SELECT count(*) FROM eventhub_lanes"))[0][0])  # type: ignore[attr-defined]
    return int((await store._read("SELECT count(*) FROM eventhub.lanes"))[0][0])  # type: ignore[attr-defined]
