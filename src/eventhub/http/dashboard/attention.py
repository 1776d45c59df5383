"""What needs attention now, in words that say what to do; and how each part of the hub is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from eventhub.http.bodies.overview import Concern, PartHealth
from eventhub.store.buses import MissingHandlers
from eventhub.store.watching import MOST_COUNTED, OpenCounts, Troubles

__all__ = ["Facts", "attention", "health"]

FANOUT_SECONDS: Final = 10.0
WAIT_SECONDS: Final = 300.0
HORIZON: Final = timedelta(minutes=5)
LAKE: Final = timedelta(days=1)
BACKLOG_SHARE: Final = 0.8
MEGABYTE: Final = 1_000_000
NAMED: Final = 3
LONGEST: Final = 100
_ORDER: Final = {"bad": 0, "warn": 1, "info": 2}
ROLES: Final[dict[str, Literal["fan-out", "dispatcher", "janitor"]]] = {
    "fanout": "fan-out",
    "dispatcher": "dispatcher",
    "janitor": "janitor",
}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is judged here, as it was found."""

    at: datetime
    database_ms: float | None
    """How long it took to answer; None when it does not."""
    open: OpenCounts
    troubles: Troubles
    work_queue: str
    worker_seen: bool
    fanout: tuple[int, float | None]
    roles: frozenset[str]
    """Roles that some process has."""
    backlog: tuple[int, int] | None
    """Open deliveries and how many may be; None when there is no limit."""
    disk_left: int | None
    """Bytes above the reserve; None when there is none."""
    horizon_age: timedelta | None
    copied_at: datetime | None
    """When the lake was last copied to; None when it never was."""
    missing_handlers: list[MissingHandlers] = []


def attention(facts: Facts) -> list[Concern]:
    """The most urgent first."""
    found = [*_of_hub(facts), *_of_subscribers(facts), *_of_work(facts), *_of_room(facts), *_of_history(facts)]
    return sorted(found, key=lambda concern: _ORDER[concern.level])


def health(facts: Facts) -> list[PartHealth]:
    """Every part, in the order in which an event meets them."""
    return [_database(facts), *(_role(facts, role) for role in ROLES), _pipeline(facts)]


# ---------------------------------------------------------------- attention


def _of_hub(facts: Facts) -> Iterator[Concern]:
    pending, lag = facts.fanout
    waiting = facts.open.messages["ready"]
    if facts.database_ms is None:
        yield _bad("The database does not answer; what is shown here is how it was before.", "#/")
    if pending and "fanout" not in facts.roles:
        yield _bad(
            f"{_many(pending, 'broadcast waits', 'broadcasts wait')} and no fan-out runs. "
            "Start: eventhub serve --roles fanout.",
            "#/",
        )
    elif lag is not None and lag > FANOUT_SECONDS:
        yield _warn(f"The fan-out is {_age(lag)} behind. Look into the hub's log.", "#/")
    if waiting and "dispatcher" not in facts.roles:
        yield _bad(
            f"{_many(waiting, 'message waits', 'messages wait')} and no dispatcher runs. "
            "Start: eventhub serve --roles dispatcher.",
            "#/subscribers",
        )


def _of_subscribers(facts: Facts) -> Iterator[Concern]:
    troubles = facts.troubles
    circuits, disabled = troubles.open_circuits, troubles.disabled
    if circuits:
        names = _names([name for _, name in circuits])
        words = (
            f"{_many(len(circuits), 'subscriber is', 'subscribers are')} failing and left alone for a while: {names}."
        )
        yield _bad(f"{words} See what they answer.", _subscriber([number for number, _ in circuits]))
    if disabled:
        named = _names([f"{name} ({reason})" for _, name, reason in disabled])
        words = f"{_many(len(disabled), 'subscriber is', 'subscribers are')} disabled: {named}."
        yield _warn(f"{words} Enable or remove them.", _subscriber([number for number, _, _ in disabled]))
    if troubles.parked_keys:
        keys = _many(troubles.parked_keys, "ordering key stands", "ordering keys stand")
        yield _bad(f"{keys} still behind a dead letter. Retry, skip or unpark.", "#/subscribers")
    if troubles.blocked_keys > troubles.parked_keys:
        keys = _many(troubles.blocked_keys - troubles.parked_keys, "ordering key waits", "ordering keys wait")
        yield _warn(f"{keys} for a retry of the first message.", "#/subscribers")


def _of_work(facts: Facts) -> Iterator[Concern]:
    troubles = facts.troubles
    if troubles.deaths:
        letters = _many(troubles.deaths, "dead letter", "dead letters")
        yield _bad(f"{letters} in the last hour. See why, then retry or purge.", "#/dead")
    if troubles.parked_work:
        keys = _many(troubles.parked_work, "ordering key of a queue stands", "ordering keys of queues stand")
        yield _bad(f"{keys} still behind a dead letter. Retry it, or: eventhub dlq unpark.", "#/dead")
    for missing in facts.missing_handlers[:NAMED]:
        events = _many(missing.events, "event", "events")
        names = _names(list(missing.handlers))
        words = f"{events} of bus {missing.queue} cannot go on: no running bus has {names}."
        yield _bad(f"{words} Start the program that has it.", f"#/events/{missing.oldest_id}")
    waited = facts.open.oldest_work_seconds.get(facts.work_queue, 0.0)
    if waited > WAIT_SECONDS and not facts.worker_seen:
        yield _bad(
            f"Work has waited for {_age(waited)} and no worker asks for it. Start: eventhub worker.", "#/workers"
        )
    elif waited > WAIT_SECONDS:
        words = f"The oldest work has waited for {_age(waited)}. Add workers, or see whether any has its tags."
        yield _warn(words, "#/workers")
    if troubles.silent_claims:
        claims = sum(count for _, count in troubles.silent_claims)
        names = _names([name for name, _ in troubles.silent_claims])
        words = f"{_many(claims, 'claim is', 'claims are')} held by workers that are silent: {names}."
        yield _warn(f"{words} They end with their leases; reset them to be quicker.", "#/workers")


def _of_room(facts: Facts) -> Iterator[Concern]:
    if facts.backlog is not None:
        count, limit = facts.backlog
        words = f"{_number(count)} of {limit:,} deliveries that may be open are."
        if count >= limit:
            yield _bad(f"{words} Publishing is refused. Add workers, or raise max_backlog.", "#/events?status=PENDING")
        elif count >= limit * BACKLOG_SHARE:
            yield _warn(f"{words} Beyond, publishing is refused.", "#/events?status=PENDING")
    left = facts.disk_left
    if left is not None and left < 0:
        yield _bad("The disk's reserve is touched, so publishing is refused. Make room.", "#/")
    elif left is not None and left < 1000 * MEGABYTE:
        yield _warn(f"The disk has {left // MEGABYTE:,} MB left before publishing is refused. Make room.", "#/")


def _of_history(facts: Facts) -> Iterator[Concern]:
    age = facts.horizon_age
    if age is not None and age > HORIZON:
        words = f"A transaction of the database has been open for {_age(age.total_seconds())}."
        yield _warn(
            f"{words} Until it ends, nothing newer is copied to the lake. Find it in pg_stat_activity.", "#/history"
        )
    if facts.copied_at is not None and facts.at - facts.copied_at > LAKE:
        ago = _age((facts.at - facts.copied_at).total_seconds())
        yield _warn(f"The lake was last copied to {ago} ago. Run: eventhub pipeline run.", "#/history")


# ------------------------------------------------------------------- health


def _database(facts: Facts) -> PartHealth:
    if facts.database_ms is None:
        return PartHealth(part="database", state="bad", words="does not answer")
    slow = facts.database_ms > 1000  # noqa: PLR2004 - a second
    return PartHealth(part="database", state="warn" if slow else "ok", words=f"answers in {facts.database_ms:.1f} ms")


def _role(facts: Facts, role: str) -> PartHealth:
    part = ROLES[role]
    pending, lag = facts.fanout
    waits = {"fanout": pending, "dispatcher": facts.open.messages["ready"]}.get(role, 0)
    if role not in facts.roles:
        return PartHealth(
            part=part, state="bad" if waits else "off", words=f"no process runs it; {_number(waits)} wait"
        )
    if role == "fanout" and lag is not None and lag > FANOUT_SECONDS:
        return PartHealth(part=part, state="warn", words=f"{_age(lag)} behind, {_number(pending)} wait")
    if role == "dispatcher":
        flight = facts.open.messages["leased"]
        circuits = len(facts.troubles.open_circuits)
        words = f"{_number(flight)} in flight, {_number(waits)} wait"
        if circuits:
            return PartHealth(part=part, state="warn", words=f"{words}; {_many(circuits, 'circuit', 'circuits')} open")
        return PartHealth(part=part, state="ok", words=words)
    return PartHealth(part=part, state="ok", words="up to date" if role == "fanout" else "keeps house")


def _pipeline(facts: Facts) -> PartHealth:
    if facts.copied_at is None:
        return PartHealth(part="pipeline", state="off", words="never ran; eventhub pipeline run makes the history")
    age = facts.at - facts.copied_at
    state: Literal["ok", "warn"] = "warn" if age > LAKE else "ok"
    return PartHealth(part="pipeline", state=state, words=f"last copied {_age(age.total_seconds())} ago")


# -------------------------------------------------------------------- words


def _bad(words: str, link: str) -> Concern:
    return Concern(level="bad", words=words, link=link)


def _warn(words: str, link: str) -> Concern:
    return Concern(level="warn", words=words, link=link)


def _number(count: int) -> str:
    return f"{count:,} or more" if count >= MOST_COUNTED else f"{count:,}"


def _many(count: int, one: str, more: str) -> str:
    return f"{_number(count)} {one if count == 1 else more}"


def _names(names: list[str]) -> str:
    shown = ", ".join(name if len(name) <= LONGEST else f"{name[:LONGEST]}…" for name in names[:NAMED])
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED:,} more"


def _subscriber(ids: list[int]) -> str:
    return f"#/subscribers/{ids[0]}" if len(ids) == 1 else "#/subscribers"


def _age(seconds: float) -> str:
    """A length of time as people say it: the largest unit that fits, twice over."""
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}s"
    return f"{max(seconds, 0):.0f} seconds"
