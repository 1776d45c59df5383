"""Part 3: a worker process that is really killed in the middle of a job, and another one that takes the job over."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from eventhub.cli.demo.stage import DemoError
from eventhub.cli.output import plain, table
from eventhub.core.events import Action, LogEntry, QueuedEvent, Status
from eventhub.queue import EventManager, EventQueue

if TYPE_CHECKING:
    from rich.table import Table

    from eventhub.cli.demo.stage import Stage

__all__ = ["play"]

START_SECONDS = 30.0


async def play(stage: Stage) -> None:
    stage.narrator.chapter(
        "3. A worker dies in the middle of its job",
        "A second process takes a job from the queue. We kill it (SIGKILL: it cannot say goodbye).",
    )
    name = stage.queue("reports")
    queue = EventQueue(stage.store, queue=name, abandoned_after=5.0)
    report = await queue.publish("report.monthly", {"month": "2026-01"})
    stage.book(name, [report.id])
    await _kill_a_worker(stage, name, report.id)

    manager = EventManager(queue)

    @manager.on("report.*")
    async def write_report(event: QueuedEvent) -> None:
        stage.handled.add(event.id)
        stage.narrator.good(f"this process took over event {event.id}, attempt {event.attempts}, and finished it")

    with stage.narrator.waiting("Waiting for the job to be taken over …"):
        async with manager:
            await stage.settled(report.id, status=Status.COMPLETED)
    await queue.close()
    entries = await stage.store.log(report.id)
    stage.narrator.say("Its whole life is in the log (eventhub events show ID --log):")
    stage.narrator.show(_log_table(entries))
    actions = [entry.action for entry in entries]
    stage.expect(
        "The job was begun twice and finished once: at least once, never lost",
        kept=actions.count(Action.PICKED) == 2 and actions.count(Action.COMPLETED) == 1,  # noqa: PLR2004
    )


async def _kill_a_worker(stage: Stage, queue: str, event_id: int) -> None:
    # The URL may hold a password, and arguments are for everyone to see.
    environment = {**os.environ, "EVENTHUB_DB": stage.store.url}
    command = (sys.executable, "-m", "eventhub.cli.demo.worker", queue)
    worker = await asyncio.create_subprocess_exec(
        *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    try:
        with stage.narrator.waiting("Starting a worker process …"):
            line = await asyncio.wait_for(_first_line(worker), START_SECONDS)
        if line != f"working on {event_id}":
            raise DemoError(f"The worker process said {line!r} and not that it works on event {event_id}.")
        stage.narrator.note(f"process {worker.pid} is {line}")
        worker.kill()
        code = await worker.wait()
        stage.narrator.bad(f"process {worker.pid} is dead ({signal.Signals(-code).name})")
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()


async def _first_line(worker: asyncio.subprocess.Process) -> str:
    assert worker.stdout is not None  # noqa: S101 - it is a pipe
    return (await worker.stdout.readline()).decode().strip()


def _log_table(entries: list[LogEntry]) -> Table:
    began = entries[0].created_at
    rows = table("after", "action", "attempt", "worker", numbers=("after", "attempt"))
    for entry in entries:
        after = (entry.created_at - began).total_seconds()
        attempt = "" if entry.attempt is None else str(entry.attempt)
        rows.add_row(f"{after:.2f} s", entry.action, attempt, plain(entry.worker))
    return rows
