"""``eventhub audit``: who did what, and when."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import App, Parameter

from eventhub.cli.options import Common, with_store
from eventhub.cli.output import console, document, json_text, moment, plain, table
from eventhub.cli.times import since as moment_of
from eventhub.errors import SettingsError
from eventhub.store.audit import AuditEntry, AuditFilter

__all__ = ["app"]

app = App(name="audit")

MAX_LIMIT = 10_000
LARGEST_ID = 2**63 - 1


@app.default
def list_audit(
    *,
    actor: Annotated[str | None, Parameter(help="Only what this key or user did, by name.")] = None,
    action: Annotated[
        str | None, Parameter(help="Only this action, such as key.revoke; key stands for all that begin so.")
    ] = None,
    target: Annotated[str | None, Parameter(help="Only what was done to this, such as subscriber:7.")] = None,
    since: Annotated[str | None, Parameter(help="Only acts from this time on: a time, or how long ago.")] = None,
    until: Annotated[str | None, Parameter(help="Only acts up to this time.")] = None,
    limit: Annotated[int, Parameter(help="How many, from 1 to 10,000.")] = 50,
    before: Annotated[int | None, Parameter(help="Only entries with a smaller id: the next page.")] = None,
    common: Common | None = None,
) -> None:
    """List administrative acts, newest first: keys, subscribers, dead letters, replays, resets, sign-ins."""
    if not 1 <= limit <= MAX_LIMIT:
        raise SettingsError(f"--limit is {limit}; give a number from 1 to {MAX_LIMIT:,}.")
    if before is not None and not 1 <= before <= LARGEST_ID:
        raise SettingsError(f"--before is {before}; give the id of an entry.")
    now = datetime.now(UTC)
    wanted = AuditFilter(
        actor=actor,
        action=action,
        target=target,
        since=None if since is None else moment_of("since", since, now),
        until=None if until is None else moment_of("until", until, now),
        before_id=before,
        limit=limit,
    )
    found = with_store(common, lambda store: store.audit(wanted))
    next_before = found[-1].id if len(found) == limit else None
    if common and common.json:
        document({"entries": found, "next_before": next_before})
        return
    _print(found, next_before)


def _print(found: list[AuditEntry], next_before: int | None) -> None:
    out = console()
    if not found:
        out.print("No administrative acts.")
        return
    rows = table("id", "time", "actor", "from", "action", "target", "details", numbers=("id",))
    for entry in found:
        rows.add_row(
            str(entry.id),
            moment(entry.created_at),
            plain(entry.actor if entry.actor_kind == "key" else f"{entry.actor} ({entry.actor_kind})"),
            plain(entry.address),
            entry.action,
            plain(entry.target),
            plain(json_text(entry.details) if entry.details else "", limit=80),
        )
    out.print(rows)
    if next_before is not None:
        out.print(f"More: --before {next_before}")
