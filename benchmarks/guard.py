"""Record how near Event Hub comes to the bare driver: `python -m benchmarks.guard --help`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import msgspec

from benchmarks.comparing.rounds import load, now
from benchmarks.guarding.ratios import RECORD, Ratios, Record, measure, read, throughout
from benchmarks.guarding.slices import SLICES
from eventhub._version import __version__
from eventhub.bench.figures import Spread
from eventhub.bench.machine import machine_facts
from eventhub.bench.settings import Engine
from eventhub.testing.postgres_cluster import PostgresCluster

PAIRS = 25


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    before = read(options.record) if options.record.exists() else None
    with PostgresCluster() as cluster:
        record = asyncio.run(_measure(cluster.url(), options.pairs, before))
    if options.dry_run:
        return 0
    text = msgspec.json.format(msgspec.json.encode(record), indent=2)
    options.record.write_bytes(text + b"\n")
    print(f"Recorded in {options.record}. tests/bench/test_guard.py holds every change against it.")
    return 0


async def _measure(server: str, pairs: int, before: Record | None) -> Record:
    facts, busy = machine_facts({}), load()
    ratios: dict[Engine, dict[str, Ratios]] = {}
    for engine in get_args(Engine):
        ratios[engine] = {}
        async with throughout(engine, server) as databases:
            for workload in SLICES:
                found = ratios[engine][workload] = await measure(databases, workload, pairs=pairs)
                known = before.ratios.get(engine, {}).get(workload) if before else None
                told = [f"{name} {_shown(found, name)}{_was(known, name)}" for name in ("cost", "rate")]
                print(f"{engine:<9}{workload:<14}{'  '.join(told)}", flush=True)
    machine = f"{facts.cores} cores, {facts.system}, {facts.python}"
    return Record(recorded=now(), eventhub=__version__, machine=machine, load=busy, ratios=ratios)


def _shown(ratios: Ratios, name: str) -> str:
    found: Spread = getattr(ratios, name)
    return f"{found.median:.3f} ({found.low:.3f}–{found.high:.3f})"


def _was(known: Ratios | None, name: str) -> str:
    return f", was {getattr(known, name).median:.3f}" if known else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-guard", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="slices of both sides for one ratio")
    parser.add_argument("--dry-run", action="store_true", help="only show the ratios beside those on record")
    parser.add_argument("--record", type=Path, default=RECORD, help="where the record is")
    return parser


if __name__ == "__main__":
    sys.exit(main())
