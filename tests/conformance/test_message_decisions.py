"""What people may decide about one message: to try it at once, to cancel it, to give it up."""

import pytest

from eventhub.core.events import Status
from eventhub.core.lifecycle import State
from eventhub.store import Store
from eventhub.store.messages import DeadFilter, MessageFilter
from tests.conformance.hub_support import subscriber
from tests.conformance.message_support import bury, deliver, drained, fail, kill, seen, send, take
from tests.conformance.support import MINUTE, START, actions, at

NOBODY = 999_999_999


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
    assert (await seen(store, number)).status is Status.FAILED
    letter = await store.dead_letter(number)
    assert letter is not None
    assert (letter.reason, letter.parked) == ("cancelled", False)
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
    published, picked, entry = await store.log(event)
    assert (entry.action, entry.worker, entry.delivery_id) == ("CANCELLED", "anna", number)
    assert (entry.attempt, entry.fence, entry.created_at) == (1, 1, at(5))
    assert (published.subscriber, picked.subscriber, entry.subscriber) == (None, one, one), "whose message it was"


async def test_the_only_message_of_an_event_is_cancelled_and_all_of_it_can_still_be_read(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one)
    (claim,) = await take(store, one)
    await fail(store, claim, "boom")
    event_id = (await seen(store, number)).event_id
    assert await store.cancel_message(number, by="anna", now=at(5))
    event = await store.event(event_id)
    assert event is not None
    assert event.status is Status.FAILED, "nobody got it"
    message = await seen(store, number)
    assert (message.status, message.attempts, message.errors) == (Status.FAILED, 1, ("boom",))
    assert [attempt.action for attempt in await store.attempts(number)] == ["FAILED"]
    assert await store.messages(MessageFilter(event_id=event_id)) == [message]


async def test_what_was_cancelled_is_retried_only_when_it_is_named(store: Store) -> None:
    one = await subscriber(store)
    first, second = await send(store, one, count=2)
    for number in (first, second):
        await store.cancel_message(number, by="anna", now=at(5))
    dead = await kill(store, one)
    everything = DeadFilter(subscriber=one)
    assert (await store.dead_letters(everything)).total == 3
    assert await store.count_dead(everything) == 1
    assert await store.retry_dead_where(everything, by="anna", now=at(6)) == 1
    assert (await seen(store, dead)).status is Status.PENDING
    assert await store.count_dead(DeadFilter(reason="cancelled")) == 2
    assert await store.retry_dead_where(DeadFilter(ids=(first,)), by="anna", now=at(6)) == 1
    assert await store.retry_message(second, by="anna", now=at(6))
    assert await drained(store, one, now=at(7)) == [first, second, dead]


async def test_the_log_tells_whose_messages_were_cancelled_with_their_subscriber(store: Store) -> None:
    one = await subscriber(store)
    (number,) = await send(store, one)
    event = (await seen(store, number)).event_id
    assert await store.cancel_messages(one, by="anna") == 1
    entry = (await store.log(event))[-1]
    assert (entry.action, entry.delivery_id, entry.subscriber) == ("CANCELLED", number, one)


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
