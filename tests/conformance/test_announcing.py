"""Deaths of messages are told by events of the hub's own: once each, in the commit that says so."""

import asyncio
from collections.abc import Sequence

import pytest

from eventhub.core.strict_json import dump
from eventhub.store import Store
from eventhub.store.messages import FANOUT, DeadLetter
from eventhub.store.values import NewEvent, Route
from tests.conformance.conftest import OpenAnother
from tests.conformance.hub_support import plan, subscriber
from tests.conformance.message_support import bury, kill, send, take
from tests.conformance.support import at
from tests.conformance.support import kill as kill_work
from tests.conformance.support import take as take_work


def news(letter: DeadLetter, queue: str = "news") -> NewEvent:
    payload = dump({"message": letter.delivery_id, "reason": letter.reason})
    return NewEvent(type="hub.message.dead", payload=payload, route=Route(queue))


def tell(letters: Sequence[DeadLetter]) -> list[NewEvent]:
    return [news(letter) for letter in letters]


async def told(store: Store) -> list[int]:
    """Which messages the published events speak of."""
    return [claim.event.payload["message"] for claim in await take_work(store, 1000, queue="news", now=None)]


async def test_each_death_is_told_once(store: Store) -> None:
    one = await subscriber(store)
    numbers = [await kill(store, one) for _ in range(3)]
    assert await store.announce_dead(tell) == 3
    assert await told(store) == numbers
    assert await store.announce_dead(tell) == 0
    assert await told(store) == []


async def test_of_work_nothing_is_told(store: Store) -> None:
    await kill_work(store)
    assert await store.announce_dead(tell) == 0


async def test_one_that_dies_again_is_told_again(store: Store) -> None:
    one = await subscriber(store)
    number = await kill(store, one)
    assert await store.announce_dead(tell) == 1
    await store.retry_message(number, by="anna", now=at(1))
    (claim,) = await take(store, one, now=at(1))
    await bury(store, claim, now=at(2))
    assert await store.announce_dead(tell) == 1
    assert await told(store) == [number, number]


async def test_who_composes_sees_the_whole_letter_and_the_oldest_come_first(store: Store) -> None:
    one = await subscriber(store, document='{"name":"billing"}')
    (parked, *_) = await send(store, one, count=2, key="k", parks=True)
    (claim,) = await take(store, one)
    await bury(store, claim, "HTTP 404")
    second, third = [await kill(store, one) for _ in range(2)]
    given: list[DeadLetter] = []

    def compose(letters: Sequence[DeadLetter]) -> list[NewEvent]:
        given.extend(letters)
        return []

    assert await store.announce_dead(compose, limit=2) == 2
    assert [letter.delivery_id for letter in given] == [parked, second]
    assert (given[0].parked, given[0].errors, given[0].consumer) == (True, ["HTTP 404"], {"name": "billing"})
    assert (given[0].ordering_key, given[1].parked) == ("k", False)
    assert await store.announce_dead(compose, limit=2) == 1
    assert [letter.delivery_id for letter in given] == [parked, second, third]
    assert await store.announce_dead(tell) == 0, "also those of which there was nothing to say"


async def test_a_letter_that_was_retried_before_it_was_told_is_told_all_the_same(store: Store) -> None:
    one = await subscriber(store)
    number = await kill(store, one)
    await store.retry_message(number, by="anna", now=at(1))
    assert await store.announce_dead(tell) == 1
    assert await told(store) == [number]


async def test_when_composing_fails_nothing_is_marked_or_published(store: Store) -> None:
    one = await subscriber(store)
    number = await kill(store, one)

    def stumble(letters: Sequence[DeadLetter]) -> list[NewEvent]:
        raise RuntimeError(f"cannot tell of {len(letters)}")

    with pytest.raises(RuntimeError, match="cannot tell of 1"):
        await store.announce_dead(stumble)
    assert await store.announce_dead(tell) == 1
    assert await told(store) == [number]


async def test_events_may_take_any_route(store: Store) -> None:
    one = await subscriber(store)
    numbers = [await kill(store, one) for _ in range(4)]

    def apart(letters: Sequence[DeadLetter]) -> list[NewEvent]:
        return [news(letter, f"news-{letter.delivery_id}") for letter in letters]

    assert await store.announce_dead(apart) == 4
    for number in numbers:
        (claim,) = await take_work(store, 10, queue=f"news-{number}", now=None)
        assert claim.event.payload["message"] == number


async def test_what_is_told_is_broadcast_and_the_fan_out_wakes(store: Store) -> None:
    one, listener = await subscriber(store), await subscriber(store)
    await kill(store, one)

    def broadcast(letters: Sequence[DeadLetter]) -> list[NewEvent]:
        events = tell(letters)
        for event in events:
            event.work, event.broadcast = False, True
        return events

    mark = store.wakeups.mark(FANOUT)
    assert await store.announce_dead(broadcast) == 1
    assert await store.wakeups.wait(FANOUT, since=mark, timeout=0)
    assert (await store.fan_out(await plan(store, listener))).messages == 1
    assert len(await take(store, listener, now=None)) == 1


async def test_several_who_tell_never_tell_the_same(store: Store, open_another: OpenAnother) -> None:
    stores = [store, await open_another(), await open_another()]
    one = await subscriber(store)
    numbers = await send(store, one, count=60, now=None)
    for claim in await take(store, one, now=None):
        await bury(store, claim, now=None)

    async def announce(each: Store) -> int:
        total = 0
        while count := await each.announce_dead(tell, limit=7):
            total += count
        return total

    counts = await asyncio.gather(*(announce(each) for each in stores))
    assert sum(counts) + await announce(store) == 60
    assert sorted(await told(store)) == numbers


async def test_a_death_is_told_while_it_is_retried_and_purged(store: Store, open_another: OpenAnother) -> None:
    other = await open_another()
    one = await subscriber(store)
    for _ in range(12):
        number = await kill(store, one, now=None)
        retried, count = await asyncio.gather(other.retry_message(number, by="anna"), store.announce_dead(tell))
        assert retried
        assert count + await store.announce_dead(tell) == 1
        (claim,) = await take(store, one, now=None)
        await bury(store, claim, now=None)
        await store.announce_dead(tell)
