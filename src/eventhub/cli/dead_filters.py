"""Which dead letters a command means: options that every command of the dead letter queue has.

Annotations are real ones here, not text: the commands read them in another module.
"""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from eventhub.cli.subscribers.opening import find_row
from eventhub.cli.times import since

if TYPE_CHECKING:
    from eventhub.store import Store
    from eventhub.store.messages import DeadFilter

__all__ = ["ReasonName", "Which"]

ReasonName = Literal[
    "retries_exhausted",
    "worker_lost",
    "rejected",
    "finalized",
    "manual",
    "gone",
    "blocked_destination",
    "skipped",
    "cancelled",
]
"""Every reason there is, as the database has it."""
WHICH = Group("Which", sort_key=10)


def _option(name: str, about: str) -> Parameter:
    return Parameter(name=f"--{name}", help=about, group=WHICH)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Which:
    """Options that choose; everything that is given must fit."""

    queue: Annotated[str | None, _option("queue", "Only those of this queue; messages are in the queue hub.")] = None
    subscriber: Annotated[str | None, _option("subscriber", "Only messages to this one: its name or id.")] = None
    type: Annotated[str | None, _option("type", "Only events of this type, exactly.")] = None
    reason: Annotated[ReasonName | None, _option("reason", "Only those that were given up for this reason.")] = None
    error: Annotated[str | None, _option("error", "Only those whose last error contains this.")] = None
    since: Annotated[str | None, _option("since", "Dead since then: 2h ago, or 2026-05-04T12:00Z.")] = None
    until: Annotated[str | None, _option("until", "Dead before then: 2h ago, or 2026-05-04T12:00Z.")] = None

    @property
    def given(self) -> list[str]:
        """The names of the options that were given."""
        return [each.name for each in fields(self) if getattr(self, each.name) is not None]

    async def filter(self, store: "Store") -> "DeadFilter":
        """The same in the words of the store, whose clock counts."""
        from eventhub.store.messages import DeadFilter

        now = await store.now()
        return DeadFilter(
            queue=self.queue,
            subscriber=None if self.subscriber is None else (await find_row(store, self.subscriber)).id,
            type=self.type,
            reason=self.reason,
            error=self.error,
            dead_since=None if self.since is None else since("since", self.since, now),
            dead_until=None if self.until is None else since("until", self.until, now),
        )
