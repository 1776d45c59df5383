"""Everybody who takes part in a run, as processes: whoever is killed is replaced, and nobody may die by himself."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from eventhub.core.subscribers import Subscriber
from eventhub.errors import SettingsError
from eventhub.hub import Hub
from eventhub.store import Store
from eventhub.testing.torture.children import Child, Nursery, until

__all__ = ["Crew", "Slot", "Stage", "cast", "subscribe"]

STARTING_SECONDS: Final = 60.0
ENDING_SECONDS: Final = 45.0
WATCH_SECONDS: Final = 0.1
LONGEST_ABSENCE: Final = 0.3
MOST_DEATHS: Final = 20
CHANCES: Final = {"success": 0.95, "transient": 0.035, "permanent": 0.01, "slow": 0.005}
PORTS: Final = range(20_000, 32_000)
"""Below those that are given to outgoing connections, on Linux and elsewhere."""


class Stage(msgspec.Struct, kw_only=True):
    """Where a run takes place. Addresses with ``lossy`` in their names lead through a network that may be bad."""

    engine: str
    url: str
    lossy_url: str
    seed: int
    secret: Path
    server_ports: tuple[int, int]
    lossy_servers: tuple[str, str]
    receiver_port: int
    lake: Path | None
    evil: bool
    pace: float = 1.0
    """How fast publishers are: twice as fast with 2."""


class Slot(msgspec.Struct, frozen=True):
    """A part in a run: its role, and what each process that plays it is told."""

    name: str
    role: str
    arguments: dict[str, Any]
    lease: float = 0.0


def cast(stage: Stage) -> list[Slot]:
    return [*_publishers(stage), *_workers(stage), *_servers(stage), *_others(stage)]


def _publishers(stage: Stage) -> Iterator[Slot]:
    def publisher(name: str, way: str, *sizes: int, pause: float, url: str = stage.url) -> Slot:
        told = {"way": way, "url": url, "server": stage.lossy_servers[0], "sizes": sizes, "pause": pause / stage.pace}
        return Slot(f"publisher-{name}", "publisher", {**told, "seed": stage.seed})

    yield publisher("a", "queue", 1, 20, 60, 100, pause=0.4)
    yield publisher("b", "queue", 1, 1, 3, 50, pause=0.2, url=stage.lossy_url)
    yield publisher("c", "hub", 1, 3, 10, 20, pause=0.4)
    yield publisher("d", "http", 1, 1, 10, 30, pause=0.3)


def _workers(stage: Stage) -> Iterator[Slot]:
    def worker(name: str, style: str, lease: float, url: str = "", **more: Any) -> Slot:
        common = {"seed": stage.seed, "chances": CHANCES, "longest": 0.004, "batch": 30, "shutdown_timeout": 5.0}
        told = {"style": style, "lease": lease, "url": url or stage.url, **common, **more}
        return Slot(f"worker-{name}", "worker", told, lease)

    yield worker("a", "manager", 2.0, concurrency=20)
    yield worker("b", "manager", 1.5, stage.lossy_url, concurrency=20)
    yield worker("c", "bare", 3.0)
    yield worker("d", "bare", 1.5, stage.lossy_url)
    yield worker("e", "http", 2.0, server=stage.lossy_servers[1], concurrency=20)


def _servers(stage: Stage) -> Iterator[Slot]:
    """On PostgreSQL the roles of the hub are spread over processes; on SQLite each server has all of them."""
    first, second = stage.server_ports
    parts = {"server-a": (first, "all"), "server-b": (second, "all")}
    if stage.engine == "postgres":
        parts = {
            "server-a": (first, "api"),
            "server-b": (second, "api,fanout,janitor"),
            "hub-a": (0, "dispatcher"),
            "hub-b": (0, "dispatcher,fanout"),
        }
    for name, (port, roles) in parts.items():
        url = stage.lossy_url if name == "hub-b" else stage.url
        yield Slot(name, "server", {"url": url, "secret": str(stage.secret), "port": port, "roles": roles})


def _others(stage: Stage) -> Iterator[Slot]:
    told = {"port": stage.receiver_port, "seed": stage.seed, "evil": stage.evil, "ordered": ("/ordered", "/hasty")}
    yield Slot("receiver-a", "receiver", told)
    if stage.lake is not None:
        yield Slot("pipeline-a", "pipeline", {"url": stage.lossy_url, "lake": str(stage.lake), "interval": 2.0})


async def subscribe(store: Store, stage: Stage) -> None:
    """Subscribers with and without order, one that gives up soon, and one that wants each message at most once."""
    book = Hub(store, secret=stage.secret, allow_private=["127.0.0.0/8"], roles=()).subscribers
    patient = (0.05,) * 30
    for name, fields in {
        "ordered": {"ordering_key": "ordering_key", "retry_backoff_seconds": patient},
        "plain": {"retry_backoff_seconds": patient},
        "hasty": {"ordering_key": "payload.key", "retry_backoff_seconds": (0.1, 0.2)},
        "once": {"guarantee": "at_most_once"},
    }.items():
        url = f"http://127.0.0.1:{stage.receiver_port}/{name}"
        common: dict[str, Any] = {"event_type": "torture.*", "format": "ce-binary", "timeout_seconds": 2.0}
        await book.create(Subscriber(name=name, url=url, **common, **fields))  # type: ignore[arg-type]


class Crew:
    """One process a slot. Who ends without having been told to is written down, for the checker to judge."""

    def __init__(self, nursery: Nursery, slots: list[Slot], seed: int) -> None:
        self.nursery = nursery
        self.slots = {slot.name: slot for slot in slots}
        self.children: dict[str, Child] = {}
        self.kills = 0
        self.poison = 0
        """Events that end the process of whoever handles them."""
        self._deaths = 0
        self._busy: set[str] = set()
        self._chance = random.Random(f"{seed}/crew")

    def start(self, name: str) -> None:
        slot = self.slots[name]
        self.children[name] = self.nursery.spawn(slot.role, name, **slot.arguments)

    async def start_all(self) -> None:
        """Servers and receivers first, so that the others find them."""
        names = sorted(self.slots, key=lambda name: self.slots[name].role not in ("server", "receiver"))
        for name in names:
            self.start(name)

    def free(self, *roles: str) -> list[str]:
        """Those in whose life nobody else is meddling; of some roles, or all."""
        return [
            name for name in self.children if name not in self._busy and (not roles or self.slots[name].role in roles)
        ]

    @contextmanager
    def mine(self, name: str) -> Iterator[Child]:
        """Nobody else harms this one meanwhile; if it is dead at the end, it has a successor."""
        self._busy.add(name)
        try:
            yield self.children[name]
        finally:
            self._busy.discard(name)
            self._replace(name)

    async def kill(self, name: str) -> bool:
        """Whether it was alive."""
        with self.mine(name) as child:
            if not child.kill():
                return False
            self.kills += 1
            await child.ended(STARTING_SECONDS)
            await asyncio.sleep(self._chance.uniform(0, LONGEST_ABSENCE))
            return True

    async def watch(self) -> None:
        """Replace whoever ends by himself."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for name in self.free():
                self._replace(name)

    def _replace(self, name: str) -> None:
        if not self.children[name].alive:
            if not self.children[name].told_to_end:
                self._mourn(name)
            self.start(name)

    def _mourn(self, name: str) -> None:
        """Handlers of poison end their process, which the checker can tell; if others die, nothing can be learnt."""
        self.nursery.orders.note("died", worker=self.children[name].process)
        self._deaths += not (self.poison and self.slots[name].role == "worker")
        if self._deaths > MOST_DEATHS:
            raise RuntimeError(f"Processes cannot live here. The last errors:\n{self.nursery.errors()[-2000:]}")

    async def end(self, *roles: str) -> None:
        """Ask all of these roles to end; they do what they owe and go."""
        leaving = [self.children.pop(name) for name in self.free(*roles)]
        for child in leaving:
            child.send(signal.SIGTERM)
        for child in leaving:
            await self.see_off(child)

    async def see_off(self, child: Child) -> None:
        """Wait for the end of one who was asked to end; whoever does not is written down and killed."""
        try:
            await child.ended(ENDING_SECONDS)
        except AssertionError as error:
            self.nursery.orders.note("stuck", worker=child.process, error=str(error))
            child.kill()
            await child.ended()

    async def behave(self) -> None:
        """Receivers answer well from now on, also those that are starting, and those to come."""
        for slot in self.slots.values():
            if slot.role == "receiver":
                slot.arguments["evil"] = False
        for name, child in self.children.items():
            if self.slots[name].role == "receiver":
                child.send(signal.SIGUSR2)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that the kernel gives to nobody who connects.

    Else whoever connects again and again to a server that is away may get its very port, and be connected to himself.
    """
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise SettingsError(f"There are no {count} free ports from {PORTS.start} to {PORTS.stop - 1}.")


async def all_at_work(crew: Crew) -> None:
    """Servers and receivers answer."""

    def listening() -> bool:
        ports = [slot.arguments.get("port") for slot in crew.slots.values()]
        return all(_answers(port) for port in ports if port)

    await until(listening, STARTING_SECONDS, "servers that answer")


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
