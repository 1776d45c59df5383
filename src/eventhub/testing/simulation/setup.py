"""What is simulated: how many processes of each kind, which subscribers, and which faults, all drawn from the seed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final

import msgspec

from eventhub.core.retry import RetryPolicy
from eventhub.core.subscribers import Subscriber
from eventhub.hub.directory import Directory
from eventhub.store.messages import SubscriberRow

__all__ = ["FAULTS", "LEASE", "START", "Setup", "directory", "rows_of"]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
LEASE: Final = timedelta(seconds=6)
FAULTS: Final = ("crash", "lost", "pause", "jump", "duplicate", "failure", "poison", "operator")
_WANTED: Final = ("*", "order.*", "order.paid", "*.*")


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """One small world. Numbers of subscribers are 1, 2, … in their order."""

    seed: int
    publishers: int
    calls: int
    """Of each publisher."""
    workers: int
    dispatchers: int
    fan_outs: int
    max_attempts: int | None
    jitter: float
    subscribers: tuple[Subscriber, ...]
    faults: frozenset[str]

    @classmethod
    def drawn(cls, seed: int) -> Setup:
        """The world of a seed."""
        dice = Random(seed)  # noqa: S311 - to be the same again is the point
        subscribers = tuple(_subscriber(dice, number) for number in range(1, dice.choice((1, 2, 3))))
        return cls(
            seed=seed,
            publishers=dice.choice((1, 1, 2)),
            calls=dice.choice((3, 4, 5)),
            workers=dice.choice((1, 2, 2, 3)),
            dispatchers=dice.choice((1, 2)) if subscribers else 0,
            fan_outs=dice.choice((1, 2)),
            max_attempts=dice.choice((None, 1, 2, 3)),
            jitter=dice.choice((0.0, 0.0, 0.1)),
            subscribers=subscribers,
            faults=frozenset(fault for fault in FAULTS if dice.random() < 0.6),  # noqa: PLR2004 - most of them, mostly
        )

    @property
    def policy(self) -> RetryPolicy:
        """How workers try again."""
        retries = None if self.max_attempts is None else self.max_attempts - 1
        return RetryPolicy(max_retries=retries, base_delay=1.0, max_delay=4.0, multiplier=2.0, jitter=self.jitter)


def _subscriber(dice: Random, number: int) -> Subscriber:
    return Subscriber(
        name=f"subscriber-{number}",
        url=f"https://{number}.example/hook",
        event_type=dice.choice(_WANTED),
        ordering_key=dice.choice((None, "ordering_key", "ordering_key", "payload.key")),
        on_dead=dice.choice(("skip", "park")),
        retry_backoff_seconds=dice.choice(((), (1.0,), (1.0, 2.0, 3.0))),
        guarantee=dice.choice(("at_least_once", "at_least_once", "at_most_once")),
    )


def rows_of(setup: Setup) -> list[SubscriberRow]:
    """The subscribers as a store keeps them."""
    return [
        SubscriberRow(
            id=number,
            name=subscriber.name,
            document=msgspec.json.encode(subscriber).decode(),
            sealed=None,
            created_at=START,
            updated_at=START,
        )
        for number, subscriber in enumerate(setup.subscribers, start=1)
    ]


def directory(setup: Setup, version: int = 1) -> Directory:
    """Who wants what, as the hub compiles it."""
    return Directory(version, rows_of(setup))
