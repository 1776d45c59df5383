"""What the log says about a claim that is not current: how it was reported, or how it was lost.

The log is the memory of all processes: which fence was picked by whom, and the row that ended it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from eventhub.core.events import Action, LogEntry
from eventhub.core.lifecycle import State
from eventhub.errors import AlreadyReported, ClaimLost
from eventhub.queue.work.values import Recorded, WorkReport
from eventhub.store.values import Current

__all__ = ["as_recorded", "claim_lost", "report_on"]

_REPORTS: Final = (Action.COMPLETED, Action.FAILED)
_FAILURES: Final = (Action.FAILED, Action.ABANDONED)
_ENDS: Final = (*_REPORTS, Action.ABANDONED, Action.RELEASED, Action.RESET, Action.DEAD, Action.CANCELLED)


def picked(log: Sequence[LogEntry], report: WorkReport) -> LogEntry | None:
    """The claim that a report means: the one with its fence, or the latest of its worker."""
    mine = [entry for entry in log if entry.action is Action.PICKED and entry.worker == report.worker]
    return next((entry for entry in reversed(mine) if report.fence in (None, entry.fence)), None)


def report_on(log: Sequence[LogEntry], report: WorkReport) -> LogEntry | None:
    """How the worker itself ended the claim that is meant; None when it did not."""
    claim = picked(log, report)
    if claim is None:
        return None
    return next((e for e in log if e.action in _REPORTS and e.fence == claim.fence and e.worker == report.worker), None)


def as_recorded(
    log: Sequence[LogEntry],
    entry: LogEntry,
    wanted: Action,
    *,
    current: Current | None,
    max_retries: int,
    retry_after: timedelta,
) -> Recorded | AlreadyReported:
    """The answer to a report that came before; the opposite report is refused."""
    if entry.action is not wanted:
        return AlreadyReported(
            f"Event {entry.event_id}, attempt {entry.attempt} on {entry.worker}: {entry.action} was reported at "
            f"{_text(entry.created_at)} and stands, so {wanted} changes nothing. Report each claim once; "
            "a repeated report must be the same."
        )
    final = any(e.action is Action.DEAD and e.fence == entry.fence for e in log)
    again = entry.action is Action.FAILED and not final
    return Recorded(
        event_id=entry.event_id,
        worker=entry.worker or "",
        action=entry.action,
        fence=entry.fence or 0,
        status_code=entry.status_code,
        error=entry.error,
        execution_ms=entry.execution_ms,
        created_at=entry.created_at,
        retry_count=_failures_until(log, entry),
        max_retries=max_retries,
        retry_scheduled=again,
        next_retry_at=_due(entry, current, retry_after) if again else None,
        repeated=True,
        final=final,
    )


def _failures_until(log: Sequence[LogEntry], last: LogEntry) -> int:
    """Failed attempts up to this row, since an operator last gave the event a fresh start."""
    count = 0
    for entry in log:
        if entry.id > last.id:
            break
        if entry.action is Action.RETRIED:
            count = 0
        elif entry.action in _FAILURES:
            count += 1
    return count


def _due(entry: LogEntry, current: Current | None, retry_after: timedelta) -> datetime:
    """When the retry is due: as the delivery says while it waits for it, else as this queue would have it."""
    if current is not None and current.state is State.WAITING and current.fence == entry.fence and current.due:
        return current.due
    return entry.created_at + retry_after


def claim_lost(log: Sequence[LogEntry], report: WorkReport, current: Current | None) -> ClaimLost:
    """The error for a claim that is not the worker's, or no longer: what happened, who has the event, what to do."""
    claim = picked(log, report)
    holder = ""
    if current is not None and current.worker == report.worker and current.claimed_by not in (None, report.claimed_by):
        return ClaimLost(
            f"Event {report.event_id}: the {report.worker} that has it took it with another API key, and only that key "
            "may report on it. Give each worker a name of its own."
        )
    if current is not None and current.state is State.LEASED:
        holder = f"; attempt {current.attempts} is running on {current.worker}"
    if claim is None:
        meant = "it" if report.fence is None else f"it with fence {report.fence}"
        return ClaimLost(
            f"Event {report.event_id}: {report.worker} never took {meant}{holder}. Take it first, and report under the "
            "same worker id."
        )
    ends = [entry for entry in log if entry.action in _ENDS and entry.fence == claim.fence and entry.id > claim.id]
    what, remedy = _loss(ends[0] if ends else None)
    return ClaimLost(
        f"Event {report.event_id}, attempt {claim.attempt} on {report.worker}: {what}{holder}. {remedy}; "
        "nothing was changed."
    )


def _loss(end: LogEntry | None) -> tuple[str, str]:
    if end is None:
        return "the claim is no longer current", "Take the event again"
    when = _text(end.created_at)
    if end.action in (Action.ABANDONED, Action.DEAD):
        return f"the lease ended and the claim was abandoned at {when}", "Ask for a longer lease, or send heartbeats"
    if end.action is Action.RESET:
        why = f" ({end.error})" if end.error else ""
        return f"an operator took the event back at {when}{why}", "Leave this attempt"
    if end.action is Action.RELEASED:
        return f"the claim was given back at {when}", "Take the event again"
    return f"{end.action} was reported at {when}", "The claim has ended"


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
