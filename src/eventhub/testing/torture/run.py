"""A run: a real hub and its users as processes, harmed by seed for a while; then healed, drained and judged.

start ─▶ harm (kills, stops, crashes, bad networks) ─▶ heal ─▶ drain ─▶ gather evidence ─▶ verdict
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, Literal

import msgspec

from eventhub.core.events import Status
from eventhub.errors import SettingsError, StoreError
from eventhub.secret_file import read_or_create
from eventhub.store import Store, open_store
from eventhub.testing.postgres_cluster import PostgresCluster
from eventhub.testing.torture.checker import Verdict, check
from eventhub.testing.torture.children import Nursery
from eventhub.testing.torture.crew import Crew, Stage, all_at_work, cast, free_ports, subscribe
from eventhub.testing.torture.draining import drained
from eventhub.testing.torture.evidence import Facts, gather_from
from eventhub.testing.torture.faults import KILLS, possible
from eventhub.testing.torture.harm import WAYS, Harm, Line, background
from eventhub.testing.torture.place import DATABASE, database_at, file_of, lines_to, own_server
from eventhub.testing.torture.roles.pipeline import copy_the_rest
from eventhub.testing.torture.roles.publisher import ENOUGH

__all__ = ["EVIDENCE", "Progress", "Result", "RunSettings", "torture"]

Engine = Literal["sqlite", "postgres"]
EVIDENCE: Final = "evidence.db"
LONGEST_ERRORS: Final = 2000
DRAIN_SECONDS: Final = 150.0
"""A message whose dispatcher is gone without a trace waits for its lease, which is a minute, and then for its turn."""
MOST_OPEN: Final = 4000
METRICS: Final = ("eventhub_dlq_size", "eventhub_pending_messages")
LOOK_EVERY: Final = 1.0
LOOK_SHARE: Final = 20
"""Counting takes at most one part in so many of the time."""


class RunSettings(msgspec.Struct, kw_only=True):
    """What is asked of a run. ``url`` is a PostgreSQL database that exists; its server is then left alone."""

    engine: Engine
    directory: Path
    seconds: float = 300.0
    seed: int = 1
    kills: int = 200
    faults: frozenset[str] | None = None
    url: str | None = None
    pace: float = 2.0
    packages: tuple[str, ...] = ()
    plant: str | None = None
    """For tests: a function, ``module:function``, that each process calls first, to break something on purpose."""


class Progress(msgspec.Struct):
    """How it stands."""

    phase: str
    seconds: float
    events: int = 0
    settled: int = 0
    kills: int = 0
    harms: int = 0
    now: tuple[str, ...] = ()


Told = Callable[[Progress], None]


class Result(msgspec.Struct, kw_only=True):
    """The verdict, and what broke the run off, if something did."""

    verdict: Verdict
    evidence: str
    incomplete: str | None = None
    interrupted: bool = False

    @property
    def clean(self) -> bool:
        return self.verdict.clean and self.incomplete is None


class _Run:
    """Everything that is there while a run goes on."""

    def __init__(self, settings: RunSettings, store: Store, crew: Crew, harm: Harm, told: Told) -> None:
        self.settings, self.store, self.crew, self.harm = settings, store, crew, harm
        self.faults = _faults(settings)
        self.incomplete: str | None = None
        self.interrupted = False
        self._told, self._began = told, time.monotonic()
        self._progress = Progress("starting", 0.0)

    async def go(self) -> Facts:
        """All of it, up to the drain; returns what is to be known about it.

        Whatever breaks it off is one of the facts: what there is can still be judged, but it is never clean.
        """
        facts: Facts = {}
        try:
            facts = await self._from_start_to_drain()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - all of them are told
            self.interrupted = _go_on_after(error)
            self.incomplete = "it was interrupted" if self.interrupted else _words(error)
            facts = {"incomplete": self.incomplete}
        await self.crew.nursery.end_all()
        errors = self.crew.nursery.errors()[-LONGEST_ERRORS:]
        return {
            "seed": self.settings.seed,
            "seconds": self.settings.seconds,
            "faults": ",".join(sorted(self.faults)),
            "errors": errors,
            **facts,
        }

    async def _from_start_to_drain(self) -> Facts:
        await self.crew.start_all()
        await all_at_work(self.crew)
        async with background(self._look()):
            async with background(self.crew.watch()):
                await self._harm()
                await self._heal()
                drain = await self._drain()
                metrics = await self._metrics()
            await self.crew.end("worker", "server", "pipeline")
            await self.crew.end("receiver")
        return {"drain.seconds": drain, "drain.bound": DRAIN_SECONDS, **metrics}

    async def _harm(self) -> None:
        self._progress.phase = "harming"
        ways = [self.harm.again_and_again(name) for name in WAYS if name in self.faults]
        roles = tuple(role for name, role in KILLS.items() if name in self.faults)
        async with background(*ways):
            began = time.monotonic()
            if roles and self.settings.kills:
                await self.harm.kill(self.settings.kills, self.settings.seconds, roles)
            await asyncio.sleep(max(0.0, began + self.settings.seconds - time.monotonic()))

    async def _heal(self) -> None:
        self._progress.phase = "healing"
        self.crew.nursery.orders.note("heal")
        await self.crew.behave()
        await self.crew.end("publisher")

    async def _drain(self) -> float:
        """Until nothing is open, or the time is up: then the evidence says what is."""
        self._progress.phase = "draining"
        began = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._drained()
        return time.monotonic() - began

    async def _drained(self) -> None:
        while True:
            try:
                await drained(self.store, seconds=DRAIN_SECONDS)
            except StoreError:  # a connection that was lost before the healing
                await asyncio.sleep(LOOK_EVERY)
            else:
                return

    async def _metrics(self) -> dict[str, int]:
        """What a server tells Prometheus now; nobody asked it before, so it has to look."""
        await all_at_work(self.crew)
        address = ("127.0.0.1", self.crew.slots["server-a"].arguments["port"])
        text = await asyncio.to_thread(_fetch, *address)
        told = (line.split() for line in text.splitlines() if not line.startswith("#"))
        return {f"metric.{name}": int(float(value)) for name, value, *_ in told if name in METRICS}

    async def _look(self) -> None:
        """Tell how it stands, again and again."""
        rest = LOOK_EVERY
        while True:
            began = time.monotonic()
            try:
                depths = [queue.depth for queue in await self.store.stats()]
            except StoreError:
                depths = []
            took = time.monotonic() - began
            progress = self._progress
            if depths:
                progress.events = sum(sum(depth.values()) for depth in depths)
                still = sum(depth[status] for depth in depths for status in (Status.PENDING, Status.PROCESSING))
                progress.settled = progress.events - still
                self._hold_back(still)
            progress.seconds = time.monotonic() - self._began
            progress.kills = self.crew.kills
            progress.harms = sum(hits for name, hits in self.harm.done.items() if name not in KILLS)
            progress.now = tuple(self.harm.now)
            self._told(progress)
            rest = max(LOOK_EVERY, LOOK_SHARE * took)
            await asyncio.sleep(rest)

    def _hold_back(self, still: int) -> None:
        """Publishers wait while more is open than can soon be done: a slow machine is no fault."""
        enough = self.settings.directory / ENOUGH
        if still > MOST_OPEN:
            enough.touch()
        elif still < MOST_OPEN // 2:
            enough.unlink(missing_ok=True)

    def tell(self, phase: str) -> None:
        self._progress.phase, self._progress.now = phase, ()
        self._progress.seconds = time.monotonic() - self._began
        self._told(self._progress)


async def torture(settings: RunSettings, told: Told = lambda _: None) -> Result:
    """A whole run. What it leaves in its directory is enough to judge it again."""
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)  # it warns of a server that is away, as it has to be
    if any(settings.directory.glob("*.jsonl")):
        raise SettingsError(f"{settings.directory} has the histories of another run; give another --directory.")
    async with AsyncExitStack() as stack:
        cluster = own_server(stack) if settings.engine == "postgres" and settings.url is None else None
        stage, lines, more = await _stage(settings, cluster, stack)
        store = await stack.enter_async_context(open_store(stage.url))
        await subscribe(store, stage)
        nursery = stack.enter_context(Nursery(settings.directory, packages=settings.packages, plant=settings.plant))
        crew = Crew(nursery, cast(stage), settings.seed)
        harm = Harm(crew, store, seed=settings.seed, lines=lines, cluster=cluster, database=DATABASE)
        stack.callback(harm.close)
        run = _Run(settings, store, crew, harm, told)
        facts = {**more, **await run.go()}
        evidence = await _gathered(run, stage, facts)
        run.tell("judging")
        verdict = await asyncio.to_thread(check, evidence)
        return Result(verdict=verdict, evidence=str(evidence), incomplete=run.incomplete, interrupted=run.interrupted)


async def _gathered(run: _Run, stage: Stage, facts: Facts) -> Path:
    evidence = run.settings.directory / EVIDENCE
    if stage.lake is not None and run.incomplete is None:
        run.tell("copying the rest to the lake")
        await copy_the_rest(stage.url, stage.lake)
    run.tell("gathering evidence")
    try:
        await gather_from(run.store, run.settings.directory, evidence, lake=stage.lake, facts=facts)
    except StoreError as error:
        if run.incomplete is None:
            raise
        raise StoreError(f"The run broke off ({run.incomplete}), and its store cannot be read: {error}") from error
    return evidence


def _faults(settings: RunSettings) -> frozenset[str]:
    """What is done in this run; without kills, none that kills."""
    known = possible(settings.engine, server=settings.url is None) if settings.faults is None else settings.faults
    return known if settings.kills else known - set(KILLS)


async def _stage(
    settings: RunSettings, cluster: PostgresCluster | None, stack: AsyncExitStack
) -> tuple[Stage, list[Line], Facts]:
    """Where it takes place, the lines that may be bad, and what is to be known about both."""
    first, second, receiver = free_ports(3)
    lines = await lines_to((first, second), stack)
    servers = (f"http://127.0.0.1:{lines[0].proxy.port}", f"http://127.0.0.1:{lines[1].proxy.port}")
    if cluster is not None:
        database = await database_at(cluster.url(DATABASE), cluster.tcp_url(DATABASE), lines, stack)
    elif settings.url is not None:
        database = await database_at(settings.url, settings.url, lines, stack)
    else:
        database = file_of(settings.directory)
    settings.directory.mkdir(parents=True, exist_ok=True)
    secret = settings.directory / "secret"
    read_or_create(secret)
    stage = Stage(
        engine=settings.engine,
        url=database.url,
        lossy_url=database.lossy_url,
        seed=settings.seed,
        secret=secret,
        server_ports=(first, second),
        lossy_servers=servers,
        receiver_port=receiver,
        lake=settings.directory / "lake" if importlib.util.find_spec("deltalake") else None,
        evil="evil-receiver" in _faults(settings),
        pace=settings.pace,
    )
    parts = "work,messages" if stage.lake is None else "work,messages,lake"
    return stage, lines, {"parts": parts, "network": database.network, "clock.skew": database.skew}


def _go_on_after(error: BaseException) -> bool:
    """Whether somebody told us to stop; what is left to do is done nevertheless."""
    task = asyncio.current_task()
    if not isinstance(error, asyncio.CancelledError) or task is None:
        return False
    task.uncancel()
    return True


def _words(error: BaseException) -> str:
    """The first of several errors says what it was; the others came of it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def _fetch(host: str, port: int) -> str:
    connection = HTTPConnection(host, port, timeout=DRAIN_SECONDS)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()
