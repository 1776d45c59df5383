"""Polling: one event for one poller, oldest first, and what is abandoned comes back in its old place."""

import asyncio
from datetime import timedelta

import apsw
import pytest

from eventhub.clock import ManualClock
from eventhub.core.events import Action, Status
from eventhub.queue import EventQueue
from eventhub.store.values import EventFilter
from tests.queue.conftest import MINUTE
from tests.queue.support import UNREADABLE, publish_texts


async def test_poll_claims_the_oldest_and_says_so(queue, clock):
    first = await queue.publish("a", 1)
    await queue.publish("b", 2)
    created = clock.now()
    clock.advance(5)
    polled = await queue.poll()
    assert (polled.id, polled.status, polled.attempts, polled.fence) == (first.id, Status.PROCESSING, 1, 1)
    assert (polled.created_at, polled.updated_at) == (created, clock.now())
    assert polled.lease_expires_at == clock.now() + MINUTE


async def test_poll_gives_none_at_once_when_nothing_is_ready(queue):
    assert await asyncio.wait_for(queue.poll(), 5) is None


async def test_concurrent_pollers_never_share_an_event(make_queue):
    pollers = [make_queue() for _ in range(8)]
    ids = await pollers[0].publish_many([{"type": "n", "payload": n} for n in range(200)])

    async def drain(poller):
        taken = []
        while (event := await poller.poll()) is not None:
            taken.append(event.id)
        return taken

    taken = [event_id for mine in await asyncio.gather(*map(drain, pollers)) for event_id in mine]
    assert sorted(taken) == ids


async def test_queues_of_one_database_do_not_see_each_other(make_queue):
    mails, invoices = make_queue(queue="mails"), make_queue(queue="invoices")
    sent = await mails.publish("a", 1)
    assert await invoices.poll() is None
    assert (await mails.poll()).id == sent.id


async def test_exactly_at_the_limit_a_claim_is_not_abandoned_yet(make_queue, clock):
    first, second = make_queue(), make_queue()
    event = await first.publish("a", 1)
    await first.poll()
    clock.advance(MINUTE)
    assert await second.poll() is None
    clock.advance(timedelta(microseconds=1))
    again = await second.poll()
    assert (again.id, again.attempts, again.fence, again.updated_at) == (event.id, 2, 2, clock.now())


async def test_an_abandonment_is_logged_and_counted(make_queue, clock, store):
    first, second = make_queue(worker="first"), make_queue(worker="second")
    event = await first.publish("a", 1)
    await first.poll()
    clock.advance(61)
    await second.poll()
    log = [(entry.action, entry.worker) for entry in await store.log(event.id)]
    assert [action for action, _ in log] == [Action.PUBLISHED, Action.PICKED, Action.ABANDONED, Action.PICKED]
    assert log[1][1] == "first"
    assert log[3][1] == "second"


async def test_an_abandoned_older_event_goes_before_younger_pending_ones(make_queue, clock):
    first, second = make_queue(), make_queue()
    old = await first.publish("old", 1)
    await first.poll()
    young = await first.publish("young", 2)
    clock.advance(61)
    assert [event.id for event in await second.poll_many(2)] == [old.id, young.id]


async def test_a_clock_given_to_poll_moves_what_is_compared_and_what_is_written(make_queue, clock):
    queue = make_queue()
    event = await queue.publish("a", 1)
    await queue.poll()
    later = ManualClock(clock.now() + timedelta(hours=1))
    again = await queue.poll(later)
    assert (again.id, again.updated_at) == (event.id, later.now())
    assert await queue.poll(later) is None
    later.advance(61)
    assert (await queue.poll(later)).attempts == 3


async def test_extending_a_lease_keeps_the_event(make_queue, clock):
    first, second = make_queue(), make_queue()
    await first.publish("a", 1)
    event = await first.poll()
    clock.advance(50)
    await first.extend(event)
    clock.advance(60)
    assert await second.poll() is None
    clock.advance(1)
    assert (await second.poll()).id == event.id


async def test_a_released_event_is_ready_at_once_and_not_charged(make_queue):
    first, second = make_queue(), make_queue()
    await first.publish("a", 1)
    await first.release(await first.poll())
    again = await second.poll()
    assert (again.attempts, again.fence) == (1, 2)


async def test_a_failed_event_is_tried_again_when_due(queue, clock):
    await queue.publish("a", 1)
    assert await queue.fail(await queue.poll(), "the mail server is away")
    clock.advance(59.999)
    assert await queue.poll() is None
    clock.advance(0.001)
    again = await queue.poll()
    assert (again.attempts, again.retry_count) == (2, 1)
    assert await queue.fail(again, ValueError("no"), delay=5)
    clock.advance(5)
    assert (await queue.poll()).attempts == 3


async def test_the_last_attempt_allowed_ends_in_the_dead_letter_queue(make_queue, clock, store):
    queue = make_queue(max_attempts=2, retry_after=0)
    event = await queue.publish("a", 1)
    assert await queue.fail(await queue.poll(), "first")
    assert not await queue.fail(await queue.poll(), "second")
    assert await queue.poll() is None
    dead = await store.dead_event(event.id)
    assert (dead.status, dead.reason, dead.errors) == (
        Status.FAILED,
        "retries_exhausted",
        ["first", "second"],
    )


async def test_an_event_that_loses_its_workers_ends_in_the_dead_letter_queue(make_queue, clock, store):
    queue = make_queue(max_attempts=3)
    event = await queue.publish("poison", 1)
    for attempt in (1, 2, 3):
        assert (await queue.poll()).attempts == attempt
        clock.advance(61)
    assert await queue.poll() is None
    dead = await store.dead_event(event.id)
    assert (dead.status, dead.reason, dead.attempts) == (Status.FAILED, "worker_lost", 3)


async def test_one_unreadable_row_never_stops_the_others(queue, store):
    ids = await publish_texts(store, "0", UNREADABLE, "2")
    events = await queue.poll_many(10)
    assert [event.payload for event in events] == [0, UNREADABLE, 2], "its text is all that can be given"
    await queue.finalize_many(events, success=False)
    dead = (await store.dead()).events
    assert [event.payload for event in dead] == [2, UNREADABLE, 0]
    assert [(await store.event(event_id)).status for event_id in ids] == [Status.FAILED] * 3


@pytest.mark.parametrize("damaged", ['{"cut off', "", "[" * 100_000], ids=["cut off", "empty", "endless"])
@pytest.mark.parametrize("column", ["payload", "metadata"])
async def test_damaged_text_in_a_file_never_stops_the_others(sqlite_path, clock, column, damaged):
    async with EventQueue(sqlite_path, clock=clock) as queue:
        ids = await queue.publish_many([{"type": "a", "payload": n, "metadata": {"k": "v"}} for n in range(3)])
        vandal = apsw.Connection(str(sqlite_path))
        vandal.execute(f"UPDATE eventhub_events SET {column} = ? WHERE id = ?", (damaged, ids[1]))
        vandal.close()
        events = await queue.poll_many(10)
        shown = [getattr(event, column) for event in events]
        assert shown == ([0, damaged, 2] if column == "payload" else [{"k": "v"}, {}, {"k": "v"}])
        await queue.finalize_many(events, success=False)
        assert [event.id for event in (await queue.store.dead()).events] == ids[::-1]
        assert [event.id for event in await queue.store.events(EventFilter())] == ids[::-1]


async def test_without_a_limit_an_event_is_never_given_up(queue, clock):
    await queue.publish("a", 1)
    for attempt in range(1, 30):
        assert (await queue.poll()).attempts == attempt
        clock.advance(61)


async def test_the_databases_own_clock_works_too(make_queue):
    queue = make_queue(clock=None)
    event = await queue.publish("a", 1)
    polled = await queue.poll()
    assert polled.id == event.id
    assert polled.lease_expires_at - polled.updated_at == MINUTE
    await queue.finalize(polled)
    assert await queue.poll() is None


async def test_stats_tell_the_depth_by_status(queue):
    await queue.publish_many([{"type": "n", "payload": n} for n in range(3)])
    await queue.poll()
    await queue.finalize((await queue.poll()).id, success=True)
    stats = await queue.stats()
    assert stats.queue == "default"
    assert (stats.depth["PENDING"], stats.depth["PROCESSING"], stats.depth["COMPLETED"]) == (1, 1, 1)
