"""Two managers on one queue, each with handlers for its own types, at the same time."""

import asyncio

from eventhub.core.events import Action
from eventhub.queue import EventManager

EVENTS = 60


async def test_each_gets_its_own_events_at_once_and_nothing_is_passed_around(make_queue):
    first, second, publisher = (make_queue(clock=None) for _ in range(3))
    handled: dict[str, list[int]] = {"a": [], "b": []}
    done = asyncio.Event()

    def handle(event):
        handled[event.type].append(event.id)
        if sum(map(len, handled.values())) == EVENTS:
            done.set()

    managers = EventManager(first, poll_interval=60), EventManager(second, poll_interval=60)
    for manager, name in zip(managers, handled, strict=True):
        manager.register(name, name, handle, inline=True)
    async with managers[0], managers[1]:
        published = [(await publisher.publish("ab"[n % 2], n)).id for n in range(EVENTS)]
        await asyncio.wait_for(done.wait(), 60)
    assert sorted(handled["a"]) == published[::2]
    assert sorted(handled["b"]) == published[1::2]
    assert [(m.numbers.claimed, m.numbers.released) for m in managers] == [(EVENTS // 2, 0)] * 2
    for number in published:
        actions = [entry.action for entry in await publisher.store.log(number)]
        assert actions == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]
