"""The sum at the end: every event that was acknowledged must be completed or dead, and the database must say so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventhub.core.events import Action, QueuedEvent, Status
from eventhub.store.messages import DeadFilter, MessageFilter
from eventhub.store.values import EventFilter

if TYPE_CHECKING:
    from eventhub.cli.demo.stage import Stage

__all__ = ["Line", "Messages", "Sum", "count"]

PAGE: Final = 5000
MOST_MESSAGES: Final = 1000
EXPECTED_DEAD: Final = 1
FEW: Final = 100
NEWS: Final = "hub."
"""Events that the hub itself publishes, about dead messages and the like."""


class Line(msgspec.Struct, frozen=True):
    """One part of the demo in the sum."""

    part: str
    published: int
    completed: int
    retried: int
    dead: int

    @property
    def lost(self) -> int:
        return self.published - self.completed - self.dead


class Messages(msgspec.Struct, frozen=True):
    """The webhooks in the sum."""

    made: int = 0
    delivered: int = 0
    requests: int = 0


class Sum(msgspec.Struct, frozen=True):
    """The whole demo in numbers, and what is wrong with them."""

    lines: list[Line]
    messages: Messages
    events: int
    """All that the database has, with the hub's own."""
    problems: list[str]

    @property
    def ok(self) -> bool:
        return not self.problems

    @property
    def published(self) -> int:
        return sum(line.published for line in self.lines)

    @property
    def completed(self) -> int:
        return sum(line.completed for line in self.lines)

    @property
    def retried(self) -> int:
        return sum(line.retried for line in self.lines)

    @property
    def dead(self) -> int:
        return sum(line.dead for line in self.lines)

    @property
    def lost(self) -> int:
        return sum(line.lost for line in self.lines)

    def to_dict(self) -> dict[str, Any]:
        totals = ("published", "completed", "retried", "dead", "lost")
        return {
            "ok": self.ok,
            "problems": self.problems,
            **{name: getattr(self, name) for name in totals},
            "webhooks": self.messages,
            "parts": [{"part": line.part, **{n: getattr(line, n) for n in totals}} for line in self.lines],
        }


async def count(stage: Stage) -> Sum:
    """Read everything back from the store and compare it with what was acknowledged and what handlers saw."""
    events = {event.id: event for event in await _all_events(stage)}
    letters = {letter.id for letter in (await stage.store.dead_letters(DeadFilter(limit=PAGE))).letters}
    lines: list[Line] = []
    for part, acknowledged in stage.acknowledged.items():
        found = [events[event_id] for event_id in acknowledged if event_id in events]
        lines.append(
            Line(
                part=part,
                published=len(acknowledged),
                completed=sum(event.status is Status.COMPLETED for event in found),
                retried=await _retried(stage, found),
                dead=len(letters.intersection(acknowledged)),
            )
        )
    messages, problems = await _messages(stage), list(_compared(stage, events))
    made = Sum(lines, messages, len(events), problems)
    if made.lost:
        problems.append(f"{made.lost} events are neither completed nor dead.")
    if made.dead != EXPECTED_DEAD:
        problems.append(f"{made.dead} events are dead; it should be {EXPECTED_DEAD}, the refund.")
    if messages.delivered != messages.made:
        problems.append(f"{messages.delivered} of {messages.made} webhooks were delivered.")
    return made


def _compared(stage: Stage, events: Mapping[int, QueuedEvent]) -> Iterable[str]:
    acknowledged = {event_id for ids in stage.acknowledged.values() for event_id in ids}
    if missing := acknowledged - events.keys():
        yield f"{len(missing)} acknowledged events are not in the database, such as {min(missing)}."
    ours = {event.id for event in events.values() if not event.type.startswith(NEWS)}
    if strangers := ours - acknowledged:
        yield f"{len(strangers)} events were never acknowledged, such as {min(strangers)}."
    completed = {event_id for event_id in ours if events[event_id].status is Status.COMPLETED}
    if unseen := completed - stage.handled:
        yield f"{len(unseen)} events are completed, but no handler saw them, such as {min(unseen)}."


async def _all_events(stage: Stage) -> list[QueuedEvent]:
    found: list[QueuedEvent] = []
    before: int | None = None
    while page := await stage.store.events(EventFilter(limit=PAGE, before_id=before)):
        found += page
        before = page[-1].id
    return found


async def _retried(stage: Stage, events: list[QueuedEvent]) -> int:
    """Events that took more than one try. A fresh start from the dead resets the counters, but never the log."""
    if len(events) > FEW:
        return sum(event.attempts > 1 for event in events)
    logs = [await stage.store.log(event.id) for event in events]
    tries = [Counter(entry.delivery_id for entry in log if entry.action is Action.PICKED) for log in logs]
    return sum(any(number > 1 for number in each.values()) for each in tries)


async def _messages(stage: Stage) -> Messages:
    made: list[Status] = []
    requests = 0
    for subscriber in stage.subscribers:
        found = await stage.store.messages(MessageFilter(subscriber=subscriber, limit=MOST_MESSAGES))
        made += [message.status for message in found]
        requests += sum(message.attempts for message in found)
    return Messages(made=len(made), delivered=made.count(Status.COMPLETED), requests=requests)
