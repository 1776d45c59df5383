"""Subscribers as tables for people and as documents for programs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import asdict

from eventhub.cli.output import console, duration, json_text, moment, plain, records, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from eventhub.hub.subscribers import SubscriberView
    from eventhub.store.messages import BlockedKey, SubscriberStats

__all__ = ["facts", "print_keys", "print_list", "print_one", "print_secret", "print_stats", "standing"]

_STYLES: Final = {"active": "green", "paused": "yellow", "disabled": "red", "suspended": "red"}


def facts(view: SubscriberView) -> dict[str, Any]:
    """A subscriber as programs see it, the same as over HTTP."""
    return {
        "id": view.id,
        "status": view.status,
        "reason": view.reason,
        "circuit": view.circuit,
        "circuit_until": view.circuit_until,
        "version": view.version,
        "secrets": view.secrets,
        "created_at": view.created_at,
        "updated_at": view.updated_at,
        **asdict(view.subscriber),
    }


def standing(view: SubscriberView) -> str:
    """Its status, in its colour; one that is active but left in peace is told apart."""
    word = "suspended" if view.status == "active" and view.circuit == "open" else view.status
    return f"[{_STYLES.get(word, 'default')}]{word}[/]"


def print_list(views: list[SubscriberView]) -> None:
    out = console()
    if not views:
        out.print("No subscribers. Make one: eventhub subscribers add NAME --url https://…")
        return
    rows = table("id", "name", "status", "event type", "url", "order", "since", numbers=("id",))
    for view in views:
        one = view.subscriber
        rows.add_row(
            str(view.id),
            plain(one.name),
            standing(view),
            plain(one.event_type),
            plain(one.url, 60),
            plain(one.ordering_key),
            moment(view.created_at),
        )
    out.print(rows)


def print_one(view: SubscriberView) -> None:
    one = view.subscriber
    rate = "" if one.rate_per_second is None else f"{one.rate_per_second:g} a second, "
    waits = ", ".join(f"{wait:g} s" for wait in one.retry_backoff_seconds)
    pairs: list[tuple[str, RenderableType]] = [
        ("id", str(view.id)),
        ("name", plain(one.name)),
        ("status", standing(view)),
        ("reason", plain(view.reason)),
        ("next try", moment(view.circuit_until) if view.circuit == "open" else ""),
        ("url", plain(one.url)),
        ("event type", plain(one.event_type)),
        ("filter", plain(json_text(one.filter) if one.filter else "")),
        ("headers", plain("\n".join(f"{name}: {value}" for name, value in one.headers.items()))),
        ("format", one.format),
        ("order", plain(f"by {one.ordering_key}; a dead message: {one.on_dead}") if one.ordering_key else "none"),
        ("guarantee", one.guarantee),
        ("retries", f"after {waits}" if waits and one.max_attempts > 1 else "none"),
        ("retried are", plain(", ".join(one.retry_on or ()))),
        ("timeouts", f"{one.connect_timeout_seconds:g} s to connect, {one.timeout_seconds:g} s in all"),
        ("at most", f"{rate}{one.max_in_flight} at once"),
        ("description", plain(one.description)),
        ("live secrets", str(view.secrets)),
        ("version", f"{view.version}, of {moment(view.updated_at)}"),
        ("created", moment(view.created_at)),
    ]
    console().print(records(pairs))


def print_secret(secret: str) -> None:
    out = console()
    out.print(f"\n{secret}\n", soft_wrap=True)
    out.print("Keep it now: it is shown this one time. The receiver checks signatures with it.")


def print_stats(stats: SubscriberStats) -> None:
    milliseconds = [None if ms is None else ms / 1000 for ms in (stats.latency_p50_ms, stats.latency_p99_ms)]
    p50, p99 = (duration(value) for value in milliseconds)
    pairs: list[tuple[str, RenderableType]] = [
        ("waiting", f"{stats.pending:,}"),
        ("for a retry", f"{stats.waiting_for_retry:,}"),
        ("behind another of their key", f"{stats.behind:,}"),
        ("the oldest since", duration(stats.oldest_pending_seconds)),
        ("on their way", f"{stats.processing:,}"),
        ("dead", f"{stats.dead:,}"),
        ("keys held up", f"{stats.blocked_keys:,}, of which {stats.parked_keys:,} wait for an operator"),
        ("last hour", f"{stats.delivered_last_hour:,} delivered, {stats.failed_last_hour:,} attempts failed"),
        ("answer time, last hour", f"p50 {p50}, p99 {p99}" if p50 else ""),
        ("last delivered", _ago(stats.last_delivered_at)),
        ("last failure", _ago(stats.last_failed_at)),
    ]
    console().print(records(pairs))


def _ago(value: datetime | None) -> str:
    return moment(value) or "never"


def print_keys(found: list[BlockedKey], name: str, next_after: str | None) -> None:
    out = console()
    if not found:
        out.print(plain(f"No key of {name} is held up."))
        return
    rows = table("key", "first message", "how", "attempts", "next try", "behind it", "since", "last error",
                 numbers=("first message", "attempts", "behind it"))  # fmt: skip
    for key in found:
        rows.add_row(
            plain(key.key, 60),
            str(key.message_id),
            "[red]parked[/]" if key.parked else "[yellow]waits for a retry[/]" if key.next_retry_at else "on its way",
            str(key.attempts),
            moment(key.next_retry_at),
            f"{key.waiting:,}",
            moment(key.since),
            plain(key.error, 80),
        )
    out.print(rows)
    if next_after is not None:
        out.print(plain(f"There may be more: --after {next_after!r}"))
