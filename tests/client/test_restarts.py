"""The hub is really killed and starts again on its port: nothing is lost, nothing is done twice without need."""

import asyncio
from collections import Counter
from functools import partial

from eventhub import Client, Status, Worker
from eventhub.client import ClaimedEvent
from eventhub.core.events import Action
from tests.client.support import Hub, until
from tests.client.test_worker import actions, settled


async def test_a_handler_that_runs_through_a_restart_is_run_once(mortal: Hub, tag: str):
    mortal.start()
    started, go_on, runs = asyncio.Event(), asyncio.Event(), 0

    async def handler(event: ClaimedEvent) -> None:
        nonlocal runs
        runs += 1
        started.set()
        await go_on.wait()

    async with Client(mortal.url) as client, Worker(mortal.url, tag, handler, lease=60) as worker:
        event_id = (await client.publish(tags=tag)).id
        await started.wait()
        mortal.kill()
        await asyncio.to_thread(mortal.start)
        go_on.set()
        done = await settled(client, event_id)
        await until(lambda: worker.numbers.completed, "the worker knows that it is completed")
    assert actions(done) == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]
    assert runs == 1


async def test_a_report_waits_for_the_hub_to_come_back(mortal: Hub, tag: str):
    mortal.start()
    killed, ended, runs = asyncio.Event(), asyncio.Event(), Counter[int]()

    async def handler(event: ClaimedEvent) -> None:
        runs[event.id] += 1
        if len(runs) == 10 and not killed.is_set():
            mortal.kill()
            killed.set()
        await killed.wait()
        ended.set()
        if event.payload % 2:
            raise ValueError("odd")

    async with Client(mortal.url) as client, Worker(mortal.url, tag, handler, lease=60) as worker:
        created = await client.publish_many({"tags": tag, "payload": n} for n in range(10))
        await ended.wait()
        await asyncio.to_thread(mortal.start)
        await until(lambda: worker.numbers.completed == 5, "the even ones are reported")
        await until(lambda: worker.numbers.failed >= 5, "the odd ones are reported")
        for n, each in enumerate(created):
            if n % 2 == 0:
                done = await client.event(each.id, logs=True)
                assert actions(done) == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]
                assert runs[each.id] == 1
            else:
                failed = await settled(client, each.id, Status.FAILED)
                assert (failed.retry_count, runs[each.id]) == (3, 3)


async def test_a_report_is_given_up_when_its_lease_has_ended_and_the_work_is_done_again(mortal: Hub, tag: str):
    mortal.start()
    runs = 0

    async def handler(event: ClaimedEvent) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            mortal.kill()

    async with Client(mortal.url) as client, Worker(mortal.url, tag, handler, lease=1) as worker:
        event_id = (await client.publish(tags=tag)).id
        await until(lambda: worker.numbers.lost, "the report is given up")
        await asyncio.to_thread(mortal.start)
        done = await settled(client, event_id)
    assert actions(done) == [
        Action.PUBLISHED,
        Action.PICKED,
        Action.ABANDONED,
        Action.PICKED,
        Action.COMPLETED,
    ]
    assert runs == 2


async def test_nothing_is_lost_when_the_hub_dies_again_and_again(mortal: Hub, tag: str):
    """Every event is completed; one is run again only after its claim was abandoned or its answer got lost."""
    mortal.start()
    events, runs = 400, Counter[int]()

    async def handler(event: ClaimedEvent) -> None:
        runs[event.id] += 1
        await asyncio.sleep(0)

    async with Client(mortal.url, timeout=100) as client:
        ids: list[int] = []

        async def publish() -> None:
            for n in range(events // 10):
                created = await client.publish_many({"tags": tag, "payload": (n, m)} for m in range(10))
                ids.extend(each.id for each in created)

        def begun(part: int) -> bool:
            return len(runs) >= part

        publishing = asyncio.create_task(publish())
        async with (
            Worker(mortal.url, tag, handler, lease=2, concurrency=8, worker_id="one"),
            Worker(mortal.url, tag, handler, lease=2, concurrency=8, worker_id="two"),
        ):
            for part in (50, 150, 250):
                await until(partial(begun, part), f"{part} events begun", 60)
                mortal.kill()
                await asyncio.to_thread(mortal.start)
            await publishing

            async def all_done() -> bool:
                return (await client.events(tags=tag, status=Status.COMPLETED, limit=1)).total == events

            await until(all_done, "all events completed", 90)
        assert (await client.events(tags=tag, limit=1)).total == events
        assert len(set(ids)) == events
        assert runs.keys() == set(ids)
        for event_id, count in runs.items():
            if count > 1:
                happened = actions(await client.event(event_id, logs=True))
                assert happened.count(Action.PICKED) >= count
                assert Action.ABANDONED in happened
                assert happened.count(Action.COMPLETED) == 1


async def test_a_hub_that_stops_in_good_order_is_waited_for(mortal: Hub, tag: str):
    mortal.start()
    async with (
        Client(mortal.url, timeout=60) as client,
        Worker(mortal.url, tag, lambda event: None, lease=60) as worker,
    ):
        await settled(client, (await client.publish(tags=tag)).id)
        await asyncio.to_thread(mortal.stop)
        publishing = asyncio.create_task(client.publish(tags=tag))
        await asyncio.to_thread(mortal.start)
        await settled(client, (await publishing).id)
    assert (worker.numbers.completed, worker.numbers.lost) == (2, 0)
