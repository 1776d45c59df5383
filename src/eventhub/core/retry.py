"""How long to wait before trying again: a policy returns a wait, never a time, and jitter is an argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Self

import msgspec

from eventhub.core.checks import is_count, is_number
from eventhub.core.lifecycle import Bury, Reason, Retry
from eventhub.errors import SettingsError

__all__ = ["RetryPolicy"]


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff with a cap and jitter, or a list of waits.

    Before attempt N the wait is 0 for N=1, else ``min(base_delay * multiplier ** (N-2), max_delay)`` seconds,
    give or take ``jitter`` of it, applied after the cap. With ``delays`` the list says each wait and its last
    entry repeats; an empty list means no wait.
    """

    max_retries: int | None = 3
    base_delay: float = 1.0
    max_delay: float = 30.0
    multiplier: float = 2.0
    jitter: float = 0.1
    delays: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.max_retries is not None and not is_count(self.max_retries):
            raise SettingsError(
                f"max_retries is {self.max_retries!r}; give a whole number, 0 or more, or None for no limit."
            )
        for name in ("base_delay", "max_delay"):
            if not _is_wait(getattr(self, name)):
                raise SettingsError(f"{name} is {getattr(self, name)!r}; give seconds, 0 or more.")
        if not is_number(self.multiplier) or self.multiplier < 1:
            raise SettingsError(f"multiplier is {self.multiplier!r}; give 1 or more.")
        if not is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise SettingsError(f"jitter is {self.jitter!r}; give a share between 0 and 1, such as 0.1 for 10 %.")
        if self.delays is not None and not (isinstance(self.delays, list | tuple) and all(map(_is_wait, self.delays))):
            raise SettingsError(f"delays is {self.delays!r}; give a list of waits, each 0 seconds or more.")

    @classmethod
    def listed(cls, delays: Sequence[float], *, max_retries: int | None = None, jitter: float = 0.1) -> Self:
        """A policy from a list of waits; by default as many retries as the list has entries."""
        retries = len(delays) if max_retries is None else max_retries
        return cls(max_retries=retries, delays=tuple(float(d) for d in delays), jitter=jitter)

    @property
    def max_attempts(self) -> int | None:
        """The first try and the retries; None for no limit."""
        return None if self.max_retries is None else self.max_retries + 1

    def delay(self, attempt: int, *, roll: float = 0.0) -> float:
        """Seconds to wait before attempt number ``attempt`` (from 1); ``roll`` in [-1, 1] spreads the jitter."""
        if attempt <= 1:
            return 0.0
        if self.delays is not None:
            plain = self.delays[min(attempt - 2, len(self.delays) - 1)] if self.delays else 0.0
        else:
            plain = self._exponential(attempt - 2)
        return max(0.0, plain * (1.0 + self.jitter * roll))

    def _exponential(self, power: int) -> float:
        if self.base_delay == 0:
            return 0.0
        try:
            return min(self.base_delay * self.multiplier**power, self.max_delay)
        except OverflowError:
            return self.max_delay

    def after_failure(self, attempts: int, error: str, *, roll: float = 0.0) -> Retry | Bury:
        """What follows a failed attempt: a retry after the due wait, or the dead letter queue."""
        if self.max_attempts is not None and attempts >= self.max_attempts:
            return Bury(error, Reason.EXHAUSTED)
        return Retry(error, timedelta(seconds=self.delay(attempts + 1, roll=roll)))

    def override(self, changes: Mapping[str, Any] | RetryPolicy | None) -> RetryPolicy:
        """This policy with some fields replaced, as a subscription may ask."""
        if changes is None:
            return self
        if isinstance(changes, RetryPolicy):
            return changes
        if not isinstance(changes, Mapping):
            raise SettingsError(f"retry is {changes!r}; give a RetryPolicy, or a mapping such as {{'max_retries': 5}}.")
        unknown = set(changes) - set(self.__struct_fields__)
        if unknown:
            known = ", ".join(self.__struct_fields__)
            raise SettingsError(f"retry has no {', '.join(sorted(unknown))}; it takes {known}.")
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def most_permissive(cls, policies: Iterable[RetryPolicy]) -> RetryPolicy:
        """One policy for an event with several subscriptions: most retries, least base, largest cap and multiplier."""
        several = list(policies)
        if len(several) == 1:
            return several[0]
        unlimited = any(p.max_retries is None for p in several)
        return cls(
            max_retries=None if unlimited else max(p.max_retries or 0 for p in several),
            base_delay=min(p.base_delay for p in several),
            max_delay=max(p.max_delay for p in several),
            multiplier=max(p.multiplier for p in several),
            jitter=max(p.jitter for p in several),
            delays=next((p.delays for p in several if p.delays is not None), None),
        )


def _is_wait(seconds: Any) -> bool:
    return is_number(seconds) and seconds >= 0
