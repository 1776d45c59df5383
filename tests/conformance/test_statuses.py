"""An event's status is that of all its deliveries: its work, its messages, and those that are still to be made."""

from datetime import timedelta
from typing import Any

import pytest

from eventhub.core.events import QueuedEvent, Status
from eventhub.core.lifecycle import State
from eventhub.store import Store
from eventhub.store.messages import MessageFilter, consumer_of
from eventhub.store.values import EventFilter, NewEvent, Route
from tests.conformance import support
from tests.conformance.hub_support import plan, subscriber
from tests.conformance.message_support import bury, deliver, drained, fail, kill, send, take
from tests.conformance.support import START, actions, at, seconds


async def broadcast(store: Store, **fields: Any) -> int:
    event = NewEvent(type="order.placed", payload="1", route=Route("work"), broadcast=True, **{"work": False, **fields})
    return (await store.publish([event], now=START))[0].id


async def hand_out(store: Store, *subscribers: int) -> None:
    await store.fan_out(await plan(store, *subscribers), now=START)


async def shown(store: Store, number: int) -> QueuedEvent:
    """The event, which must be in the list of its status and in that of no other, and be counted there."""
    event = await store.event(number)
    assert event is not None
    for status in Status:
        listed = await store.events(EventFilter(status=status, limit=1000))
        assert [found.id for found in listed].count(number) == (status is event.status)
        assert await store.count_events(EventFilter(status=status)) == len(listed)
        assert all(found.status is status for found in listed)
    return event


@pytest.fixture
async def two(store: Store) -> tuple[int, int]:
    return await subscriber(store), await subscriber(store)


@pytest.fixture
async def number(store: Store, two: tuple[int, int]) -> int:
    """An event with a message for each of the two."""
    event_id = await broadcast(store)
    await hand_out(store, *two)
    return event_id


# --------------------------------------------------------------- of broadcasts


async def test_a_broadcast_is_pending_until_it_was_handed_out(store: Store) -> None:
    number = await broadcast(store)
    assert (await shown(store, number)).status is Status.PENDING
    await hand_out(store)
    assert (await shown(store, number)).status is Status.COMPLETED, "nobody has subscribed"


async def test_a_broadcast_for_later_says_when(store: Store, two: tuple[int, int]) -> None:
    number = await broadcast(store, delay=seconds(60))
    assert (await shown(store, number)).next_retry_at == at(60)
    await hand_out(store, *two)
    assert (await shown(store, number)).next_retry_at == at(60)


async def test_one_message_at_work_makes_it_processing(store: Store, two: tuple[int, int], number: int) -> None:
    assert (await shown(store, number)).status is Status.PENDING
    (claim,) = await take(store, two[0])
    event = await shown(store, number)
    assert (event.status, event.lease_expires_at) == (Status.PROCESSING, at(60))
    await deliver(store, claim)
    assert (await shown(store, number)).status is Status.PENDING


async def test_a_message_that_waits_for_its_retry_is_pending(store: Store, two: tuple[int, int], number: int) -> None:
    for claim in await take(store, *two):
        await fail(store, claim, after=30 if claim.subscriber == two[0] else 90)
    event = await shown(store, number)
    assert (event.status, event.next_retry_at, event.errors) == (Status.PENDING, at(30), ("boom", "boom"))


async def test_it_is_completed_when_all_were_delivered(store: Store, two: tuple[int, int], number: int) -> None:
    (claim,) = await take(store, two[0])
    await fail(store, claim, after=0)
    await drained(store, *two)
    event = await shown(store, number)
    assert (event.status, event.attempts, event.retry_count, event.errors) == (Status.COMPLETED, 2, 1, ())


async def test_one_of_two_dead_means_with_errors(store: Store, two: tuple[int, int], number: int) -> None:
    (claim,) = await take(store, two[0])
    await bury(store, claim, "no")
    assert (await shown(store, number)).status is Status.PENDING, "the other is still on its way"
    await drained(store, two[1])
    event = await shown(store, number)
    assert (event.status, event.errors) == (Status.COMPLETED_WITH_ERRORS, ("no",))


async def test_all_dead_means_failed(store: Store, two: tuple[int, int], number: int) -> None:
    for claim in await take(store, *two):
        await bury(store, claim, f"no {claim.subscriber}")
    event = await shown(store, number)
    assert (event.status, event.errors) == (Status.FAILED, tuple(f"no {each}" for each in two))


async def test_a_cancelled_message_is_a_dead_one(store: Store, two: tuple[int, int], number: int) -> None:
    (claim,) = await take(store, two[0])
    (other,) = [m for m in await store.messages(MessageFilter(event_id=number)) if m.subscriber == two[1]]
    await store.cancel_message(other.id, by="me", now=START)
    await deliver(store, claim)
    assert (await shown(store, number)).status is Status.COMPLETED_WITH_ERRORS


async def test_a_parked_message_is_dead(store: Store, two: tuple[int, int]) -> None:
    (message,) = await send(store, two[0], key="k", parks=True)
    (claim,) = await take(store, two[0])
    await bury(store, claim)
    assert (await store.current([message]))[message].state is State.PARKED
    assert (await shown(store, claim.event_id)).status is Status.FAILED


async def test_a_retried_message_opens_its_event_again(store: Store, two: tuple[int, int], number: int) -> None:
    claims = await take(store, *two)
    for claim in claims:
        await bury(store, claim)
    await store.retry_dead([claims[0].held.id], by="me", now=START)
    event = await shown(store, number)
    assert (event.status, event.attempts) == (Status.PENDING, 1), "the other is dead after one attempt"
    await drained(store, *two)
    assert (await shown(store, number)).status is Status.COMPLETED_WITH_ERRORS


# --------------------------------------------------------------- with work, too


@pytest.mark.parametrize("work_dies", [False, True])
async def test_work_and_messages_count_alike(store: Store, two: tuple[int, int], *, work_dies: bool) -> None:
    number = await broadcast(store, work=True)
    await hand_out(store, two[0])
    work = await support.take_one(store)
    (message,) = await take(store, two[0])
    assert work.held.id == number != message.held.id
    if work_dies:
        await support.bury(store, work, "work")
        assert (await shown(store, number)).status is Status.PROCESSING, "the message is on its way"
        await deliver(store, message)
    else:
        await bury(store, message, "message")
        assert (await shown(store, number)).status is Status.PROCESSING, "the work is being done"
        await support.complete(store, work)
    event = await shown(store, number)
    assert (event.status, event.errors) == (Status.COMPLETED_WITH_ERRORS, ("work" if work_dies else "message",))


async def test_the_counters_are_those_of_the_work(store: Store, two: tuple[int, int]) -> None:
    number = await broadcast(store, work=True)
    await hand_out(store, two[0])
    for _ in range(3):
        (message,) = await take(store, two[0])
        await fail(store, message, after=0)
    event = await shown(store, number)
    assert (event.attempts, event.retry_count, event.fence, event.errors) == (0, 0, 0, ())


async def test_results_of_handlers_outlast_a_message(store: Store, two: tuple[int, int]) -> None:
    number = await broadcast(store, work=True)
    await hand_out(store, *two)
    work = await support.take_one(store)
    await store.record_results(work.held, [("h", "success", None)], now=START)
    first, second = await take(store, *two)
    await deliver(store, first)
    await bury(store, second)
    await store.retry_dead([second.held.id], by="me", now=START)
    assert await store.handler_results([number]) == {number: {"h": ("success", None)}}
    await support.complete(store, work)
    assert await store.handler_results([number]) == {}


async def test_only_work_can_be_reset(store: Store, two: tuple[int, int], number: int) -> None:
    (claim,) = await take(store, two[0])
    assert not await store.reset(number, reason="r", now=START)
    assert await store.reset(claim.held.id, reason="r", now=START)
    assert (await actions(store, number))[-1] == "RESET"


async def test_silent_work_is_an_orphan_whatever_its_messages_do(store: Store, two: tuple[int, int]) -> None:
    number = await broadcast(store, work=True)
    await hand_out(store, two[0])
    work = await support.take_one(store, worker="worker-x")
    await take(store, two[0], now=at(50))
    (orphan,) = await store.orphans("work", silent=seconds(30), now=at(55))
    assert (orphan.event.id, orphan.worker, orphan.fence) == (number, "worker-x", work.held.fence)
    assert (orphan.silent_since, orphan.lease_expires_at) == (START, at(60))
    assert await store.count_orphans("work", silent=seconds(30), limit=10, now=at(55)) == 1


# ------------------------------------------------------------------ in numbers


async def test_numbers_count_events_once(store: Store, two: tuple[int, int], number: int) -> None:
    await broadcast(store, work=True)
    await take(store, two[0])
    (stats,) = await store.stats()
    assert (stats.queue, stats.depth[Status.PENDING], stats.depth[Status.PROCESSING]) == ("work", 1, 1)
    assert sum(stats.ages.values()) == 2
    assert stats.attempts == {0: 1}, "of the work alone"
    assert sum(stats.depth.values()) == 2
    assert number


async def test_ends_of_messages_are_not_those_of_the_work(store: Store, two: tuple[int, int], number: int) -> None:
    for claim in await take(store, *two):
        await bury(store, claim)
    (stats,) = await store.stats("work")
    assert (stats.failure_rate, stats.depth[Status.FAILED]) == (None, 1)
    assert number


async def test_what_is_to_be_handed_out_is_open(store: Store, two: tuple[int, int], number: int) -> None:
    await broadcast(store, work=True)
    assert await store.open_count(100) == 2 + 2
    assert await store.open_count(3) == 3
    assert number


async def test_dead_work_is_listed_without_dead_messages(store: Store, two: tuple[int, int]) -> None:
    message = await kill(store, two[0])
    work = await support.kill(store)
    page = await store.dead()
    assert ([event.id for event in page.events], page.total) == ([work], 1)
    assert await store.dead_event(message) is None


# ---------------------------------------------------------------- keys of messages


async def test_a_dead_message_comes_back_to_its_key(store: Store, two: tuple[int, int]) -> None:
    """Its key is the one that its subscriber chose, and nothing is left of it by then."""
    (first,) = await send(store, two[0], key="k")
    (claim,) = await take(store, two[0])
    await bury(store, claim)
    (unordered,) = await send(store, two[0])
    await drained(store, two[0])
    assert await store.retry_dead([first], by="me", now=START) == {first}
    (second,) = await send(store, two[0], key="k")
    current = await store.current([first, second])
    assert (current[first].state, current[second].state) == (State.READY, State.BEHIND)
    assert current[first].lane == current[second].lane
    assert await drained(store, two[0]) == [first, second]
    assert unordered


async def test_past_a_parked_message_the_log_of_its_event_goes_on(store: Store, two: tuple[int, int]) -> None:
    (message,) = await send(store, two[0], key="k", parks=True)
    (claim,) = await take(store, two[0])
    await bury(store, claim)
    assert await store.unpark(consumer_of(two[0]), "k", by="me", now=START)
    assert (await actions(store, claim.event_id))[-1] == "SKIPPED"
    assert await store.log(message) == []


# ------------------------------------------------------------------- and purges


async def purge(store: Store) -> int:
    return await store.purge_dead(older_than=timedelta(0), now=at(1))


async def test_a_purge_leaves_events_that_have_open_messages(store: Store, two: tuple[int, int], number: int) -> None:
    (claim,) = await take(store, two[0])
    await bury(store, claim)
    assert await purge(store) == 1
    assert (await shown(store, number)).status is Status.PENDING
    assert await drained(store, two[1])
    assert (await shown(store, number)).status is Status.COMPLETED


async def test_a_purge_leaves_events_that_were_delivered(store: Store, two: tuple[int, int], number: int) -> None:
    (claim,) = await take(store, two[0])
    await drained(store, two[1])
    await bury(store, claim)
    assert await purge(store) == 1
    assert (await shown(store, number)).status is Status.COMPLETED


async def test_a_purge_leaves_events_that_are_to_be_handed_out(store: Store) -> None:
    number = await broadcast(store, work=True)
    await support.bury(store, await support.take_one(store))
    assert await purge(store) == 1
    assert (await shown(store, number)).status is Status.PENDING


async def test_a_purge_leaves_events_with_younger_letters(store: Store, two: tuple[int, int], number: int) -> None:
    first, second = await take(store, *two)
    await bury(store, first)
    await bury(store, second, now=at(2))
    assert await purge(store) == 1
    assert (await shown(store, number)).status is Status.FAILED
    assert await store.purge_dead(older_than=timedelta(0), now=at(2)) == 1
    assert await store.event(number) is None
