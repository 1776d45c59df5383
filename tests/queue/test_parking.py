"""A dead event of an ordering key: it lets the others go on, or holds them until somebody decides."""

from __future__ import annotations

from datetime import timedelta

import pytest

from eventhub import DLQInspector, EventQueue
from eventhub.clock import ManualClock
from eventhub.errors import SettingsError


async def _names(queue: EventQueue) -> list[str]:
    return [event.payload for event in await queue.poll_many(10)]


@pytest.mark.parametrize("on_dead", ["skip", "park"])
async def test_a_dead_event_lets_its_key_go_on_or_holds_it(store_url: str, on_dead: str) -> None:
    async with EventQueue(store_url, on_dead=on_dead, clock=ManualClock()) as queue:  # type: ignore[arg-type]
        for name in ("first", "second"):
            await queue.publish("order.paid", name, ordering_key="customer-7")
        head = await queue.poll()
        assert head is not None
        await queue.finalize(head.id, success=False)
        assert await _names(queue) == (["second"] if on_dead == "skip" else [])


async def test_a_parked_key_goes_on_when_it_is_unparked_or_its_head_is_retried(store_url: str) -> None:
    clock = ManualClock()
    async with EventQueue(store_url, on_dead="park", clock=clock) as queue:
        for name in ("first", "second", "third"):
            await queue.publish("order.paid", name, ordering_key="customer-7")
        head = await queue.poll()
        assert head is not None
        await queue.finalize(head.id, success=False)
        await DLQInspector(queue.store).retry(head.id)
        clock.advance(timedelta(seconds=1))
        again = await queue.poll()
        assert again is not None
        assert (again.id, again.attempts, again.fence) == (head.id, 1, head.fence + 1)
        await queue.finalize(again.id, success=False)
        assert await _names(queue) == []
        assert await queue.unpark("customer-7")
        assert await _names(queue) == ["second"]
        assert not await queue.unpark("customer-7")


async def test_parking_outlasts_unparking_and_a_retry_from_the_dead_letters(store_url: str) -> None:
    async with EventQueue(store_url, on_dead="park", clock=ManualClock()) as queue:
        for name in ("first", "second", "third"):
            await queue.publish("order.paid", name, ordering_key="customer-7")
        head = await queue.poll()
        assert head is not None
        await queue.finalize(head.id, success=False)
        assert await queue.unpark("customer-7")
        second = await queue.poll()
        assert second is not None
        await DLQInspector(queue.store).retry(head.id)
        await queue.finalize(second.id, success=True)
        again = await queue.poll()
        assert again is not None
        assert again.id == head.id, "back in its old place"
        await queue.finalize(again.id, success=False)
        assert await _names(queue) == [], "dead again, it holds its key again"
        assert await queue.unpark("customer-7")
        assert await _names(queue) == ["third"]


async def test_a_later_publisher_that_skips_does_not_switch_parking_off(store_url: str) -> None:
    clock = ManualClock()
    async with EventQueue(store_url, on_dead="park", clock=clock) as careful:
        easy = EventQueue(careful.store, on_dead="skip", clock=clock)
        await careful.publish("order.paid", "first", ordering_key="customer-7")
        await easy.publish("order.paid", "second", ordering_key="customer-7")
        head = await easy.poll()
        assert head is not None
        await easy.publish("order.paid", "third", ordering_key="customer-7")
        await easy.finalize(head.id, success=False)
        await easy.publish("order.paid", "fourth", ordering_key="customer-7")
        assert await _names(easy) == []
        assert await careful.unpark("customer-7")
        second = await easy.poll()
        assert second is not None
        await easy.finalize(second.id, success=False)
        assert await _names(careful) == ["third"], "what was published to be skipped is skipped"


def test_any_other_choice_is_refused() -> None:
    with pytest.raises(SettingsError, match="'skip' or 'park'"):
        EventQueue(":memory:", on_dead="drop")  # type: ignore[arg-type]
