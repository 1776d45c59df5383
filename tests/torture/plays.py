"""Short runs with real processes, broken on purpose or not: who takes part, who is harmed, and the verdict."""

import asyncio
import contextlib
import json
import random
import signal
import socket
import time
from pathlib import Path
from typing import Any, Literal

import msgspec

from eventhub.core.events import Status
from eventhub.core.subscribers import Subscriber
from eventhub.errors import StoreError
from eventhub.hub import Hub
from eventhub.secret_file import read_or_create
from eventhub.store import Store, open_store
from eventhub.store.values import EventFilter
from eventhub.testing.postgres_cluster import PostgresCluster
from eventhub.testing.postgres_standby import PostgresStandby
from eventhub.testing.torture.checker import Verdict, check
from eventhub.testing.torture.children import Child, Nursery, until
from eventhub.testing.torture.evidence import gather_from
from eventhub.testing.torture.history import Facts, History

LOCAL = ["127.0.0.0/8"]
LONGEST = 10.0
"""Seconds until the publishers end, whatever has happened."""
STALLED_SECONDS = 2.5
"""When nothing is done for so long, nothing will be: what is open is left open, which the checker finds."""
END_SECONDS = 3.0
MOST_SECONDS = 40.0
LAST = ("worker", "server", "receiver")
"""In this order they end after the publishers; whoever still sends has somebody to send to."""


class Cast(msgspec.Struct, frozen=True, kw_only=True):
    """Who takes part, by name: the role stands before the dash. Some are killed, or asked to end, and replaced."""

    slots: dict[str, Facts]
    events: int = 120
    """It goes on until so many are published."""
    killed: str | None = None
    terminated: str | None = None
    harms: int = 12
    """And until so many were killed, or asked to end."""
    delay: float = 0.05
    """How long they may be at work before, at most, once they have begun or ended something."""
    engine: Literal["sqlite", "postgres"] = "sqlite"
    fails_over: bool = False
    """The database fails over, once half of the events are published, to a standby that lacks the last commits."""


class Play:
    """One performance of a cast, with its own store and histories; the nursery is shared."""

    def __init__(
        self,
        cast: Cast,
        nursery: Nursery,
        *,
        directory: Path,
        url: str,
        plant: str | None,
        seed: int,
        pair: tuple[PostgresCluster, PostgresStandby] | None = None,
    ) -> None:
        self._pair = pair
        self._cast, self._nursery, self._url, self._plant = cast, nursery, url, plant
        self._directory = directory
        self._chance, self._seed = random.Random(seed), seed
        self._orders = History(directory, "orders")
        self._children: dict[str, Child] = {}
        self._lives: dict[str, int] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]

    async def perform(self) -> Verdict:
        async with open_store(self._url) as store:
            try:
                await self._subscribe(store)
                await self._begin()
                await self._harm(store)
                draining = await self._finish(store)
                evidence = self._directory / "evidence.db"
                await gather_from(
                    store, self._directory, evidence, facts={"seed": self._seed, "drain.seconds": draining}
                )
            finally:
                for child in self._children.values():
                    child.send(signal.SIGKILL)
                    child.close()
                self._orders.close()
        return await asyncio.to_thread(check, evidence)  # others go on meanwhile

    async def _subscribe(self, store: Store) -> None:
        """Two subscribers, one of which keeps keys in order."""
        if any(name.startswith("receiver") for name in self._cast.slots):
            hub = Hub(store, secret=read_or_create(self._secret), roles=(), allow_private=LOCAL)
            for path, key in (("/a", "ordering_key"), ("/b", None)):
                url = f"http://127.0.0.1:{self._port}{path}"
                again = (0.1, 0.1, 0.1)
                wanted = Subscriber(
                    name=path[1:],
                    url=url,
                    event_type="torture.*",
                    format="raw",
                    ordering_key=key,
                    retry_backoff_seconds=again,
                )
                await hub.subscribers.create(wanted)

    @property
    def _secret(self) -> Path:
        return self._directory / "secret"

    def _enter(self, name: str) -> None:
        role = name.partition("-")[0]
        life = self._lives[name] = self._lives.get(name, 0) + 1
        arguments: dict[str, Any] = {"process": f"{name}.{life}", "directory": str(self._directory)}
        arguments |= self._cast.slots[name] | {"url": self._url, "seed": self._seed, "secret": str(self._secret)}
        if role == "receiver":
            arguments["port"] = self._port
        request = {"role": role, "arguments": arguments, "plant": self._plant}
        answer = self._nursery._ask(json.dumps(request))
        self._children[name] = Child(arguments["process"], int(answer), self._orders)

    async def _begin(self) -> None:
        """Publishers come last: whoever has much to prepare would find everything there."""
        for name in sorted(self._cast.slots, key=lambda name: name.startswith("publisher")):
            self._enter(name)
            if name.startswith(("server", "receiver")):
                await self._at_work(name)

    async def _harm(self, store: Store) -> None:
        """Until enough has happened, but not for ever: a bug may be that nothing happens."""
        if self._pair is not None:
            await self._fail_over(*self._pair, store)
            return
        end, harms = time.monotonic() + LONGEST, 0
        ways = [(self._cast.killed, Child.kill), (self._cast.terminated, Child.terminate)]
        while time.monotonic() < end:
            for role, way in ways:
                victims = [name for name in self._cast.slots if role is not None and name.startswith(role)]
                if victims:
                    name = self._chance.choice(victims)
                    await self._at_work(name, self._chance.choice((b'"invoke"', b'"ok"')))
                    await asyncio.sleep(self._chance.uniform(0, self._cast.delay))
                    way(self._children[name])
                    await self._children[name].ended()
                    self._enter(name)
                    harms += 1
            enough = harms >= self._cast.harms or not any(role for role, _ in ways)
            if enough and await store.last_event() >= self._cast.events:
                return
            await asyncio.sleep(0.02)

    async def _fail_over(self, primary: PostgresCluster, standby: PostgresStandby, store: Store) -> None:
        """Whatever is done between the last look of the standby and its promotion is lost."""
        await self._published(store, self._cast.events // 2)
        call = self._orders.invoke("fault", [{"worker": "database", "outcome": "failover-with-loss"}])
        await asyncio.to_thread(standby.catch_up)
        await asyncio.to_thread(standby.disconnect)
        await self._published(store, self._cast.events // 4 + await _count(store))
        await asyncio.to_thread(primary.stop, "immediate")
        await asyncio.to_thread(standby.promote)
        call.ok([{"worker": "database", "outcome": "failover-with-loss", "size": 1}])
        await self._published(store, self._cast.events // 2 + await _count(store))

    async def _published(self, store: Store, count: int) -> None:
        end = time.monotonic() + LONGEST
        while await _count(store) < count and time.monotonic() < end:  # noqa: ASYNC110 - others publish
            await asyncio.sleep(0.02)

    async def _at_work(self, name: str, sign: bytes = b"{") -> None:
        """It has written down such a thing, unless it never does."""
        said = self._directory / f"{self._children[name].process}.jsonl"
        with contextlib.suppress(AssertionError):
            await until(lambda: said.exists() and sign in said.read_bytes(), LONGEST, f"{name} at work")

    async def _finish(self, store: Store) -> float:
        await self._leave("publisher")
        draining = await self._drained(store)
        for role in LAST:
            await self._leave(role)
        return draining

    async def _drained(self, store: Store) -> float:
        """Until nothing is open, or nothing moves."""
        began = moved = time.monotonic()
        last = None
        while (state := await _standing(store))[0] and time.monotonic() < min(
            moved + STALLED_SECONDS, began + MOST_SECONDS
        ):
            if state != last:
                last, moved = state, time.monotonic()
            await asyncio.sleep(0.05)
        return time.monotonic() - began

    async def _leave(self, role: str) -> None:
        leaving = [child for name, child in self._children.items() if name.startswith(role)]
        for child in leaving:
            child.terminate()
        for child in leaving:
            try:
                await child.ended(END_SECONDS)
            except (TimeoutError, AssertionError):
                child.kill()
                await child.ended()


async def _count(store: Store) -> int:
    """How many events there are; again, while the database is away."""
    while True:
        try:
            return await store.count_events(EventFilter())
        except StoreError:
            await asyncio.sleep(0.05)


async def _standing(store: Store) -> tuple[int, dict[int, int]]:
    """How many events are open, and how often they were tried."""
    queues = await store.stats()
    left = sum(queue.depth[status] for queue in queues for status in (Status.PENDING, Status.PROCESSING))
    return left, {attempts: count for queue in queues for attempts, count in queue.attempts.items()}
