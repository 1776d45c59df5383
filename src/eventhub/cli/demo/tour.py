"""The tour: a hub is started, the parts are played one after the other, and everything is counted at the end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from eventhub.cli.demo import (
    bus_part,
    history_part,
    http_part,
    killed_part,
    queue_part,
    speed_part,
    webhook_part,
)
from eventhub.cli.demo.commands import HubProcess, spelling
from eventhub.cli.demo.history_part import History, has_spark
from eventhub.cli.demo.stage import DemoError, Narrator, Stage
from eventhub.cli.demo.tally import Sum, count
from eventhub.cli.options import open_named
from eventhub.cli.output import document
from eventhub.config import Settings, hide_password
from eventhub.errors import SettingsError
from eventhub.store import Store
from eventhub.store.values import EventFilter

__all__ = ["Tour", "ended_by_signals"]

INTERRUPTED: Final = 130
QUICK_RETRIES: Final = {"retry_seconds": "0.5", "log_level": "warning"}
"""Settings of the demo's hub: nobody wants to watch it wait for five minutes."""


async def ended_by_signals(work: Coroutine[Any, Any, int]) -> int:
    """Its exit code; SIGTERM cancels it, so that what it has started is ended, too."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if (this := asyncio.current_task()) is not None and this.cancelling():
            raise
        return INTERRUPTED


class Tour:
    """One run, in a directory of its own."""

    def __init__(self, settings: Settings, directory: Path, *, events: int, spark: bool, json: bool) -> None:
        self._settings = settings
        self._directory = directory
        self._events = events
        self._spark = spark
        self._json = json
        self._narrator = Narrator(quiet=json)

    async def run(self) -> int:
        """Returns the exit code: 0 when all that was promised is so."""
        self._narrator.opening(hide_password(self._settings.db), str(self._directory))
        async with open_named(self._settings) as store:
            if await store.events(EventFilter(limit=1)):
                raise SettingsError(
                    f"{hide_password(self._settings.db)} has events; the demo wants a database that is empty."
                )
            stage, sum_ = await self._played(store)
            history = await self._history(stage, sum_)
        ok = sum_.ok and (history is None or not history.problems)
        if self._json:
            document(self._told(stage, sum_, history, ok=ok))
        else:
            self._close(stage, sum_, history, ok=ok)
        return 0 if ok else 1

    async def _played(self, store: Store) -> tuple[Stage, Sum]:
        hub = HubProcess(store.url, self._directory, port=0, settings=QUICK_RETRIES)
        async with AsyncExitStack() as stack:
            with self._narrator.waiting("Starting the hub …"):
                await stack.enter_async_context(hub)
            stage = Stage(store, self._narrator, hub=hub.url, hub_pid=hub.pid)
            await bus_part.play(stage)
            await queue_part.play(stage)
            await http_part.play(stage)
            await webhook_part.play(stage)
            await killed_part.play(stage)
            await speed_part.play(stage, events=self._events)
            code = await hub.stop()
        if code:
            raise DemoError(f"The hub ended with exit code {code}; see {hub.log}.")
        with self._narrator.waiting("Adding up what the database says …"):
            sum_ = await count(stage)
        self._narrator.sum_up(sum_)
        return stage, sum_

    async def _history(self, stage: Stage, sum_: Sum) -> History | None:
        if self._spark and has_spark():
            return await history_part.play(stage, self._directory, sum_)
        if self._spark:
            stage.narrator.chapter("7. The history, on Spark")
            stage.narrator.note("Left out: its packages are not here. pip install 'eventhub[spark]' brings them.")
        return None

    def _told(self, stage: Stage, sum_: Sum, history: History | None, *, ok: bool) -> dict[str, Any]:
        return {
            **sum_.to_dict(),
            "ok": ok,
            "duplicates_stopped": stage.duplicates_stopped,
            "came_back": stage.came_back,
            "taken_over": stage.taken_over,
            "publish_per_second": round(stage.publish_rate),
            "drain_per_second": round(stage.drain_rate),
            "history": history,
            "seconds": round(stage.narrator.seconds, 1),
            "directory": str(self._directory),
            "database": hide_password(self._settings.db),
        }

    def _close(self, stage: Stage, sum_: Sum, history: History | None, *, ok: bool) -> None:
        tell, messages = self._narrator, sum_.messages
        tell.chapter("What you have seen")
        tell.say(
            f"{sum_.published:,} events were accepted: {sum_.completed:,} are completed, {sum_.dead} is dead, on "
            f"purpose, {sum_.lost} are lost. {sum_.retried} took more than one attempt."
        )
        tell.say(
            f"{messages.delivered} of {messages.made} webhooks arrived, signed, though the consumer refused "
            f"{stage.webhooks_refused} requests. {stage.came_back} events came back from the dead letter queue, "
            f"{stage.duplicates_stopped} duplicate was stopped, {stage.taken_over} job was taken over from a killed "
            "worker."
        )
        tell.say(
            f"{stage.publish_rate:,.0f} events/s went in and {stage.drain_rate:,.0f} events/s out, "
            "each committed, fenced and logged."
        )
        if history is not None:
            tell.say(
                f"Half of all events were done within {history.latency_p50_ms:,.0f} ms, 99 of 100 within "
                f"{history.latency_p99_ms:,.0f} ms, says the report."
            )
        if ok:
            tell.good(f"All of it is as it must be. It took {tell.seconds:.0f} s.")
        else:
            tell.bad(f"Not all of it is as it must be; see above. It took {tell.seconds:.0f} s.")
        self._where_next(history)

    def _where_next(self, history: History | None) -> None:
        tell, db = self._narrator, hide_password(self._settings.db)
        tell.chapter("Where to look next")
        if history is not None:
            tell.say("The report, in a browser:")
            tell.command(Path(history.report).as_uri())
        tell.say("The database that this made:")
        for command in ("stats", "dlq list", "events list --status FAILED", "subscribers list", "doctor"):
            tell.command(f"{spelling()} --db '{db}' {command}")
        tell.say("A hub with a dashboard to click through, at http://127.0.0.1:8080/:")
        tell.command(f"{spelling()} demo serve        # or: make serve")
