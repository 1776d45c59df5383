"""Dispatchers share the limits of a subscriber among those of them that live."""

import asyncio

import pytest

from eventhub.core.subscribers import Subscriber
from eventhub.hub import CrewSettings, Hub, dispatcher
from eventhub.hub.dispatcher import DispatcherTuning
from eventhub.hub.lines import CircuitRules
from eventhub.hub.roster import DISPATCHING, Roster
from eventhub.store import Store
from eventhub.store.messages import HUB
from eventhub.store.values import Sighting
from eventhub.store.workers import new_worker, retire
from tests.hub.conftest import SECRET, MakeHub, MakeReceiver
from tests.hub.receiver import Arrival


async def test_a_dispatcher_that_died_on_this_machine_has_no_share(store: Store) -> None:
    """It was seen a moment ago, so only the knowledge that its process is gone frees its part at once."""
    book = Hub(store, secret=SECRET, allow_private=["127.0.0.0/8"], roles=()).subscribers
    for number in range(10):
        await book.create(Subscriber(name=f"one by one {number}", url="http://127.0.0.1:9999", max_in_flight=1))
    dead = [new_worker() for _ in range(20)]
    await store.see_workers([Sighting(HUB, worker, DISPATCHING) for worker in dead])
    roster = Roster(store, book, CircuitRules())
    await roster.refresh()
    assert sum(line.room for line in roster.lines.values()) < 10, "the living share"
    for worker in dead:
        retire(worker)
    survivor = Roster(store, book, CircuitRules())
    retire(roster.worker)
    await survivor.refresh()
    assert [line.room for line in survivor.lines.values()] == [1] * 10


async def test_each_of_many_quiet_subscribers_is_heard_although_there_are_few_places(
    make_hub: MakeHub, make_receiver: MakeReceiver
) -> None:
    hub = await make_hub(settings=CrewSettings(tuning=DispatcherTuning(concurrency=2)))
    receiver = await make_receiver()
    for number in range(150):
        await hub.subscribers.create(Subscriber(name=f"s{number}", url=receiver.url, event_type=f"t.{number}"))
    for turn, number in enumerate((149, 75, 0, 120, 30), start=1):
        await hub.publish(f"t.{number}", {"number": number})
        arrivals = await receiver.wait_for(turn)
        assert arrivals[-1].data == {"number": number}


async def test_one_that_hangs_with_a_large_limit_leaves_places_to_others(
    make_hub: MakeHub, make_receiver: MakeReceiver
) -> None:
    hub = await make_hub(settings=CrewSettings(tuning=DispatcherTuning(concurrency=16, shutdown_timeout=0.1)))
    free = asyncio.Event()

    async def hang(_: Arrival) -> int:
        await free.wait()
        return 200

    hanging, well = await make_receiver(hang), await make_receiver()
    await hub.subscribers.create(Subscriber(name="hanging", url=hanging.url, event_type="a", max_in_flight=1000))
    await hub.subscribers.create(Subscriber(name="well", url=well.url, event_type="b"))
    await hub.publish_many([{"type": "a", "payload": number} for number in range(100)])
    await hanging.wait_for(8)
    await hub.publish_many([{"type": "b", "payload": number} for number in range(20)])
    await well.wait_for(20)
    assert len(hanging.arrivals) <= 14
    free.set()


async def test_large_messages_under_way_are_bounded_by_their_size(
    make_hub: MakeHub, make_receiver: MakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one of them was seen, no more are taken than there is room for, however many places are free."""
    monkeypatch.setattr(dispatcher, "MOST_BYTES", 1 << 20)
    hub = await make_hub(settings=CrewSettings(tuning=DispatcherTuning(concurrency=100, shutdown_timeout=0.1)))
    free = asyncio.Event()

    async def when_told(arrival: Arrival) -> int:
        if arrival.data["number"]:
            await free.wait()
        return 200

    receiver = await make_receiver(when_told)
    await hub.subscribers.create(Subscriber(name="one", url=receiver.url, max_in_flight=100))
    events = [{"type": "t", "payload": {"number": number, "text": "x" * 100_000}} for number in range(40)]
    await hub.publish_many(events[:1])
    await receiver.wait_for(1)
    await hub.publish_many(events[1:])
    await receiver.wait_for(10)
    assert receiver.most_at_once <= 11
    free.set()
    await receiver.wait_for(40)
    assert sorted(arrival.data["number"] for arrival in receiver.arrivals) == list(range(40))
