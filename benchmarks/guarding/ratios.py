"""Ratios to the raw limit: measured in pairs of slices, recorded, and held against the record."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.comparing.systems import ROOT
from benchmarks.guarding.slices import SLICES, Place
from eventhub.bench.databases import Databases, PostgresDatabases, SqliteDatabases
from eventhub.bench.figures import Spread, spread
from eventhub.bench.raw import open_raw
from eventhub.bench.settings import Engine
from eventhub.queue import EventQueue
from eventhub.testing.memory import place_in_memory

__all__ = ["ALLOWED", "RECORD", "Record", "fallen", "ratio", "read", "recorded", "throughout"]

RECORD: Final = ROOT / "benchmarks" / "guard.json"
ALLOWED: Final = 0.75
"""What must be left of a recorded ratio."""
ATTEMPTS: Final = (5, 9, 15)
"""Pairs of slices before a ratio counts as fallen: noise passes, what is slower stays slower."""
ROOM: Final = 1 << 30


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Ratios by engine and workload, and on what they were measured."""

    recorded: str
    eventhub: str
    machine: str
    load: float
    ratios: dict[Engine, dict[str, Spread]]


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


async def ratio(databases: Databases, workload: str, *, pairs: int = ATTEMPTS[0]) -> Spread:
    """Ours by the bare driver's, pair by pair; who begins takes turns. The first pair only warms up."""
    ours, raw = SLICES[workload]
    found: list[float] = []
    async with (
        databases.fresh() as url,
        EventQueue(url) as queue,
        open_raw(databases.engine, url) as driver,
    ):
        place = Place(databases.engine, queue, driver)
        for number in range(pairs + 1):
            if number % 2:
                mine = await ours(place)
                limit = await raw(place)
            else:
                limit = await raw(place)
                mine = await ours(place)
            found.append(mine / limit)
    return spread(found[1:])


async def fallen(databases: Databases, workload: str, known: Spread) -> list[float]:
    """What was measured, if it was too little every time; nothing, if the ratio is held."""
    seen: list[float] = []
    for pairs in ATTEMPTS:
        seen.append((await ratio(databases, workload, pairs=pairs)).median)
        if seen[-1] >= ALLOWED * known.median:
            return []
    return seen


def recorded(record: Record) -> Sequence[tuple[Engine, str]]:
    return [(engine, workload) for engine, ratios in record.ratios.items() for workload in ratios]


def read(path: Path = RECORD) -> Record:
    return msgspec.json.decode(path.read_bytes(), type=Record)
