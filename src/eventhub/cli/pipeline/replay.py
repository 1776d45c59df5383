"""``eventhub pipeline replay``: events of the lake are published again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

from cyclopts import Group, Parameter

from eventhub.cli.options import open_existing
from eventhub.cli.output import console, document, duration, plain, table
from eventhub.cli.pipeline.options import SparkOptions, needs_spark
from eventhub.cli.progress import waiting
from eventhub.cli.times import since as moment_of
from eventhub.errors import SettingsError
from eventhub.store.audit import Act

if TYPE_CHECKING:
    from eventhub.config import Settings
    from eventhub.pipeline.replaying import Chosen, Replayed

__all__ = ["replay"]


CHOICE = Group("Which events", sort_key=10)


@Parameter(name="*", group=CHOICE)
@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which events; everything that is given must fit."""

    since: Annotated[str | None, Parameter(help="From this time on: a time, or how long ago.")] = None
    until: Annotated[str | None, Parameter(help="From before this time.")] = None
    types: Annotated[str | None, Parameter(help="Of these types, with commas.")] = None
    tags: Annotated[str | None, Parameter(help="With any of these tags, with commas.")] = None
    where: Annotated[str | None, Parameter(help="That meet this condition on their columns, in Spark's SQL.")] = None
    ids: Annotated[str | None, Parameter(help="With these ids, with commas.")] = None

    def chosen(self) -> Chosen:
        from eventhub.pipeline.replaying import Chosen

        now = datetime.now(UTC)
        numbers = _parts(self.ids)
        if not all(part.isascii() and part.isdigit() for part in numbers):
            raise SettingsError(f"--ids is {str(self.ids)[:40]!r}; give ids of events with commas.")
        return Chosen(
            since=None if self.since is None else moment_of("since", self.since, now),
            until=None if self.until is None else moment_of("until", self.until, now),
            types=_parts(self.types),
            tags=_parts(self.tags),
            where=self.where,
            ids=tuple(int(part) for part in numbers),
        )


def replay(
    *,
    choice: Choice | None = None,
    to_subscriber: Annotated[
        str | None, Parameter(help="Send them to this subscriber alone, in the order of the events.")
    ] = None,
    rate: Annotated[float | None, Parameter(help="Publish at most so many events a second.")] = None,
    name: Annotated[
        str | None, Parameter(help="The name of the replay: under the same name it is completed, not repeated.")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Only count what would be replayed, by type.", negative="")] = False,
    options: SparkOptions | None = None,
) -> None:
    """Publish events of the lake again, as new ones with the old one's id as replay_of in their metadata."""
    options = options or SparkOptions()
    if rate is not None and not 0 < rate < float("inf"):
        raise SettingsError(f"--rate is {rate}; give more than 0 events a second.")
    settings = options.load_for_database().settings
    if settings.db == ":memory:":
        raise SettingsError("A database in memory cannot be shared with Spark's tasks; give a file with --db.")
    subscriber = asyncio.run(_subscriber(settings, to_subscriber))
    needs_spark()
    from eventhub.lake.place import Lake
    from eventhub.pipeline.java_process import lost_java_reported, stopping
    from eventhub.pipeline.replaying import Order, check_lake, check_name, count
    from eventhub.pipeline.replaying import replay as run

    chosen = (choice or Choice()).chosen()
    called = check_name(name or f"replay-{uuid4().hex[:12]}")
    lake = Lake(settings.lake)
    asyncio.run(check_lake(settings.db, lake))
    with waiting("Starting Spark", quiet=options.json):
        spark = options.session()
    with stopping(spark), lost_java_reported():
        with waiting("Counting the events", quiet=options.json):
            counts = count(spark, lake, chosen, called)
        if dry_run:
            _print_counts(counts, called, json=options.json)
            return
        if not options.json:
            total = f"{sum(counts.values()):,} events as the replay {called}"
            console(stderr=True).print(plain(f"{total}; the same --name completes it if it is interrupted."))
        order = Order(
            url=settings.db,
            name=called,
            subscriber=subscriber,
            work_queue=settings.work_queue,
            max_retries=settings.max_retries,
        )
        asyncio.run(_record(settings, called, sum(counts.values()), subscriber))
        began = time.monotonic()
        with waiting(f"Publishing {sum(counts.values()):,} events", quiet=options.json):
            done = run(spark, lake, chosen, order, rate=rate)
        _print_done(done, called, time.monotonic() - began, json=options.json)


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


async def _subscriber(settings: Settings, name: str | None) -> int | None:
    async with open_existing(settings) as store:
        if name is None:
            return None
        _, rows = await store.subscribers()
    found = [row.id for row in rows if row.name == name]
    if not found:
        known = ", ".join(row.name for row in rows[:10]) or "none"
        raise SettingsError(f"--to-subscriber is {name!r}, and there is no such subscriber. There are: {known}.")
    return found[0]


async def _record(settings: Settings, name: str, events: int, subscriber: int | None) -> None:
    """Before the first event: who interrupts a replay has begun it all the same."""
    async with open_existing(settings) as store:
        act = Act("history.replay", None, {"name": name, "events": events, "subscriber": subscriber})
        await store.record_act(act)


def _print_counts(counts: Mapping[str, int], name: str, *, json: bool) -> None:
    total = sum(counts.values())
    if json:
        document({"name": name, "dry_run": True, "events": total, "types": counts})
        return
    rows = table("type", "events", numbers=("events",))
    for kind, number in counts.items():
        rows.add_row(plain(kind), f"{number:,}")
    rows.add_section()
    rows.add_row("all", f"{total:,}")
    console().print(rows)


def _print_done(done: Replayed, name: str, seconds: float, *, json: bool) -> None:
    if json:
        document({"name": name, "events": done.events, "duplicates": done.duplicates, "seconds": round(seconds, 3)})
        return
    before = f", {done.duplicates:,} of them before" if done.duplicates else ""
    console().print(plain(f"{name}: {done.events:,} events published{before}, in {duration(seconds)}."))
