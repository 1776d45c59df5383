"""Measure what an event costs when there is more of everything: `python -m benchmarks.growth --help`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from benchmarks.growing.lines import plot
from benchmarks.growing.results import Grown
from benchmarks.growing.settings import CURVES, Curve, Settings
from benchmarks.growing.tables import markdown
from benchmarks.growing.walking import walk
from benchmarks.programs import add_places, names, teller, write_json
from eventhub.bench.databases import Databases, PostgresDatabases, SqliteDatabases
from eventhub.bench.settings import Engine


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    engines: tuple[Engine, ...] = get_args(Engine) if options.engine == "both" else (options.engine,)
    try:
        settings = Settings(
            events=options.events,
            messages=options.messages,
            walks=options.walks,
            only=names(options.only) or CURVES,
            sizes=tuple(int(size.replace("_", "")) for size in names(options.sizes)),
        )
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    for engine in engines:
        for curve in settings.curves:
            asyncio.run(_draw(curve, engine, settings, options))
            print((options.results / f"{_name(curve, engine)}.md").read_text(encoding="utf-8"))
    return 0


async def _draw(curve: Curve, engine: Engine, settings: Settings, options: argparse.Namespace) -> None:
    databases: Databases = SqliteDatabases(options.directory) if engine == "sqlite" else PostgresDatabases(options.db)
    async with databases:
        async for grown in walk(curve, databases, settings, tell=teller(engine)):
            write(grown, options.results)  # after each walk: a long run that is cut short has told something


def write(grown: Grown, directory: Path) -> None:
    """The JSON, the table and the plot."""
    name = _name(grown.curve, grown.engine)
    write_json(grown, directory / f"{name}.json")
    (directory / f"{name}.md").write_text(markdown(grown), encoding="utf-8")
    (directory / f"{name}.svg").write_text(plot(grown), encoding="utf-8")


def _name(curve: Curve, engine: Engine) -> str:
    return f"growth-{curve}-{engine}"


def _parser() -> argparse.ArgumentParser:
    usual = Settings()
    parser = argparse.ArgumentParser(prog="make bench-growth", description=__doc__)
    parser.add_argument("--engine", choices=[*get_args(Engine), "both"], default="both")
    parser.add_argument("--only", default="", help=f"curves, with commas: {', '.join(CURVES)}")
    parser.add_argument("--sizes", default="", help="other sizes for the one curve of --only, with commas")
    parser.add_argument("--events", type=int, default=usual.events, help="events of one visit of a size")
    parser.add_argument("--messages", type=int, default=usual.messages, help="messages of one visit, for subscribers")
    parser.add_argument("--walks", type=int, default=usual.walks, help="how often from small to large and back")
    add_places(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
