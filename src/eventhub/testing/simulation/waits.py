"""Whether a process decided rightly after an attempt: what followed is compared with the rules, said once more here."""

from __future__ import annotations

from collections.abc import Mapping

from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry
from eventhub.core.subscribers import Subscriber
from eventhub.testing.simulation.model import WORK
from eventhub.testing.simulation.setup import Setup
from eventhub.testing.simulation.tracks import Broken, Track

__all__ = ["check_decision"]

_ROUNDING = 1e-5
_ASKED = 2.0
"""Seconds that receivers ask to be left alone when they answer at all."""


def check_decision(
    track: Track, outcome: Outcome, said: str | None, setup: Setup, subscribers: Mapping[str, Subscriber]
) -> None:
    """Raise Broken if this must not follow what a handler or receiver has said."""
    if isinstance(outcome, Release):
        return
    good = said == "done" or (said is not None and said.startswith("2"))
    if isinstance(outcome, Complete):
        if not good:
            raise Broken(1, f"delivery {track.id} is completed after {said!r}")
        return
    if good:
        raise Broken(13, f"delivery {track.id} is not completed after {said!r}")
    again = said in ("failed", "timeout", "429") or (said is not None and said.startswith("5"))
    limit = setup.max_attempts if track.consumer == WORK else _attempts(subscribers[track.consumer])
    last = limit is not None and track.attempts >= limit
    if isinstance(outcome, Bury) != (last or not again):
        word = "given up" if isinstance(outcome, Bury) else "tried again"
        raise Broken(4, f"delivery {track.id} is {word} after {said!r} in attempt {track.attempts} of {limit}")
    if isinstance(outcome, Retry):
        _check_wait(track, outcome.delay.total_seconds(), said, setup, subscribers)


def _attempts(subscriber: Subscriber) -> int:
    return 1 if subscriber.guarantee == "at_most_once" else len(subscriber.retry_backoff_seconds) + 1


def _check_wait(
    track: Track, seconds: float, said: str | None, setup: Setup, subscribers: Mapping[str, Subscriber]
) -> None:
    if track.consumer == WORK:
        plain, spread, floor = min(2.0 ** (track.attempts - 1), 4.0), setup.jitter, 0.0
    else:
        waits = subscribers[track.consumer].retry_backoff_seconds
        plain, spread = waits[min(track.attempts, len(waits)) - 1], 0.1
        floor = 0.0 if said == "timeout" else min(_ASKED, max(waits))
    least, most = max(plain * (1 - spread), floor), max(plain * (1 + spread), floor)
    if not least - _ROUNDING <= seconds <= most + _ROUNDING:
        raise Broken(13, f"delivery {track.id} waits {seconds} s after attempt {track.attempts}, not {plain} s")
