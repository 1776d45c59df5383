"""Compare Event Hub with its peers on this machine: `python -m benchmarks.compare --help`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from benchmarks.comparing.databases import EmptyPostgres, EmptySqlite
from benchmarks.comparing.plots import plots
from benchmarks.comparing.results import Result
from benchmarks.comparing.running import run
from benchmarks.comparing.settings import ENGINES, Engine, Settings, chosen
from benchmarks.comparing.systems import ROOT, System, systems_of
from benchmarks.comparing.tables import markdown

RESULTS: Final = ROOT / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    engines: tuple[Engine, ...] = ENGINES if options.engine == "both" else (options.engine,)
    try:
        settings = Settings(
            rounds=options.rounds,
            events=options.events,
            backlog=options.backlog,
            held_seconds=options.held_seconds,
            drain_seconds=options.drain_seconds,
            latencies=options.latencies,
            keys=options.keys,
            only=_names(options.only),
            systems=_names(options.systems),
        )
        chosen_systems = {engine: _systems(engine, settings) for engine in engines}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for engine, systems in chosen_systems.items():
        if systems:
            asyncio.run(_compare(engine, systems, settings, options))
            print((options.results / f"{engine}.md").read_text(encoding="utf-8"))
    return 0


def _systems(engine: Engine, settings: Settings) -> list[System]:
    known = systems_of(engine)
    every = [system.name for one in ENGINES for system in systems_of(one)]
    wanted = [name for name in settings.systems if name in {system.name for system in known}]
    chosen(settings.systems, every, "system")
    found = [system for system in known if not settings.systems or system.name in wanted]
    absent = [system.name for system in found if not system.installed]
    if absent:
        raise ValueError(f"Not installed: {', '.join(absent)}. Run benchmarks/setup, or choose others with --systems.")
    return found


async def _compare(engine: Engine, systems: list[System], settings: Settings, options: argparse.Namespace) -> None:
    started = monotonic()

    def tell(words: str) -> None:
        minutes, seconds = divmod(int(monotonic() - started), 60)
        print(f"{minutes:3d}:{seconds:02d}  {engine:<9}{words}", file=sys.stderr, flush=True)

    options.results.mkdir(parents=True, exist_ok=True)
    places = EmptyPostgres(options.db) if engine == "postgres" else EmptySqlite(options.directory)
    with (options.results / f"{engine}.log").open("wb") as log:
        async with places:
            async for result in run(engine, places, systems, settings, log=log.fileno(), tell=tell):
                write(result, options.results)  # after each round: a long run that is cut short has told something


def write(result: Result, directory: Path) -> None:
    """The JSON, the tables and a plot for each workload."""
    directory.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(result), indent=2)
    (directory / f"{result.engine}.json").write_bytes(text + b"\n")
    (directory / f"{result.engine}.md").write_text(markdown(result), encoding="utf-8")
    for name, drawing in plots(result).items():
        (directory / f"{result.engine}-{name}.svg").write_text(drawing, encoding="utf-8")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parser() -> argparse.ArgumentParser:
    usual = Settings()
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--engine", choices=[*ENGINES, "both"], default="both")
    parser.add_argument("--systems", default="", help="names with commas; all when there are none")
    parser.add_argument("--only", default="", help="workloads by name or beginning, with commas")
    parser.add_argument("--rounds", type=int, default=usual.rounds)
    parser.add_argument("--events", type=int, default=usual.events, help="events to drain and to publish in batches")
    parser.add_argument(
        "--backlog", type=int, default=usual.backlog, help="events behind those drained; 0: not measured"
    )
    parser.add_argument("--held-seconds", type=float, default=usual.held_seconds, help="how long a snapshot is held")
    parser.add_argument(
        "--drain-seconds", type=float, default=usual.drain_seconds, help="the longest drain of the slow"
    )
    parser.add_argument("--latencies", type=int, default=usual.latencies, help="events of one latency measurement")
    parser.add_argument("--keys", type=int, default=usual.keys, help="ordering keys")
    parser.add_argument("--db", help="a PostgreSQL server of your own, by URL; else a private one is started")
    parser.add_argument("--directory", type=Path, help="where SQLite files go; else a temporary directory")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
