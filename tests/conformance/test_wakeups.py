"""Wake-ups: whoever waits is told when there may be work, also by other processes, and no wake-up gets lost."""

import asyncio
import time

from eventhub.store import Store
from eventhub.store.wakeups import Wakeups
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import QUEUE, complete, fail, kill, new, publish_one, seconds, take_one

LONG = 60.0
SOON = 20.0


async def listening(store: Store) -> int:
    """Wait until the store hears of other processes; the mark to wait from."""
    async with asyncio.timeout(SOON):
        mark = store.wakeups.mark(QUEUE)
        assert await store.wait(QUEUE, since=mark, timeout=LONG), "whoever begins to listen looks once more"
    return store.wakeups.mark(QUEUE)


async def woken(store: Store, mark: int) -> None:
    started = time.monotonic()
    assert await store.wait(QUEUE, since=mark, timeout=LONG)
    assert time.monotonic() - started < SOON


async def test_a_waiter_is_woken_by_a_publisher_of_its_own_store(store: Store) -> None:
    mark = await listening(store)
    waiter = asyncio.create_task(woken(store, mark))
    await store.publish([new()])
    await waiter


async def test_a_waiter_is_woken_by_a_publisher_of_another_store(store: Store, open_another: OpenAnother) -> None:
    other = await open_another()
    mark = await listening(store)
    waiter = asyncio.create_task(woken(store, mark))
    await other.publish([new()])
    await waiter


async def test_a_wakeup_between_the_look_and_the_first_wait_is_not_lost(
    store: Store, open_another: OpenAnother
) -> None:
    other = await open_another()
    mark = store.wakeups.mark(QUEUE)
    await other.publish([new()])
    await woken(store, mark)


async def test_a_wakeup_between_the_look_and_a_later_wait_is_not_lost(store: Store, open_another: OpenAnother) -> None:
    other = await open_another()
    mark = await listening(store)
    await other.publish([new()])
    await woken(store, mark)


async def test_work_that_comes_back_in_another_store_wakes_too(store: Store, open_another: OpenAnother) -> None:
    other = await open_another()
    dead = await kill(other, now=None)
    await publish_one(other, now=None, key="k")
    await publish_one(other, now=None, key="k")
    await listening(store)
    for step in ("fail", "complete", "retry dead"):
        claim = None if step == "retry dead" else await take_one(other, None)
        await heard_all(store)
        waiter = asyncio.create_task(woken(store, store.wakeups.mark(QUEUE)))
        if claim is None:
            await other.retry_dead([dead], by="me")
        elif step == "fail":
            await fail(other, claim, now=None)
        else:
            await complete(other, claim, None)
        await waiter


async def heard_all(store: Store) -> None:
    """Wait until no wake-up has come for a while."""
    while await store.wait(QUEUE, since=store.wakeups.mark(QUEUE), timeout=0.2):
        pass


async def test_a_wait_ends_when_its_time_is_up(store: Store) -> None:
    mark = await listening(store)
    assert not await store.wait(QUEUE, since=mark, timeout=0.01)


async def test_a_wait_ends_when_something_is_due(store: Store) -> None:
    await publish_one(store, now=None, delay=seconds(0.3))
    mark = await listening(store)
    started = time.monotonic()
    await store.wait(QUEUE, since=mark, timeout=LONG)
    assert time.monotonic() - started < SOON


async def test_closing_a_store_wakes_its_waiters(store: Store) -> None:
    mark = await listening(store)
    waiter = asyncio.create_task(store.wait(QUEUE, since=mark, timeout=LONG))
    await asyncio.sleep(0)
    await store.next_due()
    await store.close()
    async with asyncio.timeout(SOON):
        await asyncio.gather(waiter, return_exceptions=True)


async def test_a_queue_is_woken_by_its_own_name_or_by_none() -> None:
    wakeups = Wakeups()
    mine, yours = wakeups.mark("mine"), wakeups.mark("yours")
    wakeups.wake("yours")
    assert not await wakeups.wait("mine", since=mine, timeout=0)
    assert await wakeups.wait("yours", since=yours, timeout=0)
    wakeups.wake()
    assert await wakeups.wait("mine", since=mine, timeout=0)


async def test_every_waiter_of_a_queue_is_woken() -> None:
    wakeups = Wakeups()
    mark = wakeups.mark("q")
    waiters = [asyncio.create_task(wakeups.wait("q", since=mark, timeout=LONG)) for _ in range(5)]
    await asyncio.sleep(0)
    assert wakeups.waiting
    wakeups.wake("q")
    assert await asyncio.gather(*waiters) == [True] * 5
    assert not wakeups.waiting
