"""``eventhub dlq``: the dead letter queue from outside."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from eventhub.cli.events import described
from eventhub.cli.options import Common, with_store
from eventhub.cli.output import console, document, moment, plain, records, table
from eventhub.cli.output import status as coloured
from eventhub.core.events import DeadEvent
from eventhub.errors import EventHubError, SettingsError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from eventhub.bus import DLQInspector
    from eventhub.store import Store

__all__ = ["app"]

app = App(name="dlq")

PAGE = 1000
QueueOption = Annotated[str | None, Parameter(help="Only the dead letters of this queue.")]


@app.command(name="list")
def list_dead(
    *,
    queue: QueueOption = None,
    offset: Annotated[int, Parameter(help="How many to pass over.")] = 0,
    limit: Annotated[int, Parameter(help="How many to list, from 1 to 10,000.")] = 50,
    common: Common | None = None,
) -> None:
    """List dead letters, newest event first."""
    page = with_store(common, lambda store: _inspector(store).list(offset, limit, queue=queue))
    if common and common.json:
        document({"events": page.events, "total": page.total, "offset": offset, "limit": limit})
        return
    out = console()
    if not page.events:
        out.print("No dead letters." if not page.total else f"No dead letters from {offset} on, of {page.total}.")
        return
    rows = table("id", "type", "queue", "attempts", "dead since", "reason", "last error", numbers=("id", "attempts"))
    for event in page.events:
        rows.add_row(
            str(event.id),
            event.type,
            event.queue or "",
            str(event.attempts),
            moment(event.dead_at),
            event.reason,
            plain(event.errors[-1] if event.errors else "", 80),
        )
    out.print(rows)
    last = offset + len(page.events)
    out.print(f"{offset + 1} to {last} of {page.total}." + (f" Next: --offset {last}" if last < page.total else ""))


@app.command(name="show")
def show_dead(
    event_id: Annotated[int, Parameter(name="ID", help="The id of the event.")],
    /,
    *,
    common: Common | None = None,
) -> None:
    """Show one dead letter with everything that is known about its failure."""
    found = with_store(common, lambda store: _inspector(store).get(event_id))
    if common and common.json:
        document(found)
    else:
        _print_dead(found)


@app.command(name="retry")
def retry_dead(
    *ids: Annotated[int, Parameter(name="ID", help="Ids of dead events.", show=True)],
    all: Annotated[bool, Parameter(help="All of them instead, perhaps of one queue.", negative="")] = False,  # noqa: A002
    queue: Annotated[str | None, Parameter(help="With --all: only those of this queue.")] = None,
    by: Annotated[str | None, Parameter(help="Who does it, for the record; by default your login.")] = None,
    common: Common | None = None,
) -> int:
    """Give dead events a fresh start: no errors, no attempts counted, due now."""
    if all == bool(ids):
        raise SettingsError("Give the ids of dead events, or --all, but not both.")
    if queue is not None and not all:
        raise SettingsError("--queue goes with --all; ids need no queue.")
    operator = by or _login()

    async def work(store: Store) -> tuple[list[int], dict[int, str]]:
        inspector = _inspector(store)
        wanted = await _all_dead(inspector, queue) if all else list(ids)
        return await _retry(inspector, wanted, operator)

    retried, refused = with_store(common, work)
    if all:
        refused = {}  # somebody else was faster with these
    if common and common.json:
        document({"retried": retried, "refused": [{"id": i, "error": error} for i, error in refused.items()]})
    else:
        console().print(
            f"{len(retried)} of {len(retried) + len(refused)} are due again." if retried else "None retried."
        )
        for error in refused.values():
            console(stderr=True).print(plain(f"eventhub: {error}"))
    return 1 if refused else 0


@app.command(name="purge")
def purge_dead(
    *,
    older_than_days: Annotated[float, Parameter(help="The least age; 0 means all of them.")],
    by: Annotated[Literal["dead_at", "created_at"], Parameter(help="Age since death, or since creation.")] = "dead_at",
    queue: QueueOption = None,
    yes: Annotated[bool, Parameter(help="Do not ask.", negative="")] = False,
    common: Common | None = None,
) -> int:
    """Delete dead letters for good, and their events with them."""
    if not yes and not _confirmed(older_than_days, by, queue):
        console(stderr=True).print("Nothing was deleted.")
        return 1
    purged = with_store(common, lambda store: _inspector(store).purge(older_than_days, by=by, queue=queue))
    if common and common.json:
        document({"purged": purged})
    else:
        console().print(f"{purged} dead letters deleted." if purged != 1 else "1 dead letter deleted.")
    return 0


def _inspector(store: Store) -> DLQInspector:
    from eventhub.bus import DLQInspector

    return DLQInspector(store)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "eventhub dlq retry"


async def _all_dead(inspector: DLQInspector, queue: str | None) -> list[int]:
    """The ids of all dead events, taken down before any is retried, so that none is retried twice."""
    found: dict[int, None] = {}
    offset = 0
    while page := (await inspector.list(offset, PAGE, queue=queue)).events:
        found.update(dict.fromkeys(event.id for event in page))
        offset += len(page)
    return list(found)


async def _retry(inspector: DLQInspector, ids: list[int], operator: str) -> tuple[list[int], dict[int, str]]:
    retried: list[int] = []
    refused: dict[int, str] = {}
    for start in range(0, len(ids), PAGE):
        batch = list(dict.fromkeys(ids[start : start + PAGE]))
        revived = await inspector.retry_many(batch, by=operator)
        retried += [event_id for event_id in batch if event_id in revived]
        for event_id in batch:
            if event_id in revived:
                continue
            try:
                await inspector.retry(event_id, by=operator)
            except EventHubError as error:
                refused[event_id] = str(error)
            else:  # it died in between
                retried.append(event_id)
    return retried, refused


def _confirmed(days: float, by: str, queue: str | None) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise SettingsError("purge deletes for good: add --yes when nobody is there to be asked.")
    what = {"dead_at": "died", "created_at": "were created"}[by]
    where = f" of queue {queue}" if queue else ""
    sys.stderr.write(f"Delete for good all dead letters{where} that {what} {days:g} days ago or earlier? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_dead(event: DeadEvent) -> None:
    out = console()
    pairs: list[tuple[str, RenderableType]] = [
        ("id", str(event.id)),
        ("type", event.type),
        ("status", coloured(event.status)),
        ("queue", event.queue or ""),
        ("reason", event.reason),
        ("attempts", f"{event.attempts}, of which {event.retry_count} failed"),
        ("created", moment(event.created_at)),
        ("dead since", moment(event.dead_at)),
        ("last worker", plain(event.worker)),
        ("retried", f"{moment(event.retried_at)} by {event.retried_by}" if event.retried_at else ""),
        *described(event),
    ]
    out.print(records(pairs))
    if event.errors:
        rows = table("attempt", "error", numbers=("attempt",))
        for place, error in enumerate(event.errors, 1):
            rows.add_row(str(place), plain(error))
        out.print(rows)
    if event.retried_at is None:
        out.print(f"Give it another chance: eventhub dlq retry {event.id}")
