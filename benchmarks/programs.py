"""What the programs of this folder share: where they write, how they are asked, and how they tell how far they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec

from benchmarks.comparing.systems import ROOT

if TYPE_CHECKING:
    import argparse

__all__ = ["RESULTS", "add_places", "names", "teller", "write_json"]

RESULTS: Final = ROOT / "benchmarks" / "results"


def names(text: str) -> tuple[str, ...]:
    """Those of a text with commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def add_places(parser: argparse.ArgumentParser) -> None:
    """Where it is measured, and where the results go."""
    parser.add_argument("--db", help="a PostgreSQL server of your own, by URL; else a private one is started")
    parser.add_argument("--directory", type=Path, help="where SQLite files go; else a temporary directory")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to write")


def teller(about: str) -> Callable[[str], None]:
    """Tells on standard error, with the time since now."""
    started = monotonic()

    def tell(words: str) -> None:
        minutes, seconds = divmod(int(monotonic() - started), 60)
        print(f"{minutes:3d}:{seconds:02d}  {about:<9}{words}", file=sys.stderr, flush=True)

    return tell


def write_json(value: Any, file: Path) -> None:
    """For programs and people; makes the directory."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
