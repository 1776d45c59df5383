"""``eventhub demo serve``: a hub that lives – a week of history, subscribers good and bad, and traffic until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

from eventhub.cli.demo.commands import HubProcess, ended, run, spelling, start
from eventhub.cli.demo.consumer import Consumer
from eventhub.cli.demo.history_part import SHORT, has_spark
from eventhub.cli.demo.stage import Narrator
from eventhub.cli.demo.traffic import answer, keep_house, publish, subscribe, workers
from eventhub.client import Client

__all__ = ["Living"]

DAYS: Final = "7"
COPY_MINUTES: Final = 5
STOP_SECONDS: Final = 2.0
"""That the pipeline has to end a step; whatever is cut short is made again."""
SETTINGS: Final = {
    "retry_seconds": "15",
    "circuit_failures": "5",
    "circuit_seconds": "5",
    "log_level": "error",
}
"""Of the demo's hub: what would take minutes is seen in seconds."""


class Living:
    """One run, in a directory of its own."""

    def __init__(self, directory: Path, *, port: int, events: int, spark: bool) -> None:
        self._directory = directory
        self._db = str(directory / "hub.db")
        self._port = port
        self._events = events
        self._spark = spark and has_spark()
        self._wanted_spark = spark
        self._tell = Narrator(quiet=False)
        self._stop = asyncio.Event()

    async def run(self) -> int:
        """Returns the exit code, when it was told to stop."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        working = asyncio.ensure_future(self._live())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            self._tell.say("Stopping …")
            working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        self._tell.say(f"Stopped. The files are in {self._directory}, until the next time.")
        return 0

    async def _live(self) -> None:
        await self._make_history()
        async with AsyncExitStack() as stack:
            hub = HubProcess(self._db, self._directory, port=self._port, settings=SETTINGS)
            await stack.enter_async_context(hub)
            client = await stack.enter_async_context(Client(hub.url))
            consumer = await stack.enter_async_context(Consumer(answer))
            await subscribe(client, consumer)
            await keep_house(client)
            for worker in workers(hub.url):
                await stack.enter_async_context(worker)
            self._welcome(hub.url)
            lives = [publish(client), hub.watch(), *([self._copy()] if self._spark else [])]
            await _until_one_fails([asyncio.ensure_future(life) for life in lives])

    async def _make_history(self) -> None:
        if not self._spark:
            return
        with self._tell.waiting("Making up a week of history …"):
            arguments = ("--events", str(self._events), "--days", DAYS, "--until", "1m", "--subscribers", "2")
            told = await run("pipeline", "synth", *arguments, db=self._db, cwd=self._directory)
        self._tell.note(f"a made-up week: {told.rpartition(',')[0]}")

    def _welcome(self, url: str) -> None:
        self._tell.chapter("The hub is running")
        self._tell.say("The dashboard, in a browser:")
        self._tell.command(f"{url}/")
        self._tell.say("Orders come in all the time. Workers and consumers take them; some fail, on purpose.")
        self._tell.say("The same from a terminal:")
        for command in ("stats", "subscribers list", "dlq list", "doctor"):
            self._tell.command(f"{spelling()} --db '{self._db}' {command}")
        if self._spark:
            self._tell.note(f"Spark fills the page History in a minute or two, and again every {COPY_MINUTES} minutes")
        elif self._wanted_spark:
            self._tell.note("the page History stays empty: pip install 'eventhub[spark]' brings what fills it")
        self._tell.say("Ctrl-C ends it.")

    async def _copy(self) -> None:
        """The pipeline as a process beside the hub, as one would run it."""
        arguments = ("pipeline", "run", "--lake", "lake", "--continuous", "--interval", f"{COPY_MINUTES}m", "--json")
        with (self._directory / "pipeline.log").open("wb") as log:
            process = await start(*arguments, *SHORT, db=self._db, cwd=self._directory, stderr=log.fileno())
        try:
            assert process.stdout is not None  # noqa: S101 - a pipe
            first = True
            async for _ in process.stdout:
                if first:
                    self._tell.good("the history is in the lake: see the page History")
                first = False
            self._tell.bad(f"the pipeline has ended; {self._directory / 'pipeline.log'} says why")
        finally:
            await ended(process, patience=STOP_SECONDS)


async def _until_one_fails(lives: list[asyncio.Future[None]]) -> None:
    try:
        await asyncio.wait(lives, return_when=asyncio.FIRST_EXCEPTION)
        for life in lives:
            if life.done():
                life.result()
    finally:
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
