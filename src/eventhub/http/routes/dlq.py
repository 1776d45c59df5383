"""The dead letter queue: look, give another chance to one or to many, throw away."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from eventhub.core.matching import check_name, check_type
from eventhub.errors import InvalidEventError, NotDeadError
from eventhub.http.answers import Answer, document, given
from eventhub.http.asking import Ask, as_moment
from eventhub.http.bodies.basics import Counted
from eventhub.http.bodies.messages import (
    DeadFilterBody,
    DeadGroupBody,
    DeadGroupList,
    DeadLetterBody,
    DeadLetterList,
    DeadLetterRetried,
    DeadQuery,
    ListedDeadLetter,
    PurgeQuery,
    RetryDeadBody,
)
from eventhub.http.operations import Example, Operation
from eventhub.http.problems import Problem
from eventhub.http.publishing import job_type
from eventhub.http.visibility import visible_page
from eventhub.store.dead_groups import group_dead, of_fingerprint
from eventhub.store.messages import DeadFilter, DeadLetter

__all__ = ["OPERATIONS"]


async def list_dead(ask: Ask) -> Answer:
    """The latest death first; the total counts the filter."""
    query: DeadQuery = ask.query
    wanted = await _wanted(ask, query, status=400)
    if not ask.principal.scopes.reads_all:
        return await _list_visible(ask, replace(wanted, before_id=query.before, limit=query.limit))
    page = await ask.service.store.dead_letters(replace(wanted, before_id=query.before, limit=query.limit))
    more = page.letters[-1].letter_id if len(page.letters) == query.limit else None
    listed = [ListedDeadLetter(**_summary(letter)) for letter in page.letters]
    return document(DeadLetterList(dead_letters=listed, total=page.total, limit=query.limit, next_before=more))


async def _list_visible(ask: Ask, wanted: DeadFilter) -> Answer:
    """For a key that may read in part: without the total, which counts what others have."""
    scopes, store = ask.principal.scopes, ask.service.store

    async def read(before: int | None, limit: int) -> list[DeadLetter]:
        return (await store.dead_letters(replace(wanted, before_id=before, limit=limit))).letters

    async def choose(letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        return [letter for letter in letters if scopes.allows_read(letter.type, letter.tags)]

    found, more = await visible_page(
        read, choose, lambda letter: letter.letter_id, before=wanted.before_id, limit=wanted.limit
    )
    listed = [ListedDeadLetter(**_summary(letter)) for letter in found]
    return document(DeadLetterList(dead_letters=listed, limit=wanted.limit, next_before=more))


async def list_groups(ask: Ask) -> Answer:
    """The latest deaths by what they died of."""
    found = await group_dead(ask.service.store, await _wanted(ask, ask.query, status=400))
    groups = [DeadGroupBody(**msgspec.structs.asdict(group)) for group in found.groups]
    return document(DeadGroupList(groups=groups, looked_at=found.looked_at, more=found.more))


async def show_dead(ask: Ask) -> Answer:
    """One dead letter, whole."""
    number = ask.id_of("Dead letter")
    letter = await _found(ask, number)
    if not ask.principal.scopes.allows_read(letter.type, letter.tags):
        raise Problem(404, "not-found", f"Dead letter not found: {number}")
    return document(_shown(letter))


async def retry_one(ask: Ask) -> Answer:
    """A fresh start: no errors, no retries counted, due now."""
    number = ask.id_of("Dead letter")
    if not await ask.service.store.retry_dead([number], by=ask.by):
        await _found(ask, number)
        raise NotDeadError(f"{number} was retried already, and is not dead again.")
    return document(Counted(count=1))


async def retry_many(ask: Ask) -> Answer:
    """The same for all that fit; a dry run says how many."""
    body: RetryDeadBody = ask.body
    if (body.ids is None) == (body.filter is None):
        raise Problem(422, "invalid-request", "Give ids or a filter, one of the two.", pointer="")
    if body.ids is not None:
        wanted = DeadFilter(ids=tuple(dict.fromkeys(body.ids)))
    else:
        wanted = await _wanted(ask, body.filter or DeadFilterBody(), status=422, under="/filter")
    store = ask.service.store
    count = await (store.count_dead(wanted) if body.dry_run else store.retry_dead_where(wanted, by=ask.by))
    return document(DeadLetterRetried(count=count, dry_run=body.dry_run))


async def purge(ask: Ask) -> Answer:
    """Deletes what has been dead for long, for good; what holds an ordering key stays."""
    query: PurgeQuery = ask.query
    store = ask.service.store
    wanted = await _wanted(ask, query, status=400)
    before = await store.now() - timedelta(days=query.older_than_days)
    wanted = replace(wanted, dead_until=before if wanted.dead_until is None else min(before, wanted.dead_until))
    return document(Counted(count=await store.purge_dead_where(wanted)))


async def _found(ask: Ask, number: int) -> DeadLetter:
    found = await ask.service.store.dead_letter(number)
    if found is None:
        raise Problem(404, "not-found", f"Dead letter not found: {number}")
    return found


async def _wanted(ask: Ask, given: DeadFilterBody, *, status: int, under: str = "") -> DeadFilter:
    wanted = _filter(given, status=status, under=under)
    if given.fingerprint is None:
        return wanted
    return await of_fingerprint(ask.service.store, wanted, given.fingerprint)


def _filter(given: DeadFilterBody, *, status: int, under: str = "") -> DeadFilter:
    def checked(name: str, value: Any, check: Any) -> Any:
        try:
            return None if value is None else check(value)
        except InvalidEventError as error:
            raise Problem(status, "invalid-request", str(error), pointer=f"{under}/{name}") from None

    return DeadFilter(
        queue=checked("queue", given.queue, lambda name: check_name("The queue", name)),
        subscriber=given.subscriber,
        type=checked("type", given.type, check_type),
        reason=given.reason,
        error=given.error,
        dead_since=checked("since", given.since, as_moment),
        dead_until=checked("until", given.until, as_moment),
    )


def _summary(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.delivery_id,
        "event_id": letter.id,
        "queue": letter.queue,
        "status": letter.status,
        "reason": letter.reason,
        "attempt_count": letter.attempts,
        "retry_count": letter.retry_count,
        "parked": letter.parked,
        "created_at": letter.created_at,
        "dead_at": letter.dead_at,
        "subscriber_id": given(letter.subscriber),
        "event_type": job_type(letter.type),
        "ordering_key": given(letter.ordering_key),
        "error": letter.errors[-1] if letter.errors else UNSET,
    }


def _shown(letter: DeadLetter) -> DeadLetterBody:
    return DeadLetterBody(
        **_summary(letter),
        title=letter.title,
        description=letter.description,
        tags=",".join(letter.tags) or None,
        payload=letter.payload,
        errors=letter.errors,
        max_attempts=letter.max_attempts,
        metadata=letter.metadata or UNSET,
        subscriber=given(letter.consumer),
        worker_id=given(letter.worker),
        retried_at=given(letter.retried_at),
        retried_by=given(letter.retried_by),
    )


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/dlq",
        name="list_dead",
        summary="List dead letters, the latest death first",
        handle=list_dead,
        scope="read",
        in_part=True,
        group="Dead letters",
        query=DeadQuery,
        answers={200: DeadLetterList},
        example=Example(query="reason=retries_exhausted&limit=10"),
    ),
    Operation(
        method="GET",
        path="/dlq/groups",
        name="group_dead",
        summary="The latest 10,000 dead letters by what they died of",
        handle=list_groups,
        scope="read",
        group="Dead letters",
        query=DeadFilterBody,
        answers={200: DeadGroupList},
        example=Example(query="reason=retries_exhausted"),
    ),
    Operation(
        method="GET",
        path="/dlq/{id}",
        name="show_dead",
        summary="One dead letter with its event, its subscriber as it was then, and all its errors",
        handle=show_dead,
        scope="read",
        in_part=True,
        group="Dead letters",
        answers={200: DeadLetterBody},
        problems=(404,),
    ),
    Operation(
        method="POST",
        path="/dlq/{id}/retry",
        name="retry_dead",
        summary="Give a dead letter a fresh start",
        handle=retry_one,
        scope="admin",
        group="Dead letters",
        answers={200: Counted},
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/dlq/retry",
        name="retry_dead_many",
        summary="Give many dead letters a fresh start, by their ids or by a filter",
        handle=retry_many,
        scope="admin",
        group="Dead letters",
        body=RetryDeadBody,
        answers={200: DeadLetterRetried},
        example=Example(body={"filter": {"reason": "retries_exhausted"}, "dry_run": True}),
    ),
    Operation(
        method="DELETE",
        path="/dlq",
        name="purge_dead",
        summary="Delete what has been dead for long",
        handle=purge,
        scope="admin",
        group="Dead letters",
        query=PurgeQuery,
        answers={200: Counted},
        example=Example(query="older_than_days=30"),
    ),
)
