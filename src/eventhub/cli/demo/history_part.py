"""Part 7: the history of this very demo – Spark copies it, makes tables of it, and a report tells what was in it."""

from __future__ import annotations

import re
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventhub.cli.demo.commands import run

if TYPE_CHECKING:
    from eventhub.cli.demo.stage import Stage
    from eventhub.cli.demo.tally import Sum

__all__ = ["SHORT", "History", "has_spark", "play"]

SHORT: Final = ("--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""For Java: a history of some thousand rows is done before the best code for it is found, in half the time."""

_STEP: Final = re.compile(r" in [0-9.,]+ (ms|s|min|h)$")
"""How a line of the pipeline ends that tells of a step; Java has words of its own there."""


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What the lake knows, and what is wrong with that."""

    seconds: float
    published: int
    attempts: int
    dead: int
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    report: str
    problems: list[str]


def has_spark() -> bool:
    return all(find_spec(name) is not None for name in ("pyspark", "pyarrow", "deltalake"))


async def play(stage: Stage, directory: Path, sum_: Sum) -> History:
    """Runs the two commands as anybody would; the figures must be those of the database."""
    stage.narrator.chapter(
        "7. The history, on Spark",
        "The hub is stopped; its history stays. Two commands make tables and a report of it:",
    )
    began = time.monotonic()
    lake = ("--lake", "lake")
    stage.narrator.command("eventhub pipeline run --lake lake")
    with stage.narrator.waiting("Spark starts, copies the history and makes tables of it: half a minute …"):
        told = await run("pipeline", "run", *lake, *SHORT, db=stage.store.url, cwd=directory, tell=_steps(stage))
    stage.narrator.good(told.strip())
    stage.narrator.command("eventhub pipeline report --lake lake")
    written = await run("pipeline", "report", *lake, "--json", db=stage.store.url, cwd=directory)
    total: dict[str, Any] = msgspec.json.decode(written)["total"]
    counts = total["counts"]
    history = History(
        seconds=time.monotonic() - began,
        published=counts["published"],
        attempts=counts["attempts"],
        dead=counts["dead"],
        latency_p50_ms=total["latency_p50"],
        latency_p99_ms=total["latency_p99"],
        report=str(directory / "report.html"),
        problems=list(_compared(counts, sum_)),
    )
    for problem in history.problems:
        stage.narrator.bad(problem)
    if not history.problems:
        own = history.published - sum_.published
        stage.narrator.good(
            f"The report has {history.published:,} events, {history.attempts:,} attempts and {history.dead} dead "
            "letter: the figures of the database"
        )
        if own:
            stage.narrator.note(f"{own} of these events is the hub's own, about a message that had died")
    return history


def _steps(stage: Stage) -> Any:
    def tell(line: str) -> None:
        if _STEP.search(line):
            stage.narrator.note(line)

    return tell


def _compared(counts: dict[str, int], sum_: Sum) -> list[str]:
    expected = {"published": sum_.events, "dead": sum_.dead}
    return [
        f"The report has {counts[name]:,} {name}, the database {number:,}."
        for name, number in expected.items()
        if counts[name] != number
    ]
