"""Dispatchers share the limits of a subscriber among those of them that live."""

from eventhub.core.subscribers import Subscriber
from eventhub.hub import Hub
from eventhub.hub.lines import CircuitRules
from eventhub.hub.roster import DISPATCHING, Roster
from eventhub.store import Store
from eventhub.store.messages import HUB
from eventhub.store.values import Sighting
from eventhub.store.workers import new_worker, retire
from tests.hub.conftest import SECRET


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
