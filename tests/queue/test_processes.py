"""Real processes on one queue: every event is acquired exactly once."""

import asyncio
import multiprocessing
from collections.abc import Callable
from typing import Any

import pytest

from eventhub.core.events import Status
from eventhub.queue import EventManager, EventQueue

SPAWN = multiprocessing.get_context("spawn")
PROCESSES = 8


async def drain_by_polling(url: str, start: Callable[[], Any]) -> list[int]:
    """Poll one, then a handful, until nothing is left; finalize everything."""
    taken: list[int] = []
    async with EventQueue(url) as queue:
        start()
        while (event := await queue.poll()) is not None:
            several = [event, *await queue.poll_many(20)]
            taken += [event.id for event in several]
            await queue.finalize_many(several, success=True)
    return taken


async def drain_by_manager(url: str, start: Callable[[], Any]) -> list[int]:
    taken: list[int] = []
    async with EventQueue(url) as queue:
        manager = EventManager(queue)
        manager.register("take", "n", lambda event: taken.append(event.id), inline=True)
        start()
        await manager.run_until_empty()
    return taken


def work(drain: Any, url: str, barrier: Any, answers: Any) -> None:
    def start() -> None:
        barrier.wait(60)

    answers.put(asyncio.run(drain(url, start)))


@pytest.mark.parametrize(("drain", "events"), [(drain_by_polling, 10_000), (drain_by_manager, 10_000)])
async def test_eight_processes_acquire_every_event_exactly_once(postgres_url, drain, events):
    async with EventQueue(postgres_url) as queue:
        ids = await queue.publish_many({"type": "n", "payload": n} for n in range(events))
        taken = await asyncio.to_thread(run_all, drain, postgres_url)
        acquired = [event_id for mine in taken for event_id in mine]
        assert len(acquired) == len(set(acquired)) == events
        assert sorted(acquired) == ids
        assert (await queue.stats()).depth[Status.COMPLETED] == events


@pytest.mark.parametrize("drain", [drain_by_polling, drain_by_manager])
async def test_processes_share_one_file(sqlite_path, drain):
    async with EventQueue(sqlite_path) as queue:
        ids = await queue.publish_many({"type": "n", "payload": n} for n in range(2000))
        taken = await asyncio.to_thread(run_all, drain, str(sqlite_path), processes=3)
        assert sorted(event_id for mine in taken for event_id in mine) == ids


def run_all(drain: Any, url: str, processes: int = PROCESSES) -> list[list[int]]:
    barrier, answers = SPAWN.Barrier(processes), SPAWN.Queue()
    running = [SPAWN.Process(target=work, args=(drain, url, barrier, answers)) for _ in range(processes)]
    for process in running:
        process.start()
    taken = [answers.get(timeout=90) for _ in running]
    for process in running:
        process.join(30)
    assert [process.exitcode for process in running] == [0] * processes
    return taken
