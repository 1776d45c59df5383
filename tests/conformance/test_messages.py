"""Messages as people see them: in every state, page by page, and how the attempts at them went."""

import pytest

from eventhub.core.events import Status
from eventhub.store import Store
from eventhub.store.messages import MessageFilter
from tests.conformance.hub_support import subscriber
from tests.conformance.message_support import bury, deliver, fail, kill, seen, send, take
from tests.conformance.support import START, at, publish_one, seconds
from tests.conformance.support import kill as kill_work

NOBODY = 999_999_999


async def listed(store: Store, **wanted: object) -> list[int]:
    return [message.id for message in await store.messages(MessageFilter(**wanted))]  # type: ignore[arg-type]


# -------------------------------------------------------------------- seeing


async def test_a_message_that_waits_to_be_sent(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one, key="customer-1")
    message = await seen(store, number)
    assert (message.id, message.subscriber, message.type) == (number, one, "order.placed")
    assert message.event_id != number
    assert (message.status, message.attempts, message.retry_count, message.max_attempts) == (Status.PENDING, 0, 0, 4)
    assert (message.ordering_key, message.blocked, message.worker) == ("customer-1", False, None)
    assert (message.next_retry_at, message.lease_expires_at, message.settled_at) == (None, None, None)
    assert (message.errors, message.created_at) == ((), START)
    assert await store.messages(MessageFilter()) == [message]


async def test_a_message_on_its_way(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one)
    await take(store, one, now=at(5))
    message = await seen(store, number)
    assert (message.status, message.attempts, message.worker) == (Status.PROCESSING, 1, "dispatcher-a")
    assert (message.lease_expires_at, message.next_retry_at) == (at(65), None)


async def test_a_message_that_waits_for_its_retry(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one)
    (claim,) = await take(store, one)
    await fail(store, claim, "HTTP 500", after=30)
    message = await seen(store, number)
    assert (message.status, message.attempts, message.retry_count) == (Status.PENDING, 1, 1)
    assert (message.next_retry_at, message.lease_expires_at, message.worker) == (at(30), None, None)
    assert message.errors == ("HTTP 500",)


async def test_a_message_behind_another_of_its_key(store: Store) -> None:
    one = await subscriber(store)
    first, second = await send(store, one, count=2, key="k")
    assert not (await seen(store, first)).blocked
    behind = await seen(store, second)
    assert (behind.status, behind.blocked) == (Status.PENDING, True)


@pytest.mark.parametrize("parks", [False, True])
async def test_a_dead_message(store: Store, *, parks: bool) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one, key="k", parks=parks)
    (claim,) = await take(store, one)
    await bury(store, claim, "HTTP 404", now=at(7))
    message = await seen(store, number)
    assert (message.status, message.attempts, message.retry_count) == (Status.FAILED, 1, 1)
    assert (message.errors, message.settled_at, message.ordering_key) == (("HTTP 404",), at(7), "k")
    assert await listed(store) == [number], "once, also when its row is still there to hold the key"


async def test_a_delivered_message(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one, key="k")
    (claim,) = await take(store, one)
    await fail(store, claim, after=0)
    (claim,) = await take(store, one)
    await deliver(store, claim, now=at(9))
    message = await seen(store, number)
    assert (message.status, message.attempts, message.retry_count) == (Status.COMPLETED, 2, 1)
    assert (message.type, message.settled_at, message.created_at) == ("order.placed", at(9), START)
    assert message.ordering_key == "k"


async def test_the_attempts_at_a_message_are_told_in_order(store: Store) -> None:
    one, two = await subscriber(store), await subscriber(store)
    (number, other) = await send(store, one, two)
    (claim,) = await take(store, one)
    await fail(store, claim, after=0, took=30, now=at(1))
    (claim,) = await take(store, one, now=at(2))
    await deliver(store, claim, took=20, now=at(3))
    first, second = await store.attempts(number)
    assert (first.message_id, first.subscriber, first.event_id) == (number, one, claim.event_id)
    assert (first.fence, first.action, first.created_at) == (1, "FAILED", at(1))
    assert first.detail == {"attempt": 1, "total_ms": 30}
    assert (second.fence, second.action, second.created_at) == (2, "COMPLETED", at(3))
    assert second.detail == {"attempt": 2, "total_ms": 20}
    assert await store.attempts(other) == []


async def test_work_is_no_message(store: Store) -> None:
    number, dead = await publish_one(store), await kill_work(store)
    for each in (number, dead):
        assert await store.message(each) is None
        assert not await store.retry_message(each, by="anna")
        assert not await store.cancel_message(each, by="anna")
        assert not await store.bury_message(each, by="anna")
        assert await listed(store, event_id=each) == []
    assert await listed(store) == []
    assert await store.message(NOBODY) is None


# ------------------------------------------------------------------- listing


async def everywhere(store: Store, one: int) -> dict[Status, list[int]]:
    """A message in every state, twice over and mixed: their ids by status."""
    made: dict[Status, list[int]] = {status: [] for status in Status}
    for turn in range(2):
        delivered, dead, leased = await send(store, one, count=3)
        first, second, third = [claim for claim in await take(store, one) if claim.held.id >= delivered]
        await deliver(store, first)
        await bury(store, second)
        waiting, behind = await send(store, one, count=2, key=f"k{turn}")
        (head,) = await take(store, one)
        await fail(store, head)
        (ready,) = await send(store, one)
        made[Status.COMPLETED].append(delivered)
        made[Status.FAILED].append(dead)
        made[Status.PROCESSING].append(leased)
        made[Status.PENDING] += [waiting, behind]
        if turn:
            made[Status.PENDING].append(ready)
        else:
            (again,) = await take(store, one)
            made[Status.PROCESSING].append(again.held.id)
        assert third.held.id == leased
    return made


async def test_lists_by_status_and_subscriber(store: Store) -> None:
    one, two = await subscriber(store), await subscriber(store)
    made = {one: await everywhere(store, one), two: await everywhere(store, two)}
    for status in Status:
        both = made[one][status] + made[two][status]
        assert await listed(store, status=status) == sorted(both, reverse=True)
        for each in (one, two):
            assert await listed(store, status=status, subscriber=each) == sorted(made[each][status], reverse=True)
    for each in (one, two):
        everything = [number for numbers in made[each].values() for number in numbers]
        assert await listed(store, subscriber=each) == sorted(everything, reverse=True)
        for message in await store.messages(MessageFilter(subscriber=each)):
            assert message.id in made[each][message.status]
            assert await store.message(message.id) == message
    assert await listed(store, subscriber=NOBODY) == []


@pytest.mark.parametrize("status", [None, *Status])
async def test_pages_go_on_below_the_last_one_seen(store: Store, status: Status | None) -> None:
    one, two = await subscriber(store), await subscriber(store)
    for each in (one, two):
        await everywhere(store, each)
    for whose in (None, one):
        wanted = {"status": status, "subscriber": whose}
        whole = await listed(store, **wanted)
        paged: list[int] = []
        while page := await listed(store, **wanted, limit=2, before_id=paged[-1] if paged else None):
            assert len(page) <= 2
            paged += page
        assert paged == whole


async def test_lists_of_one_event(store: Store) -> None:
    one, two, three = [await subscriber(store) for _ in range(3)]
    first, second, third = await send(store, one, two, three)
    (other,) = await send(store, one)
    (claim, *_) = await take(store, one)
    await deliver(store, claim)
    (claim,) = await take(store, two)
    await bury(store, claim)
    event = (await seen(store, first)).event_id
    assert await listed(store, event_id=event) == [third, second, first]
    assert await listed(store, event_id=event, status=Status.COMPLETED) == [first]
    assert await listed(store, event_id=event, status=Status.FAILED) == [second]
    assert await listed(store, event_id=event, subscriber=three) == [third]
    assert await listed(store, event_id=event, before_id=third, limit=1) == [second]
    assert await listed(store, event_id=(await seen(store, other)).event_id) == [other]
    assert await listed(store, event_id=NOBODY) == []


async def test_a_queue_that_somebody_calls_hub_does_not_disturb_the_lists(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one)
    await publish_one(store, queue="hub", tags=("a", "9" * 30))
    assert await listed(store) == [number]


async def test_messages_of_a_subscriber_that_is_gone(store: Store) -> None:
    one = await subscriber(store)
    dead = await kill(store, one)
    (delivered, opened) = await send(store, one, count=2)
    (claim, _) = await take(store, one)
    await deliver(store, claim)
    assert await store.remove_subscriber(one, by="anna") == 1
    assert await listed(store) == [delivered, dead]
    assert await store.message(opened) is None
    assert not await store.retry_message(dead, by="anna"), "nobody would ever send it"
    assert (await seen(store, dead)).status is Status.FAILED


# --------------------------------------------------------------------- prune


async def test_old_stories_of_attempts_are_forgotten(store: Store) -> None:
    one, two = await subscriber(store), await subscriber(store)
    for turn in range(3):
        for each in (one, two):
            (number,) = await send(store, each, now=at(turn * 100))
            (claim,) = await take(store, each, now=at(turn * 100))
            await fail(store, claim, after=0, now=at(turn * 100))
            (claim,) = await take(store, each, now=at(turn * 100 + 50))
            await deliver(store, claim, now=at(turn * 100 + 50))
    assert await store.prune_attempts(seconds(150), now=at(300)) == 6, "exactly at the limit is not too old"
    assert [attempt.created_at for attempt in await store.attempts(number)] == [at(200), at(250)]
    assert len(await listed(store)) == 4
    assert await store.prune_attempts(seconds(150), now=at(300)) == 0
    assert await store.prune_attempts(seconds(0), now=at(1000)) == 6
    assert await listed(store) == []
