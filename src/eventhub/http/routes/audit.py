"""The audit log over HTTP, for administrators."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta
from msgspec.structs import asdict

from eventhub.errors import InvalidEventError
from eventhub.http.answers import Answer, document
from eventhub.http.asking import Ask, as_moment
from eventhub.http.bodies.basics import Answered, Asked, Id, Moment, Time
from eventhub.http.operations import Operation
from eventhub.http.problems import Problem
from eventhub.store.audit import AuditEntry, AuditFilter

__all__ = ["OPERATIONS"]

Named = Annotated[str, Meta(min_length=1, max_length=200)]


class AuditQuery(Asked):
    actor: Annotated[Named, Meta(description="The name of a key or of a user.")] | None = None
    action: Annotated[Named, Meta(description="Such as `key.revoke`; `key` for all of its kind.")] | None = None
    target: Annotated[Named, Meta(description="Such as `subscriber:7` or `key:…`.")] | None = None
    since: Moment | None = None
    until: Moment | None = None
    before: Annotated[Id, Meta(description="`next_before` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class AuditEntryBody(Answered):
    """One administrative act."""

    id: int
    created_at: Time
    actor: str
    actor_kind: Annotated[str, Meta(description="`key`, `owner`, `user`, `hub` or `visitor`.")]
    key_id: str | None
    address: str | None
    action: str
    target: str | None
    details: dict[str, Any]


class AuditList(Answered):
    entries: list[AuditEntryBody]
    limit: int
    next_before: int | None


async def list_audit(ask: Ask) -> Answer:
    """Newest first; a page costs the same wherever it begins."""
    query: AuditQuery = ask.query
    if any("\x00" in (text or "") for text in (query.actor, query.action, query.target)):
        raise Problem(400, "invalid-query", "A filter contains a NUL character; remove it.")
    wanted = AuditFilter(
        actor=query.actor,
        action=query.action,
        target=query.target,
        since=_moment(query.since),
        until=_moment(query.until),
        before_id=query.before,
        limit=query.limit,
    )
    found: list[AuditEntry] = await ask.service.store.audit(wanted)
    more = found[-1].id if len(found) == query.limit else None
    entries = [AuditEntryBody(**asdict(entry)) for entry in found]
    return document(AuditList(entries=entries, limit=query.limit, next_before=more))


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else as_moment(text)
    except InvalidEventError as error:
        raise Problem(400, "invalid-query", str(error)) from None


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/audit",
        name="list_audit",
        summary="Who did what: keys, subscribers, secrets, dead letters, replays, resets, sign-ins",
        description="Each act is written down in its own transaction. Refused sign-ins are counted per address.",
        handle=list_audit,
        scope="admin",
        group="Operating",
        query=AuditQuery,
        answers={200: AuditList},
    ),
)
