"""One clock, and fences that only rise: whatever the clock does and whoever reports late, nothing is doubled."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from eventhub.clock import ManualClock
from eventhub.core.events import Action
from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry
from eventhub.errors import ClaimLost
from eventhub.queue import EventQueue
from eventhub.store import Store, open_store
from eventhub.store.claims import Held
from eventhub.store.values import Report

HOUR = timedelta(hours=1)


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
def queue(store: Store) -> EventQueue:
    return EventQueue(store, queue="crash", abandoned_after=60.0, max_attempts=5)


async def actions(store: Store, event_id: int) -> list[tuple[str, int | None, int | None]]:
    return [(str(entry.action), entry.attempt, entry.fence) for entry in await store.log(event_id)]


async def test_a_clock_that_jumps_an_hour_loses_nothing_and_lets_no_zombie_in(store: Store) -> None:
    """Back: nothing is early. Forward: the lease ends, and its holder is refused from then on."""
    clock = ManualClock()
    worker = EventQueue(store, queue="crash", abandoned_after=60.0, clock=clock)
    other = EventQueue(store, queue="crash", abandoned_after=60.0, retry_after=10.0, clock=clock)
    event = await worker.publish("crash.test", {"token": "jump"})
    mine = await worker.poll()
    assert mine is not None

    clock.advance(-HOUR)
    assert await other.poll() is None
    clock.advance(2 * HOUR)
    taken = await other.poll()
    assert taken is not None
    assert (taken.id, taken.attempts) == (event.id, 2)
    with pytest.raises(ClaimLost):
        await worker.finalize(mine)

    await other.fail(taken, "not now")
    clock.advance(-HOUR)
    assert await worker.poll() is None
    clock.advance(HOUR + timedelta(seconds=10))
    again = await worker.poll()
    assert again is not None
    assert again.attempts == 3
    await worker.finalize(again)
    assert [entry.action for entry in await store.log(event.id)][-1] is Action.COMPLETED


async def test_a_fence_from_the_past_is_refused_whatever_the_report(store: Store, queue: EventQueue) -> None:
    event = await queue.publish("crash.test", {"token": "fence"})
    for _ in range(2):
        taken = await queue.poll()
        assert taken is not None
        await queue.fail(taken, "not now", delay=0)
    current = await queue.poll()
    assert current is not None
    before = await actions(store, event.id)
    answers = await store.settle([Report(Held(event.id, fence), Complete()) for fence in (0, 1, 2, 4)])
    assert [answer.accepted for answer in answers] == [False] * 4
    assert await actions(store, event.id) == before


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Complete(), ["COMPLETED"]),
        (Retry("not now"), ["FAILED"]),
        (Release(), ["RELEASED"]),
        (Bury("never"), ["FAILED", "DEAD"]),
    ],
    ids=["complete", "retry", "release", "bury"],
)
async def test_a_zombie_in_the_same_batch_as_its_successor_leaves_no_trace(
    store: Store, queue: EventQueue, outcome: Outcome, words: list[str]
) -> None:
    event = await queue.publish("crash.test", {"token": "batch"})
    first = await queue.poll()
    assert first is not None
    await queue.fail(first, "not now", delay=0)
    assert await queue.poll() is not None
    before = await actions(store, event.id)
    answers = await store.settle([Report(Held(event.id, fence), outcome) for fence in (1, 2)])
    assert [answer.accepted for answer in answers] == [False, True]
    assert [action for action, _, _ in (await actions(store, event.id))[len(before) :]] == words
