"""``eventhub dlq``: the dead letter queue from outside."""

from __future__ import annotations

import math
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, Parameter
from msgspec.structs import replace

from eventhub.cli.asking import confirmed, operator
from eventhub.cli.dead_filters import Which
from eventhub.cli.dead_letters import find_letter, print_letter, print_page, retry_ids, unpark_letter
from eventhub.cli.options import Common, with_store
from eventhub.cli.output import console, document, plain
from eventhub.cli.progress import bar, count_down, waiting
from eventhub.errors import SettingsError

if TYPE_CHECKING:
    from eventhub.store import Store
    from eventhub.store.messages import DeadFilter, DeadLetterPage

__all__ = ["app"]

app = App(
    name="dlq",
    help_epilogue="The id of a dead letter is that of its message, or of its event when it was work for a handler or "
    "a worker.",
)

MAX_PAGE: Final = 10_000
LARGEST_ID: Final = 2**63 - 1
MOST_DAYS: Final = 36_500
By = Annotated[str | None, Parameter(help="Who does it, for the record; by default your login.")]
DryRun = Annotated[bool, Parameter(help="Only say how many there are.", negative="")]


@app.command(name="list")
def list_dead(
    *,
    which: Which | None = None,
    offset: Annotated[int, Parameter(help="How many to pass over.")] = 0,
    limit: Annotated[int, Parameter(help="How many to list, from 1 to 10,000.")] = 50,
    common: Common | None = None,
) -> None:
    """List dead letters, the latest death first."""
    for option, value, least, most in (("offset", offset, 0, LARGEST_ID), ("limit", limit, 1, MAX_PAGE)):
        if not least <= value <= most:
            raise SettingsError(f"--{option} is {value}; give a whole number from {least:,} to {most:,}.")

    async def work(store: Store) -> DeadLetterPage:
        wanted = await (which or Which()).filter(store)
        return await store.dead_letters(replace(wanted, offset=offset, limit=limit))

    page = with_store(common, work)
    if common and common.json:
        document({"events": page.letters, "total": page.total, "offset": offset, "limit": limit})
    else:
        print_page(page, offset)


@app.command(name="show")
def show_dead(
    number: Annotated[int, Parameter(name="ID", help="The id of the dead letter.")],
    /,
    *,
    common: Common | None = None,
) -> None:
    """Show one dead letter with everything that is known about its failure, and its subscriber as it was then."""
    found = with_store(common, lambda store: find_letter(store, number))
    if common and common.json:
        document(found)
    else:
        print_letter(found)


@app.command(name="retry")
def retry_dead(
    *ids: Annotated[int, Parameter(name="ID", help="Ids of dead letters.", show=True)],
    all: Annotated[bool, Parameter(help="All of them instead, or all that fit.", negative="")] = False,  # noqa: A002
    which: Which | None = None,
    limit: Annotated[int | None, Parameter(help="At most so many of those that fit, the oldest first.")] = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, Parameter(help="Do not ask.", negative="")] = False,
    by: By = None,
    common: Common | None = None,
) -> int:
    """Give dead letters a fresh start: no errors, no attempts counted, due now."""
    which = which or Which()
    many = all or bool(which.given)
    if many == bool(ids):
        raise SettingsError("Give the ids of dead letters, or --all or what they must have, but not both.")
    if ids and (limit is not None or dry_run):
        raise SettingsError("--limit and --dry-run go with --all and what chooses; ids say all there is to say.")
    if limit is not None and limit < 1:
        raise SettingsError(f"--limit is {limit}; give 1 or more, or leave it out.")
    if many:
        return _retry_many(which, limit, operator(by), common, dry_run=dry_run, ask=not yes)
    with bar("dead letters", len(ids), quiet=bool(common and common.json)) as advance:
        retried, refused = with_store(common, lambda store: retry_ids(store, list(ids), operator(by), advance))
    if common and common.json:
        document({"retried": retried, "refused": [{"id": i, "error": error} for i, error in refused.items()]})
    else:
        console().print(
            f"{len(retried)} of {len(retried) + len(refused)} are due again." if retried else "None retried."
        )
        for error in refused.values():
            console(stderr=True).print(plain(f"eventhub: {error}"))
    return 1 if refused else 0


def _retry_many(which: Which, limit: int | None, by: str, common: Common | None, *, dry_run: bool, ask: bool) -> int:
    async def count(store: Store) -> int:
        found = await store.count_dead(await which.filter(store))
        return found if limit is None else min(found, limit)

    async def retry(store: Store) -> int:
        wanted, beyond = await which.filter(store), None

        async def left() -> int:
            nonlocal beyond
            found = await store.count_dead(wanted)
            if beyond is None:  # what the limit leaves alone
                beyond = 0 if limit is None else max(0, found - limit)
            return max(0, found - beyond)

        work = store.retry_dead_where(wanted, by=by, limit=limit)
        return await count_down("dead letters", work, left, quiet=bool(common and common.json))

    if dry_run:
        _tell(with_store(common, count), "Would be due again", common, dry_run=True)
        return 0
    if ask and sys.stdin.isatty() and sys.stderr.isatty():
        found = with_store(common, count)
        if found and not confirmed(f"Retry {found:,} dead letters now?", "retry"):
            console(stderr=True).print("Nothing was retried.")
            return 1
    _tell(with_store(common, retry), "Due again", common)
    return 0


@app.command(name="purge")
def purge_dead(
    *,
    older_than_days: Annotated[float, Parameter(help="The least age; 0 means all of them.")],
    by: Annotated[Literal["dead_at", "created_at"], Parameter(help="Age since death, or since creation.")] = "dead_at",
    which: Which | None = None,
    dry_run: DryRun = False,
    yes: Annotated[bool, Parameter(help="Do not ask.", negative="")] = False,
    common: Common | None = None,
) -> int:
    """Delete dead letters for good, and their events with them; parked ones hold a key and stay."""
    which = which or Which()
    if not math.isfinite(older_than_days) or not 0 <= older_than_days <= MOST_DAYS:
        raise SettingsError(f"--older-than-days is {older_than_days:g}; give days from 0 to {MOST_DAYS:,}.")
    if by == "created_at" and (dry_run or set(which.given) - {"queue"}):
        raise SettingsError("--by created_at goes with --queue alone; the other choices go by the time of death.")
    quiet = bool(common and common.json)

    async def wanted(store: Store) -> DeadFilter:
        found = await which.filter(store)
        end = await store.now() - timedelta(days=older_than_days)
        return replace(found, dead_until=end if found.dead_until is None else min(end, found.dead_until))

    async def count(store: Store) -> int:
        return (await store.dead_letters(replace(await wanted(store), limit=1))).total

    async def purge(store: Store) -> int:
        if by == "created_at":
            with waiting("Deleting dead letters", quiet=quiet):
                return await store.purge_dead(older_than=timedelta(days=older_than_days), by=by, queue=which.queue)
        work = store.purge_dead_where(await wanted(store))
        return await count_down("dead letters", work, lambda: count(store), quiet=quiet)

    if dry_run:
        _tell(with_store(common, count), "Would be deleted", common, dry_run=True)
        return 0
    what = {"dead_at": "died", "created_at": "were created"}[by]
    chosen = f" ({', '.join(f'{name} {getattr(which, name)}' for name in which.given)})" if which.given else ""
    question = f"Delete for good all dead letters{chosen} that {what} {older_than_days:g} days ago or earlier?"
    if not yes and not confirmed(question, "purge"):
        console(stderr=True).print("Nothing was deleted.")
        return 1
    purged = with_store(common, purge)
    if common and common.json:
        document({"purged": purged})
    else:
        console().print(f"{purged} dead letters deleted." if purged != 1 else "1 dead letter deleted.")
    return 0


@app.command(name="move")
def move_messages(
    *ids: Annotated[int, Parameter(name="ID", help="Ids of messages.", show=True)],
    by: By = None,
    common: Common | None = None,
) -> int:
    """Move messages that are open to the dead letter queue by hand, also while they are being sent."""
    if not ids:
        raise SettingsError("Give the ids of messages; `eventhub messages list` shows them.")

    async def work(store: Store) -> tuple[list[int], dict[int, str]]:
        moved, refused = [], {}
        with bar("messages", len(ids), quiet=bool(common and common.json)) as advance:
            for number in dict.fromkeys(ids):
                advance(1)
                possible = 0 < number <= LARGEST_ID
                if possible and await store.bury_message(number, by=operator(by)):
                    moved.append(number)
                    continue
                found = await store.message(number) if possible else None
                refused[number] = f"Message {number} is {found.status}" if found else f"Message not found: {number}"
        return moved, refused

    moved, refused = with_store(common, work)
    if common and common.json:
        document({"moved": moved, "refused": [{"id": i, "error": error} for i, error in refused.items()]})
    else:
        console().print(f"{len(moved)} of {len(moved) + len(refused)} lie in the dead letter queue now.")
        for error in refused.values():
            console(stderr=True).print(plain(f"eventhub: {error}"))
    return 1 if refused else 0


@app.command(name="unpark")
def unpark(
    number: Annotated[int, Parameter(name="ID", help="The id of a dead letter that is parked.")],
    /,
    *,
    by: By = None,
    common: Common | None = None,
) -> None:
    """Let the ordering key that a dead letter holds go on without it, of a queue or a subscriber; the letter stays."""
    letter = with_store(common, lambda store: unpark_letter(store, number, operator(by)))
    if common and common.json:
        document({"id": number, "key": letter.ordering_key})
    else:
        console().print(plain(f"The key {letter.ordering_key!r} goes on; the dead letter {number} stays."))


def _tell(count: int, what: str, common: Common | None, *, dry_run: bool = False) -> None:
    if common and common.json:
        document({"count": count, "dry_run": dry_run})
    else:
        console().print(f"{what}: {count:,}.")
