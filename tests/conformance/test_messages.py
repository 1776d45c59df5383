"""Messages as people see them, in every state, page by page; and what people may decide about one of them."""

import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import State
from eventhub.store import Store
from eventhub.store.messages import MessageFilter
from tests.conformance.hub_support import subscriber
from tests.conformance.message_support import bury, deliver, drained, fail, kill, seen, send, take
from tests.conformance.support import MINUTE, START, actions, at, publish_one, seconds
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


# --------------------------------------------------------------------- retry


async def test_a_message_that_waits_is_sent_at_once_and_keeps_its_counters(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one)
    (claim,) = await take(store, one)
    await fail(store, claim, "HTTP 503", after=600)
    assert await store.retry_message(number, by="anna", now=at(10))
    message = await seen(store, number)
    assert (message.status, message.next_retry_at) == (Status.PENDING, None)
    assert (message.attempts, message.retry_count, message.errors) == (1, 1, ("HTTP 503",))
    entry = (await store.log(message.event_id))[-1]
    assert (entry.action, entry.worker, entry.delivery_id, entry.created_at) == ("RETRIED", "anna", number, at(10))
    (claim,) = await take(store, one, now=at(10))
    assert (claim.held.id, claim.attempts) == (number, 2)


async def test_a_message_that_is_to_be_sent_later_may_be_sent_now(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one, delay=MINUTE)
    assert (await seen(store, number)).next_retry_at == at(60)
    assert await take(store, one) == []
    assert await store.retry_message(number, by="anna", now=START)
    assert [claim.held.id for claim in await take(store, one)] == [number]


@pytest.mark.parametrize("parks", [False, True])
async def test_a_dead_message_gets_a_fresh_start(store: Store, *, parks: bool) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one, key="k", parks=parks)
    (claim,) = await take(store, one)
    await bury(store, claim)
    assert await store.retry_message(number, by="anna", now=at(10))
    message = await seen(store, number)
    assert (message.status, message.attempts, message.retry_count, message.errors) == (Status.PENDING, 0, 0, ())
    (claim,) = await take(store, one, now=at(11))
    assert (claim.held.id, claim.held.fence, claim.attempts, claim.ordering_key) == (number, 2, 1, "k")
    letter = await store.dead_letter(number)
    assert letter is not None
    assert (letter.retried_by, letter.retried_at) == ("anna", at(10))


async def test_nothing_else_is_retried(store: Store) -> None:
    one = await subscriber(store)
    ready, leased, behind = [*await send(store, one), *await send(store, one, count=2, key="k")]
    claims = await take(store, one)
    await fail(store, claims[0], after=0)
    for number in (ready, leased, behind, NOBODY):
        assert not await store.retry_message(number, by="anna")
    (claim,) = [claim for claim in claims if claim.held.id == leased]
    await deliver(store, claim)
    assert not await store.retry_message(leased, by="anna")


# -------------------------------------------------------------------- cancel


@pytest.mark.parametrize("state", ["ready", "leased", "waiting", "behind"])
async def test_an_open_message_is_cancelled_and_its_key_goes_on(store: Store, state: str) -> None:
    one = await subscriber(store)
    first, second, third = await send(store, one, count=3, key="k", parks=True)
    number = second if state == "behind" else first
    if state in {"leased", "waiting"}:
        (claim,) = await take(store, one)
        if state == "waiting":
            await fail(store, claim)
    assert await store.cancel_message(number, by="anna", now=at(5))
    assert await store.message(number) is None
    assert await store.dead_letter(number) is None
    log = await store.log((await seen(store, third)).event_id)
    assert "CANCELLED" not in [entry.action for entry in log]
    assert await drained(store, one, now=at(6)) == [each for each in (first, second, third) if each != number]
    assert not await store.cancel_message(number, by="anna")


async def test_a_cancelled_message_is_in_the_log(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one)
    event = (await seen(store, number)).event_id
    await take(store, one)
    await store.cancel_message(number, by="anna", now=at(5))
    entry = (await store.log(event))[-1]
    assert (entry.action, entry.worker, entry.delivery_id) == ("CANCELLED", "anna", number)
    assert (entry.attempt, entry.fence, entry.created_at) == (1, 1, at(5))


async def test_what_is_dead_or_delivered_is_not_cancelled(store: Store) -> None:
    one = await subscriber(store)
    dead = await kill(store, one)
    parked = await kill(store, one, key="k", parks=True)
    (delivered,) = await send(store, one)
    await drained(store, one)
    for number in (dead, parked, delivered, NOBODY):
        assert not await store.cancel_message(number, by="anna")
    assert (await seen(store, parked)).status is Status.FAILED


@pytest.mark.parametrize("key", [None, "k"], ids=["unordered", "ordered"])
@pytest.mark.parametrize("decide", ["cancel_message", "bury_message"])
async def test_who_sent_a_message_that_was_taken_away_is_refused(store: Store, decide: str, key: str | None) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one, key=key)
    (claim,) = await take(store, one)
    assert await getattr(store, decide)(number, by="anna", now=at(1))
    assert await store.extend([claim.held], MINUTE, now=at(2)) == {number}
    log = await store.log(claim.event_id)
    for late in (deliver, fail, bury):
        assert not await late(store, claim, now=at(2))
    assert await store.log(claim.event_id) == log
    assert await store.attempts(number) == []
    assert await take(store, one, now=at(1000)) == []


# ---------------------------------------------------------------------- bury


@pytest.mark.parametrize("state", ["ready", "leased", "waiting", "behind"])
async def test_an_open_message_is_moved_to_the_dead_letters(store: Store, state: str) -> None:
    one = await subscriber(store)
    first, second = await send(store, one, count=2, key="k")
    number = second if state == "behind" else first
    if state in {"leased", "waiting"}:
        (claim,) = await take(store, one)
        if state == "waiting":
            await fail(store, claim, "HTTP 500")
    assert await store.bury_message(number, by="anna", now=at(5))
    assert (await seen(store, number)).status is Status.FAILED
    letter = await store.dead_letter(number)
    assert letter is not None
    assert (letter.reason, letter.delivery_id, letter.dead_at) == ("manual", number, at(5))
    assert letter.errors == (["HTTP 500"] if state == "waiting" else [])
    assert letter.retry_count == len(letter.errors), "an operator's decision is no failure"
    told = [entry for entry in await store.log(letter.id) if entry.delivery_id == number][-2:]
    assert sorted(entry.action for entry in told) == ["DEAD", "RESET"]
    assert [entry.worker for entry in told if entry.action == "RESET"] == ["anna"]
    assert await drained(store, one, now=at(6)) == [first + second - number]
    assert not await store.bury_message(number, by="anna")


async def test_a_message_that_holds_its_key_when_it_dies_does_so_when_it_is_moved(store: Store) -> None:
    one = await subscriber(store)
    first, second = await send(store, one, count=2, key="k", parks=True)
    assert await store.bury_message(first, by="anna", now=at(5))
    assert await take(store, one, now=at(6)) == []
    assert (await store.current([first, second]))[first].state is State.PARKED
    assert not await store.bury_message(first, by="anna")
    assert not await store.cancel_message(first, by="anna")
    assert await store.bury_message(second, by="anna"), "nothing is held by one that stands behind"
    assert second not in await store.current([second])


async def test_moving_a_message_does_not_touch_its_event(store: Store) -> None:
    one, two = await subscriber(store), await subscriber(store)
    first, second = await send(store, one, two)
    event = (await seen(store, first)).event_id
    await store.bury_message(first, by="anna", now=at(1))
    assert await drained(store, one, two, now=at(2)) == [second]
    assert await actions(store, event) == ["PUBLISHED", "DEAD", "RESET", "PICKED", "COMPLETED"]


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
