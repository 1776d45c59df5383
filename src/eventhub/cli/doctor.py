"""``eventhub doctor``: is the database well, are the settings what you think, and what should be done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cyclopts import App

from eventhub._version import __version__
from eventhub.cli.checks import (
    Check,
    Level,
    check_backlog,
    check_clock,
    check_dead,
    check_disk,
    check_durability,
    check_handlers,
    check_incarnation,
    check_python,
    check_stale,
    check_upkeep,
    check_variables,
    check_wakeups,
)
from eventhub.cli.options import Common, open_existing
from eventhub.cli.output import console, document, plain, table
from eventhub.config import Loaded, Settings, unknown_variables
from eventhub.core.events import Status
from eventhub.errors import EventHubError, SettingsError

if TYPE_CHECKING:
    from eventhub.store import Store

__all__ = ["app"]

app = App(name="doctor")

LOOKED_AT: Final = 1000
_STYLES: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.PROBLEM: "bold red"}


@app.default
def doctor(*, common: Common | None = None) -> int:
    """Check the database, versions and settings, and say what to do. The exit code is 1 if there is a problem.

    A trial event is written and rolled back. Tables are brought up to date, as by every command.
    """
    common = common or Common()
    checks = [Check("eventhub", Level.OK, __version__), check_python()]
    loaded: Loaded | None = None
    try:
        loaded = common.load_for_database()
        checks += check_variables(unknown_variables())
        checks += asyncio.run(_examine(loaded))
    except SettingsError as error:
        checks.append(Check("settings", Level.PROBLEM, str(error), "Correct the value where it comes from."))
    problems = sum(check.level is Level.PROBLEM for check in checks)
    if common.json:
        _print_json(checks, loaded)
    else:
        _print(checks, loaded)
    return 1 if problems else 0


async def _examine(loaded: Loaded) -> list[Check]:
    try:
        store = await open_existing(loaded.settings).open()
    except SettingsError:
        raise
    except EventHubError as error:
        return [Check("database", Level.PROBLEM, str(error), "Nothing else can be checked before this works.")]
    try:
        return [check async for check in _look(store, loaded)]
    finally:
        await store.close()


async def _look(store: Store, loaded: Loaded) -> AsyncIterator[Check]:
    facts = await store.describe()
    where = f"{facts['engine']} {facts['version']} at {facts['location']}, {facts['size_bytes'] / 2**20:.1f} MiB"
    yield Check("database", Level.OK, where)
    yield Check("driver", Level.OK, facts["driver"])
    yield Check("tables", Level.OK, f"version {facts['schema']}")
    yield check_incarnation(await store.incarnation())
    skew = timedelta(0)
    try:
        skew = await _trial(store, loaded.settings.work_queue)
    except EventHubError as error:
        yield Check("writing", Level.PROBLEM, str(error), "Events cannot be published before this works.")
    else:
        yield Check("writing", Level.OK, "a trial event was written and rolled back")
        yield check_clock(skew, own_clock=store.engine != "sqlite")
    for check in _settled_facts(store, facts, loaded.settings):
        yield check
    async for check in _work(store, skew):
        yield check


def _settled_facts(store: Store, facts: dict[str, Any], settings: Settings) -> Iterator[Check]:
    yield from check_durability(facts)
    yield from check_upkeep(facts, settings.pool_size, settings.workers)
    yield from check_wakeups(facts)
    if store.engine == "sqlite" and store.url != ":memory:":
        yield from check_disk(Path(store.url))


async def _work(store: Store, skew: timedelta) -> AsyncIterator[Check]:
    from eventhub.store.messages import DeadFilter
    from eventhub.store.values import EventFilter

    working = await store.events(EventFilter(status=Status.PROCESSING, limit=LOOKED_AT))
    now = datetime.now(UTC) + skew  # leases end by the database's clock
    stale = [event for event in working if event.lease_expires_at and event.lease_expires_at < now]
    yield check_stale(len(stale), len(working))
    yield check_dead((await store.dead_letters(DeadFilter(limit=1))).total)
    for check in check_handlers(await store.missing_handlers()):
        yield check
    for check in check_backlog(await store.stats()):
        yield check


async def _trial(store: Store, queue: str) -> timedelta:
    """Write an event as any publisher would and roll it back; returns how far the database's clock is ahead."""
    from eventhub.store.values import NewEvent, Route

    event = NewEvent(type="eventhub.doctor", payload="null", route=Route(queue, type="eventhub.doctor"))
    before = datetime.now(UTC)
    if store.engine == "sqlite":
        from eventhub.store.sqlite.connection import connect, translated

        connection = connect(store.url)
        try:
            with translated(store.url):
                connection.execute("BEGIN IMMEDIATE")
            (published,) = await store.publish([event], connection=connection)
            connection.execute("ROLLBACK")
        finally:
            connection.close()
    else:
        from eventhub.store.postgres.connection import connect as connect_postgres

        session = await connect_postgres(store.url)
        before = datetime.now(UTC)
        trial = session.transaction()
        await trial.start()
        try:
            (published,) = await store.publish([event], connection=session)
        finally:
            await trial.rollback()
            await session.close()
    after = datetime.now(UTC)
    return published.created_at - (before + (after - before) / 2)


def _print_json(checks: list[Check], loaded: Loaded | None) -> None:
    levels = [check.level for check in checks]
    settings = []
    if loaded is not None:
        names = Settings.__struct_fields__
        settings = [{"name": n, "value": loaded.shown(n), "source": loaded.sources[n]} for n in names]
    document(
        {
            "ok": Level.PROBLEM not in levels,
            "problems": levels.count(Level.PROBLEM),
            "warnings": levels.count(Level.WARNING),
            "checks": checks,
            "settings": settings,
        }
    )


def _print(checks: list[Check], loaded: Loaded | None) -> None:
    out = console()
    if loaded is not None:
        rows = table("setting", "value", "from")
        for name in Settings.__struct_fields__:
            rows.add_row(name, plain(str(loaded.shown(name))), plain(loaded.sources[name]))
        out.print(rows)
    rows = table("check", "", "what was found, and what to do")
    for check in checks:
        found = plain(check.detail)
        if check.remedy:
            found.append(f"\n→ {check.remedy}")
        rows.add_row(check.name, f"[{_STYLES[check.level]}]{check.level.upper()}[/]", found)
    out.print(rows)
    levels = [check.level for check in checks]
    problems, warnings = levels.count(Level.PROBLEM), levels.count(Level.WARNING)
    if not problems and not warnings:
        out.print("All is well.")
    else:
        out.print(f"Problems: {problems}, warnings: {warnings}.")
