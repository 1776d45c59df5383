"""Part 5: a worker process that is really killed in the middle of a job, and another worker that takes the job over."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eventhub.cli.demo.commands import ended
from eventhub.cli.demo.stage import DemoError
from eventhub.cli.output import plain, table
from eventhub.client import ClaimedEvent, Client, LogRow, Worker
from eventhub.core.events import Action, Status

if TYPE_CHECKING:
    from rich.table import Table

    from eventhub.cli.demo.stage import Stage

__all__ = ["play"]

START_SECONDS: Final = 30.0
TAG: Final = "report"


async def play(stage: Stage) -> None:
    stage.narrator.chapter(
        "5. A worker dies in the middle of its job",
        "A worker process takes a job for two seconds. We kill it (SIGKILL: it cannot say goodbye).",
    )
    async with Client(stage.hub) as client:
        report = await client.publish(title="Monthly report", tags=TAG, payload={"month": "2026-01"})
        stage.book("reports", [report.id])
        await _kill_a_worker(stage, report.id)

        async def write_report(event: ClaimedEvent) -> None:
            stage.handled.add(event.id)
            stage.narrator.good(f"another worker took over event {event.id}, attempt {event.attempt}, and finished it")

        with stage.narrator.waiting("Waiting for the job to be taken over …"):
            async with Worker(stage.hub, TAG, write_report, worker_id="reporter-2"):
                await stage.settled(report.id, status=Status.COMPLETED)
        entries = (await client.event(report.id, logs=True)).logs
    stage.narrator.say("Its whole life is in the log (eventhub events show ID --log):")
    stage.narrator.show(_log_table(entries))
    actions = [entry.action for entry in entries]
    stage.expect(
        "The job was begun twice and finished once: at least once, never lost",
        kept=actions.count(Action.PICKED) == 2 and actions.count(Action.COMPLETED) == 1,  # noqa: PLR2004
    )
    stage.taken_over += actions.count(Action.ABANDONED)


async def _kill_a_worker(stage: Stage, event_id: int) -> None:
    worker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "eventhub.cli.demo.worker",
        stage.hub,
        TAG,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
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
        await ended(worker)


async def _first_line(worker: asyncio.subprocess.Process) -> str:
    assert worker.stdout is not None  # noqa: S101 - it is a pipe
    return (await worker.stdout.readline()).decode().strip()


def _log_table(entries: Sequence[LogRow]) -> Table:
    began = entries[0].created_at
    rows = table("after", "action", "attempt", "worker", numbers=("after", "attempt"))
    for entry in entries:
        after = (entry.created_at - began).total_seconds()
        attempt = "" if entry.attempt is None else str(entry.attempt)
        rows.add_row(f"{after:.2f} s", entry.action, attempt, plain(entry.worker_id))
    return rows
