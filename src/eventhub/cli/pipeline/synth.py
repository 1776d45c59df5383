"""``eventhub pipeline synth``: a made-up history, to look at, to try things on and to measure with."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from eventhub.cli.asking import confirmed
from eventhub.cli.options import Common, open_named
from eventhub.cli.output import console, document, duration, plain
from eventhub.cli.progress import bar
from eventhub.cli.times import since
from eventhub.errors import SettingsError
from eventhub.store.opening import shown
from eventhub.store.values import EventFilter

if TYPE_CHECKING:
    from eventhub.config import Settings
    from eventhub.pipeline.synth import Made

__all__ = ["synth"]

MOST_EVENTS: Final = 1_000_000_000
MOST_SUBSCRIBERS: Final = 100
MOST_DAYS: Final = 3650.0


def synth(
    *,
    events: Annotated[
        float, Parameter(help="How many, such as 1e6; each leaves somewhat more than three entries in the log.")
    ] = 100_000,
    days: Annotated[float, Parameter(help="How long the history is.")] = 7.0,
    until: Annotated[
        str | None,
        Parameter(help="When it ends: a time, or how long ago; by default the last full hour.", show_default=False),
    ] = None,
    subscribers: Annotated[
        int, Parameter(help="How many subscribers get messages; they are made, paused, if they are not there.")
    ] = 3,
    fail: Annotated[float, Parameter(help="How many of all attempts fail, from 0 to 0.5.")] = 0.05,
    seed: Annotated[int, Parameter(help="Which history: the same seed gives the same one.")] = 0,
    yes: Annotated[bool, Parameter(help="Do not ask, whatever the hub has.", negative="")] = False,
    common: Common | None = None,
) -> int:
    """Fill a hub with a made-up history: events of a shop with all that happened to them, settled to the last.

    There are types common and rare, quiet nights, hot ordering keys, retries, workers that were lost, webhooks, and
    dead letters that wait for somebody. Do not do this to a hub that is used in earnest: one whose events do not look
    made up is asked about first.
    """
    common = common or Common()
    _check(events, days, subscribers, fail)
    now = datetime.now(UTC)
    end = now.replace(minute=0, second=0, microsecond=0) if until is None else since("until", until, now)
    settings = common.load_for_database().settings
    if not 0 <= seed < MOST_EVENTS:
        raise SettingsError(f"--seed is {seed}; give a number from 0 to {MOST_EVENTS - 1:,}.")
    if settings.db == ":memory:":
        raise SettingsError("A history in memory is gone at once; name a database with --db.")
    question = f"{shown(settings.db)} has events. Mix made-up ones with them?"
    if asyncio.run(_in_earnest(settings)) and not yes and not confirmed(question, "synth"):
        console(stderr=True).print("Nothing was made.")
        return 1
    made = _made(settings.db, int(events), days=days, until=end, subscribers=subscribers, fail=fail, seed=seed)
    if common.json:
        document(made)
        return 0
    console().print(
        plain(
            f"{made.events:,} events, {made.entries:,} entries of the log, {made.messages:,} messages, "
            f"{made.dead:,} dead letters, in {duration(made.seconds)}."
        )
    )
    return 0


def _check(events: float, days: float, subscribers: int, fail: float) -> None:
    if not 1 <= events <= MOST_EVENTS or events != int(events):
        raise SettingsError(f"--events is {events:g}; give a whole number from 1 to {MOST_EVENTS:,}, such as 1e6.")
    if not 0 < days <= MOST_DAYS:
        raise SettingsError(f"--days is {days:g}; give more than 0, at most {MOST_DAYS:.0f}.")
    if not 0 <= subscribers <= MOST_SUBSCRIBERS:
        raise SettingsError(f"--subscribers is {subscribers}; give 0 to {MOST_SUBSCRIBERS}.")
    if not 0 <= fail <= 0.5:  # noqa: PLR2004 - as it is said
        raise SettingsError(f"--fail is {fail:g}; give a share from 0 to 0.5.")


async def _in_earnest(settings: Settings) -> bool:
    """Whether the hub has events and they do not look made up: nobody would tell them apart later. Makes its tables."""
    from eventhub.pipeline.synth import looks_made_up

    async with open_named(settings) as store:
        newest = await store.events(EventFilter(limit=1))
        return bool(newest) and not await looks_made_up(store, newest[0])


def _made(url: str, events: int, *, days: float, until: datetime, subscribers: int, fail: float, seed: int) -> Made:
    from eventhub.pipeline.synth import synthesize

    with bar("events", events) as advance:
        return synthesize(
            url, events, until=until, seed=seed, days=days, subscribers=subscribers, fail=fail, tell=advance
        )
