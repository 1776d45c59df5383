"""Measure what an event costs when there is more of everything: `python -m benchmarks.growth --help`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Final, get_args

import msgspec

from benchmarks.comparing.systems import ROOT
from benchmarks.growing.lines import plot
from benchmarks.growing.results import Grown
from benchmarks.growing.settings import CURVES, Curve, Settings
from benchmarks.growing.tables import markdown
from benchmarks.growing.walking import walk
from eventhub.bench.databases import Databases, PostgresDatabases, SqliteDatabases
from eventhub.bench.settings import Engine

RESULTS: Final = ROOT / "benchmarks" / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    engines: tuple[Engine, ...] = get_args(Engine) if options.engine == "both" else (options.engine,)
    try:
        settings = Settings(
            events=options.events,
            messages=options.messages,
            walks=options.walks,
            only=tuple(_names(options.only)) or CURVES,
            sizes=tuple(int(size.replace("_", "")) for size in _names(options.sizes)),
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
    started = monotonic()

    def tell(words: str) -> None:
        minutes, seconds = divmod(int(monotonic() - started), 60)
        print(f"{minutes:3d}:{seconds:02d}  {engine:<9}{words}", file=sys.stderr, flush=True)

    databases: Databases = SqliteDatabases(options.directory) if engine == "sqlite" else PostgresDatabases(options.db)
    async with databases:
        async for grown in walk(curve, databases, settings, tell=tell):
            write(grown, options.results)  # after each walk: a long run that is cut short has told something


def write(grown: Grown, directory: Path) -> None:
    """The JSON, the table and the plot."""
    directory.mkdir(parents=True, exist_ok=True)
    name = _name(grown.curve, grown.engine)
    text = msgspec.json.format(msgspec.json.encode(grown), indent=2)
    (directory / f"{name}.json").write_bytes(text + b"\n")
    (directory / f"{name}.md").write_text(markdown(grown), encoding="utf-8")
    (directory / f"{name}.svg").write_text(plot(grown), encoding="utf-8")


def _name(curve: Curve, engine: Engine) -> str:
    return f"growth-{curve}-{engine}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parser() -> argparse.ArgumentParser:
    usual = Settings()
    parser = argparse.ArgumentParser(prog="make bench-growth", description=__doc__)
    parser.add_argument("--engine", choices=[*get_args(Engine), "both"], default="both")
    parser.add_argument("--only", default="", help=f"curves, with commas: {', '.join(CURVES)}")
    parser.add_argument("--sizes", default="", help="other sizes for the one curve of --only, with commas")
    parser.add_argument("--events", type=int, default=usual.events, help="events of one visit of a size")
    parser.add_argument("--messages", type=int, default=usual.messages, help="messages of one visit, for subscribers")
    parser.add_argument("--walks", type=int, default=usual.walks, help="how often from small to large and back")
    parser.add_argument("--db", help="a PostgreSQL server of your own, by URL; else a private one is started")
    parser.add_argument("--directory", type=Path, help="where SQLite files go; else a temporary directory")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
