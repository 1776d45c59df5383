"""Ratios to the raw limit: measured in pairs of slices, recorded, and held against the record.

Two of them: `cost` compares what both had of the cores, which a busy machine changes little; `rate` compares how fast
both were, which also sees work that waits, and is judged with more patience because it sees the machine as well.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.comparing.systems import ROOT
from benchmarks.guarding.meter import Taken, open_meter
from benchmarks.guarding.slices import SLICES, Place
from eventhub.bench.databases import Databases, PostgresDatabases, SqliteDatabases
from eventhub.bench.figures import Spread, spread
from eventhub.bench.raw import open_raw
from eventhub.bench.settings import Engine
from eventhub.queue import EventQueue
from eventhub.testing.memory import place_in_memory

__all__ = ["ATTEMPTS", "RECORD", "Ratios", "Record", "fallen", "held", "measure", "read", "recorded", "throughout"]

RECORD: Final = ROOT / "benchmarks" / "guard.json"
COST_ALLOWED: Final = 0.75
"""What must be left of a recorded ratio of costs."""
RATE_ALLOWED: Final = 0.6
ATTEMPTS: Final = (5, 9, 15)
"""Pairs of slices before a ratio counts as fallen: noise passes, what is slower stays slower."""
ROOM: Final = 1 << 30


class Ratios(msgspec.Struct, frozen=True):
    """The bare driver's cost by ours, and our rate by the driver's: for both, 1 would be the limit."""

    cost: Spread
    rate: Spread


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Ratios by engine and workload, and on what they were measured."""

    recorded: str
    eventhub: str
    machine: str
    load: float
    ratios: dict[Engine, dict[str, Ratios]]


@asynccontextmanager
async def throughout(engine: Engine, server: str) -> AsyncIterator[Databases]:
    """Databases in memory: files, or on a PostgreSQL server that waits for no disk."""
    if engine == "postgres":
        async with PostgresDatabases(server) as databases:
            yield databases
    else:
        with tempfile.TemporaryDirectory(prefix="eventhub-guard-", dir=place_in_memory(ROOM)) as directory:
            async with SqliteDatabases(Path(directory)) as databases:
                yield databases


async def measure(databases: Databases, workload: str, *, pairs: int = ATTEMPTS[0]) -> Ratios:
    """Pair by pair; who begins takes turns. The first pair only warms up."""
    ours, raw = SLICES[workload]
    found: list[tuple[Taken, Taken]] = []
    async with (
        databases.fresh() as url,
        EventQueue(url) as queue,
        open_raw(databases.engine, url) as driver,
        open_meter(databases.engine, url) as meter,
    ):
        place = Place(databases.engine, queue, driver, meter)
        for number in range(pairs + 1):
            if number % 2:
                mine, limit = await ours(place), await raw(place)
            else:
                limit, mine = await raw(place), await ours(place)
            found.append((mine, limit))
    return Ratios(
        cost=spread([limit.cpu / mine.cpu for mine, limit in found[1:]]),
        rate=spread([limit.seconds / mine.seconds for mine, limit in found[1:]]),
    )


async def fallen(databases: Databases, workload: str, known: Ratios) -> list[Ratios]:
    """What was measured, if it was too little every time; nothing, if the ratios are held."""
    seen: list[Ratios] = []
    for pairs in ATTEMPTS:
        seen.append(await measure(databases, workload, pairs=pairs))
        if held(seen[-1], known):
            return []
    return seen


def held(now: Ratios, known: Ratios) -> bool:
    return now.cost.median >= COST_ALLOWED * known.cost.median and now.rate.median >= RATE_ALLOWED * known.rate.median


def recorded(record: Record) -> Sequence[tuple[Engine, str]]:
    return [(engine, workload) for engine, ratios in record.ratios.items() for workload in ratios]


def read(path: Path = RECORD) -> Record:
    return msgspec.json.decode(path.read_bytes(), type=Record)
