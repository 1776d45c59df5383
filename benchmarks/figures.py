"""Fill the tables of the documentation from benchmarks/results: `python -m benchmarks.figures`, or `--check`.

<!-- figures: postgres -->      a name of TABLES
…                               what stands here is written by this script, from the JSON of the last run
<!-- end of figures -->
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.comparing.systems import ROOT
from benchmarks.programs import RESULTS
from benchmarks.telling.growth import growth
from benchmarks.telling.peers import ahead, both, days, every, held, standing

PAGES: Final = (ROOT / "README.md", ROOT / "docs" / "explanation" / "performance.md")
BLOCK: Final = re.compile(r"(<!-- figures: (?P<name>[\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)

Table = Callable[[Path], str]
"""Markdown from the results of a directory; nothing, if what it needs was not measured yet."""
TABLES: Final[dict[str, tuple[Table, str]]] = {
    "standing": (standing, "make bench-peers"),
    "both": (both, 'make bench-peers ARGS="--engine both"'),
    "ahead-postgres": (ahead("postgres"), 'make bench-peers ARGS="--engine postgres"'),
    "ahead-sqlite": (ahead("sqlite"), 'make bench-peers ARGS="--engine sqlite"'),
    "postgres": (every("postgres"), 'make bench-peers ARGS="--engine postgres"'),
    "sqlite": (every("sqlite"), 'make bench-peers ARGS="--engine sqlite"'),
    "webhooks": (every("webhooks"), 'make bench-peers ARGS="--engine webhooks"'),
    "spark": (every("spark"), 'make bench-peers ARGS="--engine spark"'),
    "held": (held, 'make bench-peers ARGS="--engine postgres"'),
    "days": (days, "make bench-peers"),
    "growth": (growth, "make bench-growth"),
}


def filled(text: str, results: Path = RESULTS) -> str:
    """The page with its tables as the results say; what is around them stays."""

    def fill(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in TABLES:
            raise ValueError(f"There are no figures {name!r}; there are {', '.join(TABLES)}.")
        table, command = TABLES[name]
        words = table(results) or f"Not measured on a quiet machine yet; `{command}` writes what belongs here."
        return f"{found[1]}\n{words}\n\n{found[3]}"

    return BLOCK.sub(fill, text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-figures", description="Fill tables of the documentation.")
    parser.add_argument("--check", action="store_true", help="change nothing; say which pages would change")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the results are")
    options = parser.parse_args(arguments)
    changed = []
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = filled(before, options.results)
        if after != before:
            changed.append(str(page.relative_to(ROOT)))
            if not options.check:
                page.write_text(after, encoding="utf-8")
    if changed:
        print(f"{'Out of date' if options.check else 'Filled'}: {', '.join(changed)}")
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
