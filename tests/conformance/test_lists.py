"""Lists of events: every combination of filters against a plain reading of all events."""

import itertools
from collections.abc import Callable

import pytest

from eventhub.core.events import QueuedEvent, Status
from eventhub.core.lifecycle import Bury, Complete, Reason, Retry
from eventhub.store import Store, reading
from eventhub.store.values import EventFilter, NewEvent, Report
from tests.conformance.support import MINUTE, at, new, publish, take

TYPES = ["order.placed", "order.paid", "never.seen"]
QUEUES = ["work", "other", "nobody"]
TAGS: list[frozenset[str] | None] = [
    None,
    frozenset(),
    frozenset({"red"}),
    frozenset({"red", "blue"}),
    frozenset({"re"}),
    frozenset({"red,green"}),
    frozenset({"none"}),
]
ROUTES: list[tuple[str, ...]] = [(), ("red",), ("green", "red"), ("blue",), ("reddish",)]


def various() -> list[NewEvent]:
    """Each pair of types, on each route of two queues, in two priorities, some of them under a key or for later."""
    events = []
    for number, (tags, queue, type_, priority) in enumerate(
        itertools.product(ROUTES, QUEUES[:2], TYPES[:2], (0, 5)), start=1
    ):
        events.append(new(type_, queue=queue, tags=tags, priority=priority))
        events.append(
            new(type_, queue=queue, tags=tags, priority=priority, key=f"k{number % 3}", park_when_dead=number % 2 == 0)
        )
        events.append(new(type_, queue=queue, tags=tags, delay=MINUTE))
        events.append(new(type_, queue=queue, tags=tags, completed=number % 4 == 0))
    return events


async def in_every_state(store: Store) -> list[QueuedEvent]:
    """Many events, and of each kind some in each state; newest first."""
    numbers = await publish(store, *various())
    outcomes = itertools.cycle(
        [
            Complete(),
            None,
            Bury("bad"),
            Retry("later", MINUTE),
            Bury("partly", Reason.FINALIZED, Status.COMPLETED_WITH_ERRORS),
            Complete(),
            Retry("now"),
        ]
    )
    for queue in QUEUES[:2]:
        claims = await take(store, 45, queue=queue)
        reports = [Report(c.held, o) for c, o in zip(claims, outcomes, strict=False) if o is not None]
        await store.settle(reports, now=at(1))
    return [event for number in reversed(numbers) if (event := await store.event(number)) is not None]


@pytest.fixture
async def everything(store: Store) -> list[QueuedEvent]:
    found = await in_every_state(store)
    assert {event.status for event in found} == set(Status)
    return found


def fits(wanted: EventFilter) -> Callable[[QueuedEvent], bool]:
    def fit(event: QueuedEvent) -> bool:
        return (
            wanted.status in (None, event.status)
            and wanted.type in (None, event.type)
            and wanted.queue in (None, event.queue)
            and (wanted.tags is None or bool(wanted.tags & set(event.tags)))
        )

    return fit


@pytest.mark.parametrize("depth", [reading.DEPTH, 1])
async def test_every_combination_of_filters_finds_what_fits(
    store: Store, everything: list[QueuedEvent], depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "DEPTH", depth)  # with the smallest, pages are looked for in several steps
    middle = everything[len(everything) // 3].id
    some = 0
    for status, type_, queue, tags in itertools.product([None, *Status], [None, *TYPES], [None, *QUEUES], TAGS):
        every = EventFilter(status=status, type=type_, queue=queue, tags=tags, limit=1000)
        expected = [event for event in everything if fits(every)(event)]
        assert await store.events(every) == expected, every
        assert await store.count_events(every) == len(expected), every
        page = EventFilter(status=status, type=type_, queue=queue, tags=tags, before_id=middle, offset=2, limit=3)
        below = [event for event in expected if event.id < middle]
        assert await store.events(page) == below[2:5], page
        assert await store.count_events(page) == len(expected), page
        some += len(below) > 5
    assert some > 50
