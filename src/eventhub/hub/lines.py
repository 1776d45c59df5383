"""What a dispatcher keeps in mind about each subscriber: what is under way, how fast it may go, how it has been doing.

     closed ── many failures in a row over some time ──▶ open ── rest is over ─▶ one probe ── answered well ─▶ closed
                                                           ▲                        │ failed
                                                           └── a longer rest ◀──────┘

The circuit is kept in the store, so all dispatchers rest together and one of them probes.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Final

import msgspec

from eventhub.hub.pace import Tokens
from eventhub.hub.subscribers import ReadySubscriber
from eventhub.store.messages import SubscriberRow

__all__ = ["CircuitRules", "Line"]

LONGEST_REST: Final = timedelta(minutes=5)
SOON: Final = 1.0
"""Seconds within which a consumer answers that does not occupy places for long."""


class CircuitRules(msgspec.Struct, frozen=True, kw_only=True):
    """When a subscriber is left alone: so many failures in a row, the first of them so long ago."""

    failures: int = 20
    lasting: timedelta = timedelta(seconds=60)
    rest: timedelta = timedelta(seconds=10)

    def rest_after(self, opens: int) -> timedelta:
        """Twice as long each time, up to five minutes."""
        longest: timedelta = max(LONGEST_REST, self.rest)
        return min(self.rest * (1 << min(opens, 20)), longest)


class Line:
    """One subscriber as one dispatcher sees it."""

    def __init__(
        self, row: SubscriberRow, ready: ReadySubscriber, *, most: int, resting: float, rules: CircuitRules
    ) -> None:
        self.in_flight = 0
        self.hungry = False
        """The last claim brought all that there was room for: more may wait."""
        self.probing = False
        self.tripping = False
        """The circuit is being opened: nothing more is taken until it is known how that went."""
        self._answers = False
        self._moved = 0.0
        self._rules = rules
        self._failures = 0
        self._failing_since = 0.0
        self._tokens = Tokens(None)
        self.row = row
        self.update(row, ready, most=most, resting=resting)

    def update(self, row: SubscriberRow, ready: ReadySubscriber, *, most: int, resting: float) -> None:
        """The subscriber as it is now; ``most`` is this dispatcher's part, ``resting`` how long the circuit rests."""
        begins_anew = (self.open and row.circuit == "closed") or self.row.status != row.status
        self.row, self.ready, self.lease = row, ready, ready.subscriber.lease
        self.tripping = False
        self._most = most
        self._rest_until = time.monotonic() + resting
        share = most / max(1, ready.subscriber.max_in_flight)
        rate = ready.subscriber.rate_per_second
        rate = None if rate is None or most == 0 else rate * share
        if rate != self._tokens.rate:
            self._tokens = Tokens(rate)
        if row.circuit == "closed":
            self.probing = False
        if begins_anew:  # another dispatcher found it well, or an operator says so: what was before does not count
            self._failures = 0

    @property
    def open(self) -> bool:
        return self.tripping or self.row.circuit == "open"

    @property
    def slow(self) -> bool:
        """It has not answered soon the last time, or not at all for a while, or was never asked."""
        return not self._answers or (self.in_flight > 0 and time.monotonic() - self._moved > SOON)

    @property
    def room(self) -> int:
        """Messages that may be taken now."""
        if self.row.status != "active" or (self.open and not self.probing):
            return 0
        room = (1 if self.open else self._most) - self.in_flight
        allowed = self._tokens.left()
        return max(room if allowed is None else min(room, allowed), 0)

    @property
    def wait(self) -> float | None:
        """Seconds until there may be room although nothing ends before; None when time alone brings none."""
        if self.row.status != "active" or self._most == 0:
            return None
        if self.open:
            return None if self.probing else max(self._rest_until - time.monotonic(), 0.0)
        return self._tokens.wait() if self._tokens.rate is not None and self.hungry else None

    @property
    def may_probe(self) -> bool:
        return self.open and not self.probing and self.row.status == "active" and time.monotonic() >= self._rest_until

    def rested(self, rest: timedelta) -> None:
        """Somebody probes; the next may after this."""
        self._rest_until = time.monotonic() + rest.total_seconds()

    def taken(self, count: int) -> None:
        if not self.in_flight:
            self._moved = time.monotonic()
        self.in_flight += count
        self._tokens.take(count)

    def given_back(self) -> bool:
        """A message was not sent after all; nothing follows for the circuit."""
        self.in_flight -= 1
        self.probing = False
        return False

    def ended(self, *, delivered: bool, seconds: float = 0.0) -> bool:
        """An attempt is over that took so long; True when so many have failed that the circuit should open."""
        self.in_flight -= 1
        self._moved, self._answers = time.monotonic(), seconds < SOON
        self.probing = False  # one message is a probe, however it went
        if delivered:
            self._failures = 0
            return False
        if not self._failures:
            self._failing_since = time.monotonic()
        self._failures += 1
        lasting = time.monotonic() - self._failing_since
        if self.open or self._failures < self._rules.failures or lasting < self._rules.lasting.total_seconds():
            return False
        self.tripping = True
        return True
