"""What follows an answer to a webhook: delivered, another try, or the dead letter queue.

    2xx                                    delivered
    429, 5xx, timeout, network             another try, until the attempts are used up
    410                                    dead letter, and the subscriber is disabled
    everything else                        dead letter; redirects are never followed
    an address that must not be dialled    dead letter at once, whatever the subscriber asks for

``retry_on`` of a subscriber replaces the second line; 410 is then another try only if it is named itself.
"""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus
from typing import Final

import msgspec

from eventhub.core.lifecycle import Bury, Complete, Reason, Retry
from eventhub.core.subscribers import Subscriber

__all__ = ["BLOCKED", "NETWORK", "RETRIED", "TIMEOUT", "Answer", "Verdict", "judge"]

TIMEOUT: Final = "timeout"
NETWORK: Final = "network"
BLOCKED: Final = "blocked-destination"
RETRIED: Final = ("429", "5xx", TIMEOUT, NETWORK)
"""What is tried again unless the subscriber says otherwise."""
GONE: Final = 410
_PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
_ABSURD_WAIT: Final = 1e9


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How a request ended: with a status, or with a failure of this kind and these words."""

    status: int | None = None
    failure: str | None = None
    error: str | None = None
    retry_after: float | None = None
    """Seconds that the receiver asked to be left alone."""
    total_ms: float = 0.0


class Verdict(msgspec.Struct, frozen=True):
    """What to report to the store, and whether the subscriber wants no more messages at all."""

    outcome: Complete | Retry | Bury
    disables: bool = False

    @property
    def delivered(self) -> bool:
        return isinstance(self.outcome, Complete)


def judge(answer: Answer, subscriber: Subscriber, *, attempts: int, roll: float = 0.0) -> Verdict:
    """The verdict on attempt number ``attempts``; ``roll`` in [-1, 1] spreads the wait before the next."""
    status, spent = answer.status, round(answer.total_ms)
    if answer.failure is None and status is not None and 200 <= status < 300:  # noqa: PLR2004
        return Verdict(Complete(spent, status))
    error = _words(answer)
    if answer.failure == BLOCKED:
        return Verdict(Bury(error, Reason.BLOCKED, execution_ms=spent))
    if not _is_retried(answer, RETRIED if subscriber.retry_on is None else subscriber.retry_on):
        gone = answer.failure is None and status == GONE
        reason = Reason.GONE if gone else Reason.REJECTED
        return Verdict(Bury(error, reason, execution_ms=spent, status_code=status), disables=gone)
    after = subscriber.policy.after_failure(attempts, error, roll=roll)
    if isinstance(after, Bury):
        return Verdict(Bury(error, after.reason, execution_ms=spent, status_code=status))
    asked = min(answer.retry_after or 0.0, max(subscriber.retry_backoff_seconds, default=0.0), _ABSURD_WAIT)
    delay = max(after.delay, timedelta(seconds=max(asked, 0.0)))
    return Verdict(Retry(error, delay, execution_ms=spent, status_code=status))


def _is_retried(answer: Answer, retried: tuple[str, ...]) -> bool:
    if answer.failure is not None:
        return answer.failure in retried
    exact = str(answer.status)
    return exact in retried or (answer.status != GONE and f"{exact[:1]}xx" in retried)


def _words(answer: Answer) -> str:
    if answer.failure is not None:
        return answer.error or answer.failure
    status = answer.status or 0
    text = f"HTTP {status} {_PHRASES.get(status, '')}".rstrip()
    if 300 <= status < 400:  # noqa: PLR2004
        text += ": redirects are not followed; give the subscriber the address where it ends"
    return text
