"""Ordering keys that stand still: which they are, and how an operator gets them going."""

import asyncio
from datetime import timedelta

import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, State
from eventhub.store import Store
from tests.conformance import support as work
from tests.conformance.conftest import OpenAnother
from tests.conformance.hub_support import subscriber
from tests.conformance.message_support import bury, deliver, drained, end, fail, kill, seen, send, take
from tests.conformance.support import START, actions, at, seconds

DECISIONS = ["retry_key", "skip_key", "unpark_key"]


async def blocked(store: Store, one: int, **page: object) -> list[str]:
    return [each.key for each in await store.blocked_keys(one, **page)]  # type: ignore[arg-type]


async def parked_key(store: Store, one: int, count: int = 3, key: str = "k") -> list[int]:
    """A key whose first message is dead and holds the others."""
    numbers = await send(store, one, count=count, key=key, parks=True)
    (claim,) = await take(store, one)
    await bury(store, claim, "HTTP 404")
    return numbers


async def waiting_key(store: Store, one: int, count: int = 3, key: str = "k", *, parks: bool = False) -> list[int]:
    """A key whose first message has failed and waits for its retry."""
    numbers = await send(store, one, count=count, key=key, parks=parks)
    (claim,) = await take(store, one)
    await fail(store, claim, "HTTP 500", after=30)
    return numbers


# ------------------------------------------------------------------- listing


async def test_a_key_whose_head_waits_for_its_retry(store: Store) -> None:
    one = await subscriber(store)
    first, *_ = await waiting_key(store, one)
    (key,) = await store.blocked_keys(one)
    assert (key.key, key.message_id, key.event_id) == ("k", first, (await seen(store, first)).event_id)
    assert (key.parked, key.status, key.waiting, key.since) == (False, Status.PENDING, 2, START)
    assert (key.attempts, key.retry_count, key.error, key.next_retry_at) == (1, 1, "HTTP 500", at(30))


async def test_a_key_whose_head_is_dead_and_holds_it(store: Store) -> None:
    one = await subscriber(store)
    first, *_ = await parked_key(store, one)
    (key,) = await store.blocked_keys(one)
    assert (key.key, key.message_id, key.parked, key.status, key.waiting) == ("k", first, True, Status.FAILED, 2)
    assert (key.attempts, key.retry_count, key.error, key.next_retry_at) == (1, 1, "HTTP 404", None)


async def test_a_key_is_blocked_while_its_head_is_tried_again(store: Store) -> None:
    one = await subscriber(store)
    await waiting_key(store, one)
    (claim,) = await take(store, one, now=at(30))
    (key,) = await store.blocked_keys(one)
    assert (key.status, key.attempts, key.next_retry_at) == (Status.PROCESSING, 2, None)
    await deliver(store, claim, now=at(31))
    assert await store.blocked_keys(one) == []


async def test_keys_that_go_on_are_not_listed(store: Store) -> None:
    one, two = await subscriber(store), await subscriber(store)
    await send(store, one, count=3, key="going")
    await take(store, one)
    await kill(store, one, key="skipped")
    await waiting_key(store, two, key="of another")
    await send(store, one)
    for claim in await take(store, one):
        await fail(store, claim)
    assert await store.blocked_keys(one) == []
    assert await blocked(store, two) == ["of another"]


async def test_pages_of_keys_go_on_behind_the_last_one_seen(store: Store) -> None:
    one = await subscriber(store)
    keys = ["", "Z", "a", "a/b", "aa", "b", "ä", "漢", "🙂"]
    for key in reversed(keys):
        await waiting_key(store, one, count=1, key=key)
    assert await blocked(store, one) == keys, "in the order of their bytes, in every database"
    paged = await blocked(store, one, limit=2)
    while page := await blocked(store, one, limit=2, after=paged[-1]):
        assert len(page) <= 2
        paged += page
    assert paged == keys
    assert await blocked(store, one, after="aab") == ["b", "ä", "漢", "🙂"]


# --------------------------------------------------------------------- retry


async def test_retrying_a_key_makes_its_waiting_head_due(store: Store) -> None:
    one = await subscriber(store)
    numbers = await waiting_key(store, one)
    assert await store.retry_key(one, "k", by="anna", now=at(1))
    assert (await seen(store, numbers[0])).retry_count == 1
    assert await drained(store, one, now=at(1)) == numbers


async def test_retrying_a_parked_key_starts_its_head_afresh(store: Store) -> None:
    one = await subscriber(store)
    numbers = await parked_key(store, one)
    assert await store.retry_key(one, "k", by="anna", now=at(1))
    assert (await seen(store, numbers[0])).retry_count == 0
    letter = await store.dead_letter(numbers[0])
    assert letter is not None
    assert letter.retried_by == "anna"
    assert await drained(store, one, now=at(1)) == numbers


async def test_a_key_that_goes_on_is_not_retried(store: Store) -> None:
    one = await subscriber(store)
    await send(store, one, count=2, key="k")
    assert not await store.retry_key(one, "k", by="anna")
    await take(store, one)
    assert not await store.retry_key(one, "k", by="anna")


# ---------------------------------------------------------------------- skip


@pytest.mark.parametrize("parks", [False, True])
@pytest.mark.parametrize("state", ["ready", "leased", "waiting"])
async def test_skipping_gives_up_the_head_and_the_key_goes_on(store: Store, state: str, *, parks: bool) -> None:
    one = await subscriber(store)
    first, second, third = await send(store, one, count=3, key="k", parks=parks)
    if state != "ready":
        (claim,) = await take(store, one)
        if state == "waiting":
            await fail(store, claim, "HTTP 500")
    assert await store.skip_key(one, "k", by="anna", now=at(1))
    letter = await store.dead_letter(first)
    assert letter is not None
    assert (letter.reason, letter.dead_at, letter.parked) == ("skipped", at(1), False)
    entry = (await store.log(letter.id))[-1]
    assert (entry.action, entry.worker, entry.delivery_id, entry.created_at) == ("SKIPPED", "anna", first, at(1))
    if state == "leased":
        assert not await deliver(store, claim, now=at(1)), "who was sending it is refused"
    assert await drained(store, one, now=at(1)) == [second, third]
    assert await store.retry_message(first, by="anna", now=at(2)), "it can be retried like any dead letter"
    assert await drained(store, one, now=at(2)) == [first]


async def test_skipping_a_parked_key_leaves_its_letter_as_it_is(store: Store) -> None:
    one = await subscriber(store)
    first, *others = await parked_key(store, one)
    assert await store.skip_key(one, "k", by="anna", now=at(1))
    letter = await store.dead_letter(first)
    assert letter is not None
    assert (letter.reason, letter.parked) == ("retries_exhausted", False)
    assert [entry.action for entry in await store.log(letter.id)][-2:] == ["DEAD", "SKIPPED"]
    assert await drained(store, one, now=at(1)) == others


async def test_the_last_of_a_key_is_skipped_and_the_key_is_free(store: Store) -> None:
    one = await subscriber(store)
    await waiting_key(store, one, count=1)
    assert await store.skip_key(one, "k", by="anna", now=at(1))
    assert not await store.skip_key(one, "k", by="anna", now=at(2))
    (number,) = await send(store, one, key="k", now=at(3))
    assert await drained(store, one, now=at(3)) == [number]


async def test_a_key_is_skipped_one_by_one(store: Store) -> None:
    one = await subscriber(store)
    *skipped, last = await parked_key(store, one, count=4)
    for _ in skipped:
        assert await store.skip_key(one, "k", by="anna", now=at(1))
    assert await drained(store, one, now=at(1)) == [last]


# -------------------------------------------------------------------- unpark


async def test_unparking_lets_the_successors_go(store: Store) -> None:
    one = await subscriber(store)
    first, *others = await parked_key(store, one)
    assert await take(store, one, now=at(1000)) == []
    assert await store.unpark_key(one, "k", by="anna", now=at(1))
    entry = (await store.log((await seen(store, first)).event_id))[-1]
    assert (entry.action, entry.worker, entry.delivery_id) == ("SKIPPED", "anna", first)
    assert await drained(store, one, now=at(1)) == others
    assert (await seen(store, first)).status is Status.FAILED
    assert not await store.unpark_key(one, "k", by="anna")


async def test_only_a_parked_key_is_unparked(store: Store) -> None:
    one = await subscriber(store)
    await waiting_key(store, one)
    assert not await store.unpark_key(one, "k", by="anna")
    assert await blocked(store, one) == ["k"]


@pytest.mark.parametrize("decide", DECISIONS)
async def test_a_key_belongs_to_its_subscriber(store: Store, decide: str) -> None:
    one, two = await subscriber(store), await subscriber(store)
    await parked_key(store, one)
    await parked_key(store, two)
    assert not await getattr(store, decide)(one, "unknown", by="anna")
    assert await getattr(store, decide)(one, "k", by="anna", now=at(1))
    assert await blocked(store, one) == []
    assert await blocked(store, two) == ["k"]


# --------------------------------------------------------------------- stats


async def test_a_subscriber_in_numbers(store: Store) -> None:
    one, two = await subscriber(store), await subscriber(store)
    await waiting_key(store, one, count=4, key="w")
    await parked_key(store, one, count=3, key="p")
    (leased, done) = await send(store, one, count=2)
    for claim, took in zip(await take(store, one, now=at(2)), (10, 90), strict=True):
        if claim.held.id == done:
            await deliver(store, claim, took=took, now=at(3))
    await send(store, one, two, count=2, now=at(4))
    stats = await store.subscriber_stats(one, now=at(10))
    assert (stats.pending, stats.waiting_for_retry, stats.behind, stats.processing) == (1 + 3 + 2 + 2, 1, 5, 1)
    assert (stats.dead, stats.blocked_keys, stats.parked_keys) == (1, 2, 1)
    assert (stats.oldest_pending_seconds, stats.delivered_last_hour, stats.failed_last_hour) == (10, 1, 2)
    assert (stats.last_delivered_at, stats.last_failed_at) == (at(3), START)
    assert (stats.latency_p50_ms, stats.latency_p99_ms) == (12.5, 90)
    assert (await seen(store, leased)).status is Status.PROCESSING
    later = await store.subscriber_stats(one, now=START + timedelta(hours=2))
    assert (later.delivered_last_hour, later.failed_last_hour, later.latency_p50_ms) == (0, 0, None)
    assert later.last_delivered_at == at(3)
    quiet = await store.subscriber_stats(two, now=at(10))
    assert (quiet.pending, quiet.oldest_pending_seconds, quiet.last_delivered_at) == (2, 6, None)


async def test_the_hub_in_numbers(store: Store) -> None:
    one, two, three = [await subscriber(store) for _ in range(3)]
    await waiting_key(store, one, count=2)
    await parked_key(store, two, count=4)
    await kill(store, three)
    gauges = await store.hub_gauges()
    assert gauges.pending == [(two, 3), (one, 2), (three, 0)]
    assert (gauges.blocked_keys, gauges.parked_keys, gauges.dead_letters) == (2, 1, 2)
    assert (await store.hub_gauges(most=1)).pending == [(two, 3)]


async def test_keys_of_queues_stand_still_as_those_of_subscribers_do(store: Store) -> None:
    await work.kill(store, key="p", park_when_dead=True)
    await work.kill(store, key="skips")
    await work.publish(store, work.new(key="p"), work.new(key="fresh"), work.new(key="fresh"), work.new())
    await work.publish_one(store, key="w", queue="other")
    await work.fail(store, await work.take_one(store, queue="other"), after=60)
    await parked_key(store, await subscriber(store))

    async def keys() -> tuple[int, int, int, int]:
        gauges, troubles = await store.hub_gauges(), await store.troubles("work", silent=seconds(60))
        return gauges.blocked_keys, gauges.parked_keys, troubles.parked_keys, troubles.parked_work

    assert await keys() == (3, 2, 1, 1)
    assert await store.unpark("work", "p", by="anna")
    assert await keys() == (2, 1, 1, 0)
    head = await work.kill(store, key="q", park_when_dead=True)
    assert await keys() == (3, 2, 1, 1)
    assert await store.retry_dead([head], by="anna") == {head}
    assert await keys() == (2, 1, 1, 0)


# --------------------------------------------------------------------- races


async def test_a_key_is_skipped_while_its_head_is_reported(store: Store, open_another: OpenAnother) -> None:
    other = await open_another()
    one = await subscriber(store)
    for turn in range(15):
        key = f"k{turn}"
        first, second, third = await send(store, one, count=3, key=key, parks=bool(turn % 2), now=None)
        (claim,) = await take(store, one, now=None)
        outcome = Complete() if turn % 3 else Bury("HTTP 404")
        skipped, accepted = await asyncio.gather(
            other.skip_key(one, key, by="anna"), end(store, claim, outcome, now=None)
        )
        assert skipped, "either this head or the next"
        letter = await store.dead_letter(first)
        gone = {first}
        if not accepted:  # the report came too late
            assert letter is not None
            assert letter.reason == "skipped"
        elif (await seen(store, second)).status is Status.FAILED:
            gone.add(second)
        assert await drained(store, one, now=None) == [each for each in (first, second, third) if each not in gone]


async def test_a_key_is_unparked_retried_and_skipped_at_once(store: Store, open_another: OpenAnother) -> None:
    stores = [store, await open_another(), await open_another()]
    one = await subscriber(store)
    for turn in range(15):
        key = f"k{turn}"
        first, *others = await send(store, one, count=3, key=key, parks=True, now=None)
        (claim,) = await take(store, one, now=None)
        await bury(store, claim, now=None)
        answers = await asyncio.gather(
            *(getattr(each, decide)(one, key, by=decide) for each, decide in zip(stores, DECISIONS, strict=True))
        )
        assert any(answers)
        order = await drained(store, one, now=None)
        assert len(order) == len(set(order))
        for number in (first, *others):
            message = await seen(store, number)
            assert message.status in {Status.COMPLETED, Status.FAILED}, "the key does not hang"
            assert (message.status is Status.COMPLETED) == (number in order)
        assert await blocked(store, one) == []


async def test_a_message_is_retried_while_the_janitor_tends(store: Store, open_another: OpenAnother) -> None:
    other = await open_another()
    one = await subscriber(store)
    for _ in range(15):
        (number,) = await send(store, one, now=None)
        (claim,) = await take(store, one, now=None)
        await fail(store, claim, after=0.001, now=None)
        await asyncio.gather(other.tend(), store.retry_message(number, by="anna"), other.tend())
        standing = (await store.current([number]))[number]
        assert (standing.state, standing.attempts, standing.failures) == (State.READY, 1, 1)
        assert (await actions(store, claim.event_id)).count("RETRIED") <= 1
        assert await drained(store, one, now=None) == [number]


async def test_a_message_is_cancelled_buried_and_reported_at_once(store: Store, open_another: OpenAnother) -> None:
    one, (second, third) = await subscriber(store), (await open_another(), await open_another())
    for turn in range(15):
        head, behind = await send(store, one, count=2, key=f"k{turn}", now=None)
        (claim,) = await take(store, one, now=None)
        outcomes = await asyncio.gather(
            second.cancel_message(head, by="anna"), third.bury_message(head, by="bert"), deliver(store, claim, now=None)
        )
        assert sum(outcomes) == 1, "it ends exactly once"
        ends = [entry.action for entry in await store.log(claim.event_id) if entry.delivery_id == head]
        assert len({"CANCELLED", "DEAD", "COMPLETED"} & set(ends)) == 1
        assert await drained(store, one, now=None) == [behind]
