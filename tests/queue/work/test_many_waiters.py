"""A thousand workers wait in one process: each event goes to the one who waits longest, and hardly anyone is asked."""

import asyncio

from eventhub.queue.work import WorkQueue
from eventhub.store.claims import Claim
from tests.queue.support import until
from tests.queue.work.support import Spy, publish, waiting

SOON = 60.0
Task = asyncio.Task[list[Claim]]


async def served(tasks: list[Task], count: int) -> list[int]:
    """Who has an answer, once so many have one."""
    await until(lambda: sum(task.done() for task in tasks) >= count, seconds=SOON)
    return [number for number, task in enumerate(tasks) if task.done()]


async def test_a_thousand_waiters_share_fifty_events_in_their_order_at_two_claims_an_event(
    live: WorkQueue, spy: Spy
) -> None:
    tasks = waiting(live, 1000)
    await until(lambda: live.room.waiting == 1000)
    events = await publish(live, count=50)
    assert await served(tasks, 50) == list(range(50))
    assert sorted(claim.event.id for task in tasks[:50] for claim in task.result()) == events
    assert all(len(task.result()) == 1 for task in tasks[:50])
    assert spy.calls["claim"] <= 100
    live.stop()
    assert await asyncio.gather(*tasks[50:]) == [[]] * 950


async def test_events_that_come_one_by_one_cost_no_more(live: WorkQueue, spy: Spy) -> None:
    tasks = waiting(live, 1000)
    await until(lambda: live.room.waiting == 1000)
    arrivals = spy.calls["claim"]
    for turn in range(50):
        (number,) = await publish(live)
        assert await served(tasks, turn + 1) == list(range(turn + 1))
        assert [claim.event.id for claim in tasks[turn].result()] == [number]
    assert spy.calls["claim"] - arrivals <= 100
    live.stop()
    await asyncio.gather(*tasks)


async def test_waiters_for_other_tags_cost_no_claims_and_block_nobody(live: WorkQueue, spy: Spy) -> None:
    others = [task for n in range(300) for task in waiting(live, 1, f"tag-{n}")]
    crowd = waiting(live, 300)
    await until(lambda: live.room.waiting == 600)
    before = spy.calls["claim"]
    for n in (299, 150, 0):
        (number,) = await publish(live, f"tag-{n}")
        async with asyncio.timeout(SOON):
            assert [claim.event.id for claim in await others[n]] == [number]
    assert spy.calls["claim"] - before <= 6
    assert not any(task.done() for task in crowd)
    live.stop()
    await asyncio.gather(*others, *crowd)


async def test_plenty_for_one_tag_does_not_keep_another_waiting(live: WorkQueue) -> None:
    crowd = waiting(live, 200)
    (lonely,) = waiting(live, 1, "sms")
    await until(lambda: live.room.waiting == 201)
    await publish(live, "email", 150)
    (number,) = await publish(live, "sms")
    async with asyncio.timeout(SOON):
        assert [claim.event.id for claim in await lonely] == [number]
    assert await served(crowd, 150) == list(range(150))
    live.stop()
    await asyncio.gather(*crowd)


async def test_an_event_with_several_tags_goes_to_whoever_waits_longest(live: WorkQueue) -> None:
    first = asyncio.create_task(live.take("host:1", "sms, push", wait=SOON))
    await until(lambda: live.room.waiting == 1)
    second = asyncio.create_task(live.take("host:2", "email", wait=SOON))
    await until(lambda: live.room.waiting == 2)
    one = await publish(live, "email, sms")
    async with asyncio.timeout(SOON):
        assert [claim.event.id for claim in await first] == one
    assert not second.done()
    two = await publish(live, "email, sms")
    async with asyncio.timeout(SOON):
        assert [claim.event.id for claim in await second] == two


async def test_many_workers_drain_a_backlog_while_they_wait(live: WorkQueue) -> None:
    events = await publish(live, count=300)
    done: list[int] = []

    async def worker(name: str) -> None:
        while claims := await live.take(name, "email", wait=SOON):
            for claim in claims:
                await live.complete(claim.event.id, name)
                done.append(claim.event.id)
                if len(done) == len(events):
                    live.stop()

    async with asyncio.timeout(SOON):
        await asyncio.gather(*(worker(f"host:{n}") for n in range(50)))
    assert sorted(done) == events
