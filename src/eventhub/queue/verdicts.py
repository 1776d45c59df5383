"""What callers and handlers say about an attempt, turned into the outcome that the store records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Outcome, Reason, Retry
from eventhub.core.outcomes import PermanentError, TransientError
from eventhub.errors import SettingsError
from eventhub.handling.texts import clean, error_text

__all__ = ["after_failure", "finalized", "join_errors"]


def finalized(*, success: bool | None, errors: Sequence[object]) -> Outcome:
    """The outcome of ``finalize``: completed, completed with errors, or failed."""
    if success and errors:
        raise SettingsError(
            f"finalize was told success=True and {len(errors)} errors; leave success out to finalize with errors."
        )
    if success is False:
        return Bury(join_errors(errors) or "finalized as failed", Reason.FINALIZED, Status.FAILED)
    if errors:
        return Bury(join_errors(errors), Reason.FINALIZED, Status.COMPLETED_WITH_ERRORS)
    return Complete()


def after_failure(
    error: str, *, attempts: int, max_attempts: int | None, delay: timedelta, execution_ms: int | None = None
) -> Retry | Bury:
    """A transient failure is tried again, unless this was the last attempt allowed."""
    if max_attempts is not None and attempts >= max_attempts:
        return Bury(error, Reason.EXHAUSTED, execution_ms=execution_ms)
    return Retry(error, delay, execution_ms)


def join_errors(errors: Iterable[object]) -> str:
    """Errors as one text: ``source: message; source: message``."""
    return clean("; ".join(_text(error) for error in errors))


def _text(error: object) -> str:
    if isinstance(error, BaseException):
        return error_text(error)
    if isinstance(error, str | PermanentError | TransientError):
        return str(error)
    raise SettingsError(f"errors contains {error!r}; give PermanentError(source, message) values.")
