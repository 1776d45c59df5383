"""The dead letter queue from outside."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from eventhub.bus import DLQInspector, EventBus
from eventhub.clock import ManualClock
from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury
from eventhub.errors import EventNotFound, NotDeadError, SettingsError
from eventhub.store import open_store
from eventhub.store.claims import Held
from eventhub.store.values import NewEvent, Report, Route
from tests.bus.support import Recorder, until


async def bury(store: Any, count: int, *, queue: str = "bus", clock: ManualClock | None = None) -> list[int]:
    """Dead events, straight into the store."""
    now = clock.now() if clock else None
    new = [NewEvent(type="a", payload=str(n), route=Route(queue)) for n in range(count)]
    published = await store.publish(new, now=now)
    reports = [Report(Held(one.id, 0), Bury("ValueError: boom"), leased=False) for one in published]
    assert all(settled.accepted for settled in await store.settle(reports, now=now))
    return [one.id for one in published]


async def test_a_page_has_events_and_the_total_newest_first(store, dlq) -> None:
    ids = await bury(store, 5)
    page = await dlq.list(offset=0, limit=3)
    assert page.total == 5
    assert [event.id for event in page.events] == ids[::-1][:3]
    event = page.events[0]
    assert (event.type, event.payload, event.metadata, event.status) == ("a", 4, {}, Status.FAILED)
    assert (event.retry_count, event.errors, event.queue) == (0, ["ValueError: boom"], "bus")
    assert event.dead_at >= event.created_at


async def test_pages_never_overlap_and_leave_nothing_out(store, dlq) -> None:
    ids = await bury(store, 25)
    pages = [await dlq.list(offset=offset, limit=10) for offset in (0, 10, 20, 30)]
    assert [len(page.events) for page in pages] == [10, 10, 5, 0]
    assert [event.id for page in pages for event in page.events] == ids[::-1]
    assert {page.total for page in pages} == {25}


async def test_the_default_page_has_a_hundred(store, dlq) -> None:
    await bury(store, 101)
    page = await dlq.list()
    assert (len(page.events), page.total) == (100, 101)


async def test_an_empty_queue_is_an_empty_page(dlq) -> None:
    page = await dlq.list()
    assert (page.events, page.total) == ([], 0)


async def test_a_page_may_be_of_one_queue(store, dlq) -> None:
    await bury(store, 2, queue="bus")
    await bury(store, 3, queue="other")
    assert (await dlq.list(queue="other")).total == 3
    assert (await dlq.list()).total == 5


@pytest.mark.parametrize(
    "wrong", [{"offset": -1}, {"limit": 0}, {"limit": 10_001}, {"limit": "5"}, {"offset": 1.5}], ids=repr
)
async def test_a_page_that_cannot_be_is_refused(dlq, wrong) -> None:
    with pytest.raises(SettingsError, match="whole number"):
        await dlq.list(**wrong)


async def test_a_retry_while_the_bus_runs_is_handled_at_once(bus, dlq, status) -> None:
    handler = Recorder(failures=4)
    bus.subscribe("*", handler)
    event_id = await bus.publish("a", 1)
    await dlq.retry(event_id, by="me")
    await until(lambda: len(handler.events) == 5)
    await until(lambda: _is(status, event_id, "COMPLETED"))
    assert (await dlq.list()).total == 0


async def _is(status: Any, event_id: int, word: str) -> bool:
    return bool(await status(event_id) == word)


async def test_a_retry_while_the_bus_is_stopped_is_handled_at_the_next_start(make_bus, store, dlq, status) -> None:
    (event_id,) = await bury(store, 1)
    await dlq.retry(event_id)
    event = await store.event(event_id)
    assert (event.status, event.retry_count, event.errors) == (Status.PENDING, 0, ())
    bus = make_bus()
    bus.subscribe("*", Recorder())
    await bus.start()
    await until(lambda: _is(status, event_id, "COMPLETED"))


async def test_a_retry_from_another_process_is_found(make_bus, store_url, store, dlq) -> None:
    (event_id,) = await bury(store, 1)
    bus = make_bus(store_url)
    handler = Recorder()
    bus.subscribe("*", handler)
    await bus.start()
    await dlq.retry(event_id)
    await until(lambda: handler.events)


async def test_the_dead_letter_keeps_who_retried_it_and_when(store, dlq) -> None:
    (event_id,) = await bury(store, 1)
    await dlq.retry(event_id, by="ops")
    letter = await dlq.get(event_id)
    assert letter.retried_by == "ops"
    assert letter.retried_at is not None


async def test_retrying_an_unknown_event_says_so(dlq) -> None:
    for unknown in (999, 0, -1, 2**70, "999", None, True):
        with pytest.raises(EventNotFound) as caught:
            await dlq.retry(unknown)
        assert str(caught.value) == f"Event not found: {unknown}"


async def test_retrying_an_event_that_is_not_dead_says_how_it_stands(bus, dlq) -> None:
    bus.subscribe("*", Recorder())
    event_id = await bus.publish("a", 1)
    with pytest.raises(NotDeadError) as caught:
        await dlq.retry(event_id)
    assert str(caught.value) == f"Event {event_id} is not in DLQ (status: COMPLETED)"


async def test_retrying_twice_is_refused_until_it_is_dead_again(store, dlq) -> None:
    (event_id,) = await bury(store, 1)
    await dlq.retry(event_id)
    with pytest.raises(NotDeadError, match=r"is not in DLQ \(status: PENDING\)"):
        await dlq.retry(event_id)


async def test_an_event_that_dies_again_has_a_new_dead_letter(bus, dlq) -> None:
    bus.subscribe("*", Recorder(failures=99))
    event_id = await bus.publish("a", 1)
    first = await dlq.get(event_id)
    await dlq.retry(event_id)
    await until(lambda: bus.counters["a"].dlq == 2)
    second = await dlq.get(event_id)
    assert second.dead_at > first.dead_at
    assert len(second.errors) == 4
    assert (await dlq.list()).total == 1


async def test_two_retries_at_the_same_time_give_one_fresh_start(store, dlq) -> None:
    (event_id,) = await bury(store, 1)
    results = await asyncio.gather(*(dlq.retry(event_id) for _ in range(5)), return_exceptions=True)
    assert sum(result is None for result in results) == 1
    assert sum(isinstance(result, NotDeadError) for result in results) == 4


async def test_many_are_retried_in_one_call(store, dlq) -> None:
    ids = await bury(store, 5)
    assert await dlq.retry_many([*ids[:3], 999]) == set(ids[:3])
    assert (await dlq.list()).total == 2


async def test_getting_an_event_that_never_died_says_so(bus, dlq) -> None:
    event_id = await bus.publish("a", 1)
    with pytest.raises(NotDeadError):
        await dlq.get(event_id)
    with pytest.raises(EventNotFound):
        await dlq.get(999)


async def test_purge_deletes_what_died_that_long_ago_the_boundary_included(store) -> None:
    clock = ManualClock()
    dlq = DLQInspector(store, clock=clock)
    old = await bury(store, 2, clock=clock)
    clock.advance(timedelta(microseconds=1))
    young = await bury(store, 3, clock=clock)
    clock.advance(timedelta(days=30) - timedelta(microseconds=1))
    assert await dlq.purge(30) == 2
    assert await dlq.purge(30) == 0
    assert {event.id for event in (await dlq.list()).events} == set(young)
    assert await store.event(old[0]) is None
    clock.advance(timedelta(microseconds=1))
    assert await dlq.purge(older_than_days=30) == 3


async def test_purge_may_go_by_the_time_of_creation(store) -> None:
    clock = ManualClock()
    dlq = DLQInspector(store, clock=clock)
    (published,) = await store.publish([NewEvent(type="a", payload="1", route=Route("bus"))], now=clock.now())
    clock.advance(timedelta(days=10))
    await store.settle([Report(Held(published.id, 0), Bury("boom"), leased=False)], now=clock.now())
    assert await dlq.purge(10, by="dead_at") == 0
    assert await dlq.purge(10, by="created_at") == 1


async def test_purge_may_be_of_one_queue(store, dlq) -> None:
    await bury(store, 2, queue="bus")
    await bury(store, 3, queue="other")
    assert await dlq.purge(0, queue="other") == 3
    assert (await dlq.list()).total == 2


async def test_zero_days_purges_all_the_dead_and_nothing_else(bus, store, dlq) -> None:
    alive = await bus.publish("a", 1)
    await bury(store, 3)
    assert await dlq.purge(0) == 3
    assert (await store.event(alive)) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"older_than_days": -1},
        {"older_than_days": float("nan")},
        {"older_than_days": float("inf")},
        {"older_than_days": "30"},
        {"older_than_days": 30, "by": "updated_at"},
    ],
    ids=repr,
)
async def test_a_purge_that_cannot_be_meant_is_refused(store, dlq, wrong) -> None:
    await bury(store, 1)
    with pytest.raises(SettingsError):
        await dlq.purge(**wrong)
    assert (await dlq.list()).total == 1


async def test_an_inspector_of_its_own_opens_and_closes_the_store(store_url) -> None:
    async with open_store(store_url) as store:
        await bury(store, 2)
    async with DLQInspector(store_url) as dlq:
        assert (await dlq.list()).total == 2
    assert dlq.store.closed


async def test_an_inspector_leaves_a_store_open_that_it_was_given(store, dlq) -> None:
    await dlq.close()
    assert not store.closed


async def test_the_inspector_works_beside_a_bus_on_the_same_store(make_bus) -> None:
    bus: EventBus = await make_bus().start()
    bus.subscribe("*", Recorder(failures=99))
    ids = await asyncio.gather(*(bus.publish("a", number) for number in range(20)))
    page = await DLQInspector(bus.store).list()
    assert {event.id for event in page.events} == set(ids)
