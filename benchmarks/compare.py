"""Compare Event Hub with its peers on this machine: `python -m benchmarks.compare --help`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.comparing.databases import EmptyPostgres, EmptySqlite
from benchmarks.comparing.faces import SIDES, needed, run_face, sides_of
from benchmarks.comparing.plots import plots
from benchmarks.comparing.results import Result
from benchmarks.comparing.rounds import Tell
from benchmarks.comparing.running import run
from benchmarks.comparing.settings import (
    ENGINES,
    SUBJECTS,
    Engine,
    Face,
    Settings,
    Subject,
    check_names,
    workloads_of,
)
from benchmarks.comparing.systems import System, systems_of
from benchmarks.comparing.tables import markdown
from benchmarks.programs import add_places, names, teller, write_json
from eventhub.errors import SettingsError

EVERYTHING: Final = Settings()
Run = Callable[[argparse.Namespace, Tell], AsyncIterator[Result]]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        settings = Settings(
            rounds=options.rounds,
            events=options.events,
            backlog=options.backlog,
            held_seconds=options.held_seconds,
            drain_seconds=options.drain_seconds,
            sustained_seconds=options.sustained_seconds,
            latencies=options.latencies,
            keys=options.keys,
            history=options.history,
            seed=options.seed,
            only=names(options.only),
            systems=names(options.systems),
        )
        runs = _runs(options.engine, settings)
    except (ValueError, SettingsError) as error:
        print(error, file=sys.stderr)
        return 2
    for subject, rounds in runs.items():
        asyncio.run(_write_all(subject, rounds, options))
        print((options.results / f"{subject}.md").read_text(encoding="utf-8"))
    return 0


def _subjects(engine: str) -> tuple[Subject, ...]:
    if engine == "all":
        return SUBJECTS
    return ENGINES if engine == "both" else tuple(one for one in SUBJECTS if one == engine)


def _runs(engine: str, settings: Settings) -> dict[Subject, Run]:
    """What is to be done; everything that is missing is told before anything is done."""
    every = [system.name for one in ENGINES for system in systems_of(one)]
    check_names(settings.systems, [*every, *(side.name for sides in SIDES.values() for side in sides)], "system")
    subjects = _subjects(engine)
    check_names(settings.only, [name for one in subjects for name in workloads_of(one, EVERYTHING)], "workload")
    runs: dict[Subject, Run] = {}
    for subject in subjects:
        if not workloads_of(subject, settings):
            continue
        if subject == "spark" or subject == "webhooks":  # noqa: PLR1714 - which mypy understands
            if sides_of(subject, settings):
                needed(subject)
                runs[subject] = partial(_face, subject, settings)
        elif systems := _systems(subject, settings):
            runs[subject] = partial(_queues, subject, systems, settings)
    return runs


def _systems(engine: Engine, settings: Settings) -> list[System]:
    found = [one for one in systems_of(engine) if not settings.systems or one.name in settings.systems]
    absent = [system.name for system in found if not system.installed]
    if absent:
        raise ValueError(f"Not installed: {', '.join(absent)}. Run benchmarks/setup, or choose others with --systems.")
    return found


async def _write_all(subject: Subject, rounds: Run, options: argparse.Namespace) -> None:
    options.results.mkdir(parents=True, exist_ok=True)
    async for result in rounds(options, teller(subject)):
        write(result, options.results)  # after each round: a long run that is cut short has told something


async def _queues(
    engine: Engine, systems: list[System], settings: Settings, options: argparse.Namespace, tell: Tell
) -> AsyncIterator[Result]:
    places = EmptyPostgres(options.db) if engine == "postgres" else EmptySqlite(options.directory)
    with (options.results / f"{engine}.log").open("wb") as log:
        async with places:
            async for result in run(engine, places, systems, settings, log=log.fileno(), tell=tell):
                yield result


async def _face(face: Face, settings: Settings, options: argparse.Namespace, tell: Tell) -> AsyncIterator[Result]:
    async for result in run_face(face, settings, db=options.db, tell=tell):
        yield result


def write(result: Result, directory: Path) -> None:
    """The JSON, the tables and a plot for each workload."""
    write_json(result, directory / f"{result.engine}.json")
    (directory / f"{result.engine}.md").write_text(markdown(result), encoding="utf-8")
    for name, drawing in plots(result).items():
        (directory / f"{result.engine}-{name}.svg").write_text(drawing, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    usual = Settings()
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__)
    parser.add_argument("--engine", choices=[*SUBJECTS, "both", "all"], default="all", help="both: the two engines")
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
    parser.add_argument(
        "--sustained-seconds", type=float, default=usual.sustained_seconds,
        help="how long is published and drained at once; 0: not measured",
    )  # fmt: skip
    parser.add_argument("--latencies", type=int, default=usual.latencies, help="events of one latency measurement")
    parser.add_argument("--keys", type=int, default=usual.keys, help="ordering keys")
    parser.add_argument("--history", type=int, default=usual.history, help="events of the history that Spark reads")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of the order in which systems take turns")
    add_places(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
