"""A manager is in the list of workers, beside those that come over HTTP."""

import asyncio

from eventhub.queue import EventManager
from eventhub.queue.work import WorkQueue
from tests.queue.support import until


async def test_a_manager_is_listed_with_its_queue_what_it_holds_and_its_end(make_queue, store):
    queue, work = make_queue(clock=None), WorkQueue(store)
    await queue.publish("a", {})
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handler(event):
        begun.set()
        await go_on.wait()

    async def listed():
        return [(one.queue, one.name, one.last_action, one.open_claims) for one in await work.workers(everywhere=True)]

    manager = EventManager(queue)
    manager.register("h", "a", handler)
    async with manager:
        await begun.wait()
        await until(lambda: is_listed(listed, [(queue.name, queue.worker, "RUNNING", 1)]))
        assert await work.count_workers(everywhere=True) == 1
        go_on.set()
    assert await listed() == [(queue.name, queue.worker, "STOPPED", 0)]
    await work.close()


async def is_listed(listed, wanted):
    return await listed() == wanted
