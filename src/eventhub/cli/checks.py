"""The doctor's knowledge: each check looks at one fact and says whether it is well, and if not, what to do."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from eventhub.cli.output import duration
from eventhub.core.events import Status
from eventhub.store.buses import MissingHandlers
from eventhub.store.incarnations import Incarnation
from eventhub.store.values import QueueStats

__all__ = [
    "Check",
    "Level",
    "check_backlog",
    "check_clock",
    "check_dead",
    "check_disk",
    "check_durability",
    "check_handlers",
    "check_incarnation",
    "check_python",
    "check_stale",
    "check_upkeep",
    "check_variables",
    "check_wakeups",
]

GIB: Final = 1 << 30
MIB: Final = 1 << 20
LITTLE_ROOM: Final = GIB
NO_ROOM: Final = 100 * MIB
LARGE_WAL: Final = 256 * MIB
SKEW: Final = 1.0
LARGE_SKEW: Final = 30.0
OLD_WORK: Final = 3600.0
LISTENING: Final = 1
"""Connections that a process has besides its pool: the one that wake-ups come by."""
FEWEST: Final = 2
"""There is hardly a hub with fewer processes: a server, and this command."""


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(msgspec.Struct, frozen=True):
    """What was looked at, how it is, and what to do about it."""

    name: str
    level: Level
    detail: str
    remedy: str | None = None


def check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    return Check("python", Level.OK, f"Python {version}")


def check_variables(unknown: Mapping[str, str]) -> Iterator[Check]:
    """Variables that nobody reads are most often misspelt."""
    for name, near in unknown.items():
        remedy = f"Did you mean {near}?" if near else "Unset it if it is not meant for something else."
        yield Check("variables", Level.WARNING, f"{name} is not a setting of the hub.", remedy)


def check_durability(facts: Mapping[str, Any]) -> Iterator[Check]:
    """What was acknowledged must survive a power loss."""
    if facts["engine"] == "SQLite":
        mode, synchronous = facts["journal_mode"], facts["synchronous"]
        detail = f"journal mode {mode}, synchronous {synchronous}"
        if synchronous == "NORMAL":
            remedy = "Set synchronous to FULL, unless you can do without the last commits after a power loss."
            yield Check("durability", Level.WARNING, detail, remedy)
        elif mode not in ("wal", "memory"):
            yield Check("durability", Level.PROBLEM, detail, "Keep the file on a local disk and open it again.")
        else:
            yield Check("durability", Level.OK, detail)
        return
    detail = f"fsync {facts['fsync']}, synchronous_commit {facts['synchronous_commit']}"
    if facts["fsync"] != "on":
        remedy = "Set fsync = on in postgresql.conf; without it a power loss can destroy the database."
        yield Check("durability", Level.PROBLEM, detail, remedy)
    elif facts["synchronous_commit"] == "off":
        remedy = "Set synchronous_commit = on; while it is off a crash of the server loses the last commits."
        yield Check("durability", Level.PROBLEM, detail, remedy)
    else:
        yield Check("durability", Level.OK, detail)


def check_upkeep(facts: Mapping[str, Any], pool_size: int, workers: int) -> Iterator[Check]:
    """PostgreSQL must clean up behind a queue, and have connections for all who share it."""
    if "autovacuum" in facts:
        if facts["autovacuum"] == "on":
            yield Check("autovacuum", Level.OK, "on")
        else:
            remedy = "Set autovacuum = on; a queue without it grows slower every day."
            yield Check("autovacuum", Level.PROBLEM, "off", remedy)
    if "max_connections" in facts:
        each, most, wanted = pool_size + LISTENING, int(facts["max_connections"]), max(workers, FEWEST)
        detail = (
            f"a process opens up to {each} (pool_size, and {LISTENING} to listen), the server allows {most}: "
            f"enough for {most // each}"
        )
        if each * wanted > most:
            remedy = f"Lower pool_size or raise max_connections: {wanted} processes would use up more than there are."
            yield Check("connections", Level.WARNING, detail, remedy)
        else:
            yield Check("connections", Level.OK, detail)


def check_wakeups(facts: Mapping[str, Any]) -> Iterator[Check]:
    """Without wake-ups from other processes all works, but new events wait up to half a second."""
    if "wakeups" not in facts:
        return
    through = f"through a pooler in {facts['pooler']} mode; " if facts["pooler"] else ""
    if facts["wakeups"] is None:
        yield Check("wake-ups", Level.OK, f"{through}other processes are woken at once")
    else:
        remedy = "Set listen_url to the URL of the database itself, or pool=session if the pooler keeps sessions."
        detail = f"{through}new events are looked for twice a second: {facts['wakeups']}"
        yield Check("wake-ups", Level.WARNING, detail, remedy)


def check_disk(path: Path) -> Iterator[Check]:
    """Room on the disk of an SQLite file, and the size of its write-ahead log."""
    free = shutil.disk_usage(path.absolute().parent).free
    detail = f"{free / GIB:.1f} GiB free at {path.absolute().parent}"
    if free < NO_ROOM:
        yield Check("disk", Level.PROBLEM, detail, "Free some room: publishing will be refused when it is full.")
    elif free < LITTLE_ROOM:
        yield Check("disk", Level.WARNING, detail, "Free some room before it runs out.")
    else:
        yield Check("disk", Level.OK, detail)
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size if wal.exists() else 0
    if size > LARGE_WAL:
        remedy = "A reader may hold an old snapshot: end long transactions in other programs on this file."
        yield Check("write-ahead log", Level.WARNING, f"{size / MIB:.0f} MiB", remedy)
    else:
        yield Check("write-ahead log", Level.OK, f"{size / MIB:.1f} MiB")


def check_clock(skew: timedelta, *, own_clock: bool) -> Check:
    """Leases go by the database's clock; handlers and people go by the host's."""
    if not own_clock:
        return Check("clock", Level.OK, "the database uses this host's clock")
    seconds = skew.total_seconds()
    size = abs(seconds)
    detail = f"the database is {duration(size)} {'ahead of' if seconds > 0 else 'behind'} this host"
    if size < SKEW:
        return Check("clock", Level.OK, detail)
    remedy = "Run a time service (NTP) on both; the hub itself goes by the database's clock alone."
    return Check("clock", Level.PROBLEM if size > LARGE_SKEW else Level.WARNING, detail, remedy)


def check_incarnation(now: Incarnation) -> Check:
    """Since when the database is what it is: it was made, restored, or has failed over."""
    since = "" if now.began is None else f", since {now.began:%Y-%m-%d %H:%M:%S} UTC"
    return Check("incarnation", Level.OK, f"number {now.number}{since}")


def check_stale(stale: int, looked_at: int) -> Check:
    """Claims whose lease ended should not stay: any worker takes them back."""
    if not stale:
        return Check("claims", Level.OK, f"{looked_at} in work, none of them stale")
    detail = f"{stale} of {looked_at} claims outlived their lease: their workers are gone and nobody took over"
    return Check("claims", Level.WARNING, detail, "Start a worker, a manager or a bus on their queue.")


def check_dead(total: int) -> Check:
    if not total:
        return Check("dead letters", Level.OK, "none")
    remedy = "Look: eventhub dlq list. After fixing the cause: eventhub dlq retry ID, or --all."
    return Check("dead letters", Level.WARNING, f"{total:,} wait for a decision", remedy)


def check_handlers(missing: list[MissingHandlers]) -> Iterator[Check]:
    """Events of a bus wait for all the handlers they were published for."""
    for each in missing:
        detail = f"bus {each.queue}: {each.events:,} pending without {', '.join(each.handlers)}; event {each.oldest_id}"
        remedy = 'Start the program that has it, or subscribe it by that name; on_missing="skip" goes on without.'
        yield Check("handlers", Level.WARNING, detail, remedy)


def check_backlog(queues: list[QueueStats]) -> Iterator[Check]:
    """Old work that nobody does."""
    for stats in queues:
        waiting, oldest = stats.depth.get(Status.PENDING, 0), stats.oldest_pending_seconds
        if waiting and oldest is not None and oldest > OLD_WORK:
            detail = f"queue {stats.queue}: {waiting:,} pending, the oldest for {duration(oldest)}"
            yield Check("backlog", Level.WARNING, detail, "Start more workers, or look whether they run at all.")
            continue
        yield Check("backlog", Level.OK, f"queue {stats.queue}: {waiting:,} pending")
