"""The running manager: it sleeps when idle, keeps leases, stops in good order and outlasts the database."""

import asyncio
import threading
from datetime import timedelta
from time import monotonic

import pytest

from eventhub.core.events import Action, Status
from eventhub.errors import SettingsError, StoreClosed, StoreUnavailable
from eventhub.queue import EventManager, EventQueue
from eventhub.queue.jobs import Appetite
from eventhub.queue.patience import LAST_TRIES
from tests.queue.support import UNREADABLE, publish_texts, until


@pytest.fixture
def live(make_queue):
    """A queue on the database's own clock: here real time passes."""
    return make_queue(clock=None)


async def test_every_event_is_handled_once_whatever_the_number(live):
    ids = await live.publish_many([{"type": "n", "payload": n} for n in range(3000)])
    manager, seen = EventManager(live), []

    async def handler(event):
        seen.append(event.id)

    manager.register("h", "n", handler)
    await manager.run_until_empty()
    assert sorted(seen) == ids
    assert manager.numbers.completed == 3000
    assert (await live.stats()).depth[Status.COMPLETED] == 3000


async def test_two_managers_share_the_work(make_queue):
    queues = [make_queue(clock=None) for _ in range(2)]
    ids = await queues[0].publish_many([{"type": "n", "payload": n} for n in range(500)])
    seen = []

    async def handler(event):
        seen.append(event.id)
        await asyncio.sleep(0)

    managers = [EventManager(queue) for queue in queues]
    for manager in managers:
        manager.register("h", "n", handler)
    await asyncio.gather(*(manager.run_until_empty() for manager in managers))
    assert sorted(seen) == ids


async def test_until_empty_sees_what_the_last_report_has_freed(live, store, monkeypatch):
    """A claim looks while the head of a key is still held, and its empty answer comes when the head is settled."""
    ids = await live.publish_many([{"type": "n", "payload": n, "ordering_key": "k"} for n in range(3)])
    claim, settle = store.claim, store.settle
    looked, settled = asyncio.Event(), asyncio.Event()
    manager, seen = EventManager(live), []

    async def claim_and_dawdle(*args, **options):
        settled.clear()
        claims = await claim(*args, **options)
        if not claims and not looked.is_set():
            looked.set()
            await settled.wait()
        return claims

    async def settle_and_tell(*args, **options):
        answer = await settle(*args, **options)
        settled.set()
        return answer

    async def handler(event):
        seen.append(event.id)
        if event.payload < 2:
            looked.clear()
            await looked.wait()

    monkeypatch.setattr(store, "claim", claim_and_dawdle)
    monkeypatch.setattr(store, "settle", settle_and_tell)
    manager.register("h", "n", handler)
    await asyncio.wait_for(manager.run_until_empty(), 30)
    assert seen == ids


async def test_one_unreadable_row_never_stops_the_others(live, store):
    ids = await publish_texts(store, "0", UNREADABLE, "2")
    manager, seen = EventManager(live), []

    async def handler(event):
        seen.append(event.payload)

    manager.register("h", "a", handler)
    await manager.run_until_empty()
    assert sorted(seen, key=str) == [0, UNREADABLE, 2]
    assert [(await store.event(event_id)).status for event_id in ids] == [Status.COMPLETED] * 3


async def test_no_more_than_concurrency_events_run_at_a_time(live):
    await live.publish_many([{"type": "n", "payload": n} for n in range(40)])
    running = most = 0

    async def handler(event):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1

    manager = EventManager(live, concurrency=4)
    manager.register("h", "n", handler)
    await manager.run_until_empty()
    assert most == 4


async def test_an_idle_manager_wakes_on_publish(live):
    manager, handled = EventManager(live, poll_interval=60), asyncio.Event()

    async def handler(event):
        handled.set()

    manager.register("h", "a", handler)
    async with manager:
        await until(lambda: live.store.wakeups.waiting)
        began = monotonic()
        await live.publish("a", 1)
        await asyncio.wait_for(handled.wait(), 10)
        assert monotonic() - began < 5


async def test_a_retry_is_run_when_it_is_due_without_a_wake_up(make_queue):
    live = make_queue(clock=None, retry_after=0.05)
    manager, attempts = EventManager(live, poll_interval=60), []

    async def handler(event):
        attempts.append(event.attempts)
        assert event.attempts > 2

    manager.register("h", "a", handler)
    await live.publish("a", 1)
    async with manager:
        await until(lambda: attempts == [1, 2, 3])


async def test_an_idle_manager_does_not_spin(live):
    claims = 0
    claim = live.store.claim

    async def counted(*args, **kwargs):
        nonlocal claims
        claims += 1
        return await claim(*args, **kwargs)

    live.store.claim = counted
    async with EventManager(live, poll_interval=60):
        await until(lambda: live.store.wakeups.waiting)
        await asyncio.sleep(0.1)
    assert claims <= 2


async def test_leases_are_kept_while_handlers_run(make_queue):
    live, other = (make_queue(clock=None, abandoned_after=0.3) for _ in range(2))
    manager, release, started = EventManager(live, concurrency=2), asyncio.Event(), []

    async def slow(event):
        started.append(event.id)
        await release.wait()

    manager.register("slow", "a", slow)
    events = [await live.publish("a", n) for n in range(2)]
    async with manager:
        await until(lambda: len(started) == 2)
        began = monotonic()
        while monotonic() - began < 1.0:
            assert await other.poll() is None
            await asyncio.sleep(0.02)
        release.set()
        await until(lambda: manager.numbers.completed == 2)
    assert len(started) == 2
    log = [entry.action for entry in await live.store.log(events[0].id)]
    assert log == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]


async def test_the_handler_of_a_lost_claim_is_cancelled_and_the_manager_goes_on(make_queue):
    live = make_queue(clock=None, abandoned_after=0.3)
    manager, cancelled, started = EventManager(live, concurrency=1), asyncio.Event(), asyncio.Event()

    async def slow(event):
        if event.payload == "slow" and event.attempts == 1:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.set()
                raise

    manager.register("slow", "a", slow)
    event = await live.publish("a", "slow")
    async with manager:
        await started.wait()
        assert await live.store.reset(event.id, reason="operator")
        await asyncio.wait_for(cancelled.wait(), 10)
        later = await live.publish("a", "quick")
        await until(lambda: manager.numbers.completed >= 2)  # the slow one too, at its second attempt
    assert manager.numbers.lost == 1
    assert (await live.store.event(later.id)).status is Status.COMPLETED


async def test_stopping_lets_running_handlers_end_and_gives_the_rest_back(live):
    manager, started, proceed, ended = EventManager(live, concurrency=1), asyncio.Event(), asyncio.Event(), []

    async def handler(event):
        started.set()
        await proceed.wait()
        ended.append(event.id)

    manager.register("h", "a", handler)
    events = await live.publish_many([{"type": "a", "payload": n} for n in range(5)])
    running = asyncio.create_task(manager.run())
    await started.wait()
    manager.stop()
    proceed.set()
    await running
    assert ended == events[:1]
    assert (await live.store.event(events[0])).status is Status.COMPLETED
    for event_id in events[1:]:
        event = await live.store.event(event_id)
        assert (event.status, event.attempts) == (Status.PENDING, 0)
    assert not manager.running


async def test_a_handler_cut_short_by_shutdown_has_neither_failed_nor_succeeded(live):
    manager, started, cut = EventManager(live, shutdown_timeout=0.05), asyncio.Event(), []

    async def handler(event):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cut.append(event.id)
            raise

    manager.register("h", "a", handler)
    event = await live.publish("a", 1)
    running = asyncio.create_task(manager.run())
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    after = await live.store.event(event.id)
    assert cut == [event.id]
    assert (after.status, after.attempts, after.retry_count, after.errors) == (Status.PENDING, 0, 0, ())


async def test_a_second_cancellation_does_not_wait_for_the_handlers(live):
    manager, started = EventManager(live, shutdown_timeout=60), asyncio.Event()

    async def handler(event):
        started.set()
        await asyncio.Event().wait()

    manager.register("h", "a", handler)
    event = await live.publish("a", 1)
    running = asyncio.create_task(manager.run())
    await started.wait()
    running.cancel()
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(running), 10)
    assert (await live.store.event(event.id)).status is Status.PENDING


async def test_a_manager_may_run_again_but_not_twice_at_once(live):
    manager = EventManager(live)
    manager.register("h", "a", lambda event: None)
    for _ in range(2):
        await live.publish("a", 1)
        await manager.run_until_empty()
    assert manager.numbers.completed == 2
    async with manager:
        with pytest.raises(RuntimeError, match="runs already"):
            await manager.run()


async def test_claims_of_a_dead_process_of_this_machine_are_taken_back_at_once(live, make_queue):
    holder = make_queue(clock=None)
    event = await live.publish("a", 1)
    await holder.poll()
    await holder.close()
    manager = EventManager(live)
    manager.register("h", "a", lambda event: None)
    await manager.run_until_empty()
    assert (await live.store.event(event.id)).status is Status.COMPLETED


class Flaky:
    """Lets a store fail for a while, as a database does that is being restarted."""

    def __init__(self, store, *names):
        self.failures = dict.fromkeys(names, 0)
        for name in names:
            setattr(store, name, self._failing(name, getattr(store, name)))

    def _failing(self, name, original):
        async def call(*args, **kwargs):
            if self.failures[name] < 2:
                self.failures[name] += 1
                raise StoreUnavailable("The database is being restarted.")
            return await original(*args, **kwargs)

        return call


async def test_a_manager_outlasts_an_outage_in_every_step(live, make_queue, clock):
    clocked = make_queue(retry_after=0)
    manager, ran = EventManager(clocked), []

    async def one(event):
        ran.append("one")

    async def two(event):
        ran.append("two")
        assert event.attempts > 1

    manager.register("one", "a", one)
    manager.register("two", "a", two)
    event = await clocked.publish("a", 1)
    flaky = Flaky(clocked.store, "recover", "claim", "record_results", "handler_results", "settle")
    await manager.run_until_empty()
    assert ran == ["one", "two", "two"]
    assert set(flaky.failures.values()) == {2}
    assert (await clocked.store.event(event.id)).status is Status.COMPLETED


async def test_a_closed_store_ends_the_run(store_url):
    queue = EventQueue(store_url)
    manager = EventManager(queue)
    running = asyncio.create_task(manager.run())
    await until(lambda: queue.store.wakeups.waiting)
    await queue.close()
    with pytest.raises(StoreClosed):
        await asyncio.wait_for(running, 30)


async def test_a_database_that_is_down_at_the_start_is_used_when_it_is_up(postgres, postgres_url):
    postgres.stop()
    queue = EventQueue(postgres_url)
    with pytest.raises(StoreUnavailable):
        await queue.publish("a", 1)
    with pytest.raises(StoreUnavailable):
        await queue.poll()
    postgres.start()
    event = await queue.publish("a", 1)
    polled = await queue.poll()
    assert polled is not None
    assert polled.id == event.id
    await queue.close()


async def test_a_manager_survives_a_restart_of_the_database(postgres, postgres_url):
    async with EventQueue(postgres_url, abandoned_after=timedelta(seconds=2)) as queue:
        manager, seen = EventManager(queue, poll_interval=0.1), set()

        async def handler(event):
            seen.add(event.payload)

        manager.register("h", "a", handler)
        async with manager:
            await queue.publish("a", "before")
            await until(lambda: "before" in seen)
            postgres.stop()
            postgres.start()

            async def published():
                try:
                    await queue.publish("a", "after")
                except StoreUnavailable:
                    return False
                return True

            await until(published, seconds=30)
            await until(lambda: "after" in seen, seconds=30)


@pytest.mark.parametrize(
    "options",
    [{"concurrency": 0}, {"batch": 0}, {"poll_interval": 0}, {"shutdown_timeout": -1}, {"on_unmatched": "x"}],
)
def test_settings_that_cannot_work_are_refused(options):
    with pytest.raises(SettingsError, match=next(iter(options))):
        EventManager(EventQueue(":memory:"), **options)


def test_the_appetite_grows_with_quick_handlers_and_shrinks_with_slow_ones():
    appetite, finished, now = Appetite(10, 500), 0, 0.0
    appetite.learn(finished=finished, now=now)
    sizes = []
    for _ in range(8):
        finished, now = finished + appetite.limit, now + 0.001
        appetite.learn(finished=finished, now=now)
        sizes.append(appetite.limit)
    assert sizes == [40, 160, 500, 500, 500, 500, 500, 500]
    assert appetite.wanted(500) == 500
    assert appetite.wanted(501) == 0
    for _ in range(8):
        finished, now = finished + 10, now + 1.0
        appetite.learn(finished=finished, now=now)
    assert appetite.limit == 10
    assert [appetite.wanted(n) for n in (0, 9, 10)] == [10, 1, 0]


def test_an_idle_time_says_nothing_about_the_pace():
    appetite = Appetite(10, 500)
    appetite.learn(finished=0, now=0)
    appetite.learn(finished=20, now=0.001)
    appetite.rest()
    appetite.learn(finished=20, now=100.0)
    assert appetite.limit == 40


async def test_stopping_does_not_wait_for_a_database_that_is_away(live):
    asked = 0

    async def away(*_, **__):
        nonlocal asked
        asked += 1
        raise StoreUnavailable("The database is away.")

    live.store.claim = away
    manager = EventManager(live)
    running = asyncio.create_task(manager.run())
    await until(lambda: asked >= 2)
    manager.stop()
    before = asked
    await running
    assert asked - before <= LAST_TRIES


async def test_a_claim_on_its_way_when_the_manager_stops_is_given_back(live):
    claim, asked, arrive = live.store.claim, asyncio.Event(), asyncio.Event()

    async def slow(*args, **kwargs):
        claims = await claim(*args, **kwargs)
        asked.set()
        await arrive.wait()
        return claims

    live.store.claim = slow
    event = await live.publish("a", 1)
    manager = EventManager(live)
    ran: list[object] = []
    manager.register("h", "a", ran.append, inline=True)
    running = asyncio.create_task(manager.run())
    await asked.wait()
    manager.stop()
    await asyncio.sleep(0)
    arrive.set()
    await running
    after = await live.store.event(event.id)
    assert (ran, after.status, after.attempts) == ([], Status.PENDING, 0)


async def test_a_hanging_thread_neither_blocks_the_stop_nor_the_next_run(live):
    manager, hold, ran = EventManager(live, concurrency=1, shutdown_timeout=0.05), threading.Event(), []

    def handler(event):
        ran.append(event.attempts)
        if len(ran) == 1:
            hold.wait(30)

    manager.register("h", "a", handler)
    event = await live.publish("a", 1)
    running = asyncio.create_task(manager.run())
    await until(lambda: len(ran) == 1)
    manager.stop()
    await running
    assert (await live.store.event(event.id)).status is Status.PENDING
    await manager.run_until_empty()
    hold.set()
    assert ran == [1, 1]
    assert (await live.store.event(event.id)).status is Status.COMPLETED
