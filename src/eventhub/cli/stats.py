"""``eventhub stats``: every queue in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from eventhub.cli.options import Common, with_store
from eventhub.cli.output import console, document, duration, plain, records, table
from eventhub.core.events import Status

if TYPE_CHECKING:
    from eventhub.store import Store
    from eventhub.store.values import QueueStats

__all__ = ["app"]

app = App(name="stats")

_HEADS = {
    Status.PENDING: "pending",
    Status.PROCESSING: "processing",
    Status.COMPLETED: "completed",
    Status.COMPLETED_WITH_ERRORS: "with errors",
    Status.FAILED: "failed",
}


@app.default
def stats(
    *,
    queue: Annotated[str | None, Parameter(help="One queue, in more detail.")] = None,
    common: Common | None = None,
) -> None:
    """Show every queue in numbers: depth by status, waiting time, latency, failures."""
    json = bool(common and common.json)

    async def look(store: Store) -> tuple[list[QueueStats], list[str]]:
        found = await store.stats(queue)
        if json or queue is None or any(any(one.depth.values()) for one in found):
            return found, []
        return [], [other.queue for other in await store.stats()]

    found, others = with_store(common, look)
    if json:
        document({"queues": found})
        return
    if not found:
        elsewhere = f"No events in the queue {queue}. There are some in: {', '.join(others)}."
        console().print(plain(elsewhere if others else "No events yet."))
        return
    _print_queues(found)
    if queue is not None:
        _print_details(found[0])


def _print_queues(found: list[QueueStats]) -> None:
    numbers = [*_HEADS.values(), "waiting for retry", "oldest open", "latency p50", "p99", "failed attempts"]
    rows = table("queue", *numbers, numbers=numbers)
    for stats in found:
        rate = stats.failure_rate
        rows.add_row(
            stats.queue,
            *(f"{stats.depth.get(status, 0):,}" for status in _HEADS),
            f"{stats.waiting_for_retry:,}",
            duration(stats.oldest_pending_seconds),
            duration(stats.latency_p50_seconds),
            duration(stats.latency_p99_seconds),
            "" if rate is None else f"{rate:.1%}",
        )
    out = console()
    out.print(rows)
    out.print("Latency and failures are those of the last 10,000 log rows.", style="dim")


def _print_details(stats: QueueStats) -> None:
    groups = (
        ("open work by age", stats.ages),
        ("open work by attempts", {str(attempts): count for attempts, count in sorted(stats.attempts.items())}),
        ("handler results", stats.handler_results),
    )
    lines = [
        (title, plain(", ".join(f"{name}: {count:,}" for name, count in counts.items()) or "none"))
        for title, counts in groups
    ]
    console().print(records(lines))
