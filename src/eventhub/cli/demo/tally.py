"""The sum at the end: every event that was acknowledged must be completed or dead, and the database must say so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from eventhub.core.events import Action, QueuedEvent, Status
from eventhub.store.values import EventFilter

if TYPE_CHECKING:
    from eventhub.cli.demo.stage import Stage

__all__ = ["Line", "Sum", "count"]

PAGE: Final = 5000
EXPECTED_DEAD: Final = 1
FEW: Final = 100


class Line(msgspec.Struct, frozen=True):
    """One queue in the sum."""

    queue: str
    published: int
    completed: int
    retried: int
    dead: int

    @property
    def lost(self) -> int:
        return self.published - self.completed - self.dead


class Sum(msgspec.Struct, frozen=True):
    """The whole demo in numbers, and what is wrong with them."""

    lines: list[Line]
    problems: list[str]
    duplicates_stopped: int
    publish_per_second: float
    drain_per_second: float

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
            "duplicates_stopped": self.duplicates_stopped,
            "publish_per_second": round(self.publish_per_second),
            "drain_per_second": round(self.drain_per_second),
            "queues": [{"queue": line.queue, **{n: getattr(line, n) for n in totals}} for line in self.lines],
        }


async def count(stage: Stage) -> Sum:
    """Read everything back from the store and compare it with what was acknowledged and what handlers saw."""
    lines: list[Line] = []
    problems: list[str] = []
    for queue, acknowledged in stage.acknowledged.items():
        events = {event.id: event for event in await _all_of(stage, queue)}
        letters = {event.id for event in (await stage.store.dead(queue=queue)).events}
        lines.append(
            Line(
                queue=queue,
                published=len(acknowledged),
                completed=sum(events[i].status is Status.COMPLETED for i in acknowledged if i in events),
                retried=await _retried(stage, events.values()),
                dead=len(letters.intersection(acknowledged)),
            )
        )
        problems += _compare(stage, queue, acknowledged, events)
    made = Sum(lines, problems, stage.duplicates_stopped, stage.publish_rate, stage.drain_rate)
    if made.lost:
        problems.append(f"{made.lost} events are neither completed nor dead.")
    if made.dead != EXPECTED_DEAD:
        problems.append(f"{made.dead} events are dead; it should be {EXPECTED_DEAD}, the refund.")
    return made


def _compare(stage: Stage, queue: str, acknowledged: list[int], events: dict[int, QueuedEvent]) -> Iterable[str]:
    if missing := set(acknowledged) - events.keys():
        yield f"{queue}: {len(missing)} acknowledged events are not in the database, such as {min(missing)}."
    if strangers := events.keys() - set(acknowledged):
        yield f"{queue}: {len(strangers)} events were never acknowledged, such as {min(strangers)}."
    completed = {event.id for event in events.values() if event.status is Status.COMPLETED}
    if unseen := completed - stage.handled:
        yield f"{queue}: {len(unseen)} events are completed, but no handler saw them, such as {min(unseen)}."


async def _all_of(stage: Stage, queue: str) -> list[QueuedEvent]:
    found: list[QueuedEvent] = []
    before: int | None = None
    while page := await stage.store.events(EventFilter(queue=queue, limit=PAGE, before_id=before)):
        found += page
        before = page[-1].id
    return found


async def _retried(stage: Stage, events: Iterable[QueuedEvent]) -> int:
    """Events that took more than one try. A fresh start from the dead resets the counters, but never the log."""
    several = list(events)
    if len(several) > FEW:
        return sum(event.attempts > 1 for event in several)
    logs = [await stage.store.log(event.id) for event in several]
    return sum([entry.action for entry in log].count(Action.PICKED) > 1 for log in logs)
