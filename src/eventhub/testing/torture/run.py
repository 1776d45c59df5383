"""A run: a real hub and its users as processes, harmed by seed for a while; then healed, drained and judged.

start ─▶ harm (kills, stops, crashes, bad networks) ─▶ heal ─▶ drain ─▶ gather evidence ─▶ verdict
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec

from eventhub.core.events import Status
from eventhub.errors import SettingsError, StoreError
from eventhub.secret_file import read_or_create
from eventhub.store import Store, open_store
from eventhub.testing.postgres_cluster import PostgresCluster, PostgresError
from eventhub.testing.torture.checker import Verdict, check
from eventhub.testing.torture.children import Nursery
from eventhub.testing.torture.crew import IN_FLIGHT, Crew, Stage, all_at_work, cast, free_ports, subscribe
from eventhub.testing.torture.draining import drained
from eventhub.testing.torture.evidence import gather_from
from eventhub.testing.torture.faults import KILLS, possible
from eventhub.testing.torture.harm import COMMIT, POST, WAYS, Harm, background
from eventhub.testing.torture.proxy import Proxy
from eventhub.testing.torture.roles.pipeline import copy_the_rest
from eventhub.testing.torture.roles.publisher import ENOUGH

__all__ = ["EVIDENCE", "Progress", "Result", "RunSettings", "torture"]

Engine = Literal["sqlite", "postgres"]
EVIDENCE: Final = "evidence.db"
DATABASE: Final = "torture"
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
    """The verdict, and what else a run shows: processes that ended by themselves, or wrote errors."""

    verdict: Verdict
    evidence: str
    deaths: list[str]
    errors: str
    faults: dict[str, int]

    @property
    def clean(self) -> bool:
        return self.verdict.clean and not self.deaths and not self.errors


class _Run:
    """Everything that is there while a run goes on."""

    def __init__(self, settings: RunSettings, store: Store, crew: Crew, harm: Harm, told: Told) -> None:
        self.settings, self.store, self.crew, self.harm = settings, store, crew, harm
        self.faults = _faults(settings)
        self._told, self._began = told, time.monotonic()
        self._progress = Progress("starting", 0.0)

    async def go(self) -> dict[str, str | int | float]:
        """All of it, up to the drain; returns what there is to be known about it."""
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
            return {
                "seed": self.settings.seed,
                "seconds": self.settings.seconds,
                "faults": ",".join(sorted(self.faults)),
                "in_flight": IN_FLIGHT,
                "drain.seconds": drain,
                "drain.bound": DRAIN_SECONDS,
                **{f"fault.{name}": count for name, count in self.harm.done.items()},
                **metrics,
            }

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
        await self.crew.behave()
        await self.crew.end("publisher")

    async def _drain(self) -> float:
        self._progress.phase = "draining"
        began = time.monotonic()
        while True:
            try:
                await drained(self.store, seconds=DRAIN_SECONDS)
            except TimeoutError:
                pass  # the evidence will say what is open
            except StoreError:  # a connection that was lost before the healing
                continue
            return time.monotonic() - began

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
            progress.kills, progress.harms = self.crew.kills, sum(self.harm.done.values())
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
    settings.directory.mkdir(parents=True, exist_ok=True)
    if any(settings.directory.glob("*.jsonl")):
        raise SettingsError(f"{settings.directory} has the histories of another run; give another --directory.")
    async with AsyncExitStack() as stack:
        cluster = _cluster(settings, stack)
        stage, proxies = await _stage(settings, cluster, stack)
        store = await stack.enter_async_context(open_store(stage.url))
        if await store.last_event():
            raise SettingsError(f"{store.name} has events already; a run needs a database of its own, which is empty.")
        await subscribe(store, stage)
        nursery = stack.enter_context(Nursery(settings.directory, packages=settings.packages, plant=settings.plant))
        crew = Crew(nursery, cast(stage), settings.seed)
        harm = Harm(crew, store, seed=settings.seed, proxies=proxies, cluster=cluster, database=DATABASE)
        stack.callback(harm.close)
        run = _Run(settings, store, crew, harm, told)
        facts = await run.go()
        if stage.lake is not None:
            run.tell("copying the rest to the lake")
            await copy_the_rest(stage.url, stage.lake)
        run.tell("gathering evidence")
        evidence = settings.directory / EVIDENCE
        await gather_from(store, settings.directory, evidence, lake=stage.lake, facts=facts)
        run.tell("judging")
        verdict = await asyncio.to_thread(check, evidence)
        return Result(
            verdict=verdict, evidence=str(evidence), deaths=crew.deaths, errors=nursery.errors(), faults=harm.done
        )


def _faults(settings: RunSettings) -> frozenset[str]:
    return possible(settings.engine, server=settings.url is None) if settings.faults is None else settings.faults


def _cluster(settings: RunSettings, stack: AsyncExitStack) -> PostgresCluster | None:
    if settings.engine == "sqlite" or settings.url is not None:
        return None
    try:
        cluster = stack.enter_context(PostgresCluster(tcp=True, fsync=True, max_connections=200))
    except PostgresError as error:
        raise SettingsError(f"{error} Or give --db with the URL of an empty database.") from error
    cluster.create_database(DATABASE)
    return cluster


async def _stage(
    settings: RunSettings, cluster: PostgresCluster | None, stack: AsyncExitStack
) -> tuple[Stage, list[tuple[Proxy, bytes]]]:
    first, second, receiver = free_ports(3)
    proxies = [(await stack.enter_async_context(Proxy(port)), POST) for port in (first, second)]
    lossy_servers = tuple(f"http://127.0.0.1:{proxy.port}" for proxy, _ in proxies)
    url = lossy_url = settings.url or str(settings.directory.absolute() / "hub.db")
    if cluster is not None and cluster.port is not None:
        url, proxy = cluster.url(DATABASE), await stack.enter_async_context(Proxy(cluster.port))
        lossy_url = cluster.tcp_url(DATABASE).replace(f":{cluster.port}/", f":{proxy.port}/")
        proxies.append((proxy, COMMIT))
    elif settings.url is not None and (port := urlsplit(settings.url).port) and _is_here(settings.url):
        proxy = await stack.enter_async_context(Proxy(port))
        lossy_url = settings.url.replace(f":{port}", f":{proxy.port}", 1)
        proxies.append((proxy, COMMIT))
    secret = settings.directory / "secret"
    read_or_create(secret)
    stage = Stage(
        engine=settings.engine,
        url=url,
        lossy_url=lossy_url,
        seed=settings.seed,
        secret=secret,
        server_ports=(first, second),
        lossy_servers=(lossy_servers[0], lossy_servers[1]),
        receiver_port=receiver,
        lake=settings.directory / "lake" if importlib.util.find_spec("deltalake") else None,
        evil="evil-receiver" in _faults(settings),
        pace=settings.pace,
    )
    return stage, proxies


def _fetch(host: str, port: int) -> str:
    connection = HTTPConnection(host, port, timeout=DRAIN_SECONDS)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def _is_here(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost")
