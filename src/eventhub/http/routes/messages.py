"""Messages to subscribers: where each one is, what was tried, and what an operator may do with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import UNSET, Meta
from msgspec.structs import replace

from eventhub.core.events import Status
from eventhub.http.answers import Answer, document, empty, given
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Asked, Id
from eventhub.http.bodies.messages import AttemptBody, MessageBody, MessageList
from eventhub.http.operations import Example, Operation
from eventhub.http.problems import Problem
from eventhub.http.visibility import messages_for, visible_page
from eventhub.store.messages import Attempt, Message, MessageFilter

__all__ = ["OPERATIONS"]

_NAMES: Final = {"status": "status_code", "worker": "worker_id"}
"""What the story of an attempt calls otherwise than we do."""


class MessageQuery(Asked):
    """Which messages; everything that is given must fit."""

    subscriber: Annotated[Id, Meta(description="The id of a subscriber.")] | None = None
    status: Status | None = None
    event_id: Id | None = None
    before: Annotated[Id, Meta(description="`next_before` of the page before.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


async def list_messages(ask: Ask) -> Answer:
    """Newest first; every page costs the same."""
    query: MessageQuery = ask.query
    store, scopes = ask.service.store, ask.principal.scopes
    wanted = MessageFilter(subscriber=query.subscriber, event_id=query.event_id, status=query.status)

    async def read(before: int | None, limit: int) -> list[Message]:
        return await store.messages(replace(wanted, before_id=before, limit=limit))

    async def choose(messages: Sequence[Message]) -> list[Message]:
        return await messages_for(store, scopes, messages)

    if scopes.reads_all:
        found = await read(query.before, query.limit)
        more = found[-1].id if len(found) == query.limit else None
    else:
        found, more = await visible_page(
            read, choose, lambda message: message.id, before=query.before, limit=query.limit
        )
    listed = [_shown(message) for message in found]
    return document(MessageList(messages=listed, limit=query.limit, next_before=more))


async def show_message(ask: Ask) -> Answer:
    """One message, with every attempt at it."""
    number = ask.id_of("Message")
    message = await _found(ask, number)
    scopes = ask.principal.scopes
    if not scopes.reads_all and not await messages_for(ask.service.store, scopes, [message]):
        raise Problem(404, "not-found", f"Message not found: {number}")
    body = _shown(message)
    body.attempts = [_attempt(attempt) for attempt in await ask.service.store.attempts(number)]
    return document(body)


async def retry(ask: Ask) -> Answer:
    """Due now, if it waits for a retry; a fresh start, if it is dead."""
    number = ask.id_of("Message")
    if not await ask.service.store.retry_message(number, by=ask.by):
        found = await _found(ask, number)
        raise _refused(found, "it neither waits for a retry nor is it dead")
    return document(_shown(await _found(ask, number)))


async def cancel(ask: Ask) -> Answer:
    """Not sent any more; a request that is under way changes nothing about that."""
    number = ask.id_of("Message")
    if not await ask.service.store.cancel_message(number, by=ask.by):
        raise _refused(await _found(ask, number), "there is nothing left to cancel")
    return empty()


async def bury(ask: Ask) -> Answer:
    """Moved to the dead letter queue by hand."""
    number = ask.id_of("Message")
    if not await ask.service.store.bury_message(number, by=ask.by):
        raise _refused(await _found(ask, number), "there is nothing left to give up")
    return document(_shown(await _found(ask, number)))


async def _found(ask: Ask, number: int) -> Message:
    found = await ask.service.store.message(number)
    if found is None:
        raise Problem(404, "not-found", f"Message not found: {number}")
    return found


def _refused(message: Message, why: str) -> Problem:
    return Problem(409, "wrong-status", f"Message {message.id} is {message.status}: {why}.")


def _shown(message: Message) -> MessageBody:
    return MessageBody(
        id=message.id,
        event_id=message.event_id,
        subscriber_id=message.subscriber,
        event_type=message.type,
        status=message.status,
        attempt_count=message.attempts,
        retry_count=message.retry_count,
        max_attempts=message.max_attempts,
        blocked=message.blocked,
        created_at=message.created_at,
        ordering_key=given(message.ordering_key),
        worker_id=given(message.worker),
        next_retry_at=given(message.next_retry_at),
        lease_expires_at=given(message.lease_expires_at),
        settled_at=given(message.settled_at),
        errors=list(message.errors) or UNSET,
    )


def _attempt(attempt: Attempt) -> AttemptBody:
    told = {_NAMES.get(name, name): value for name, value in attempt.detail.items() if value is not None}
    known = {name: value for name, value in told.items() if name in AttemptBody.__struct_fields__}
    return AttemptBody(**{**known, "fence": attempt.fence, "action": attempt.action, "created_at": attempt.created_at})


OPERATIONS: Final = (
    Operation(
        method="GET",
        path="/messages",
        name="list_messages",
        summary="List messages to subscribers, newest first",
        handle=list_messages,
        scope="read",
        in_part=True,
        group="Messages",
        query=MessageQuery,
        answers={200: MessageList},
        example=Example(query="status=PENDING&limit=10"),
    ),
    Operation(
        method="GET",
        path="/messages/{id}",
        name="show_message",
        summary="One message, with every attempt at it",
        handle=show_message,
        scope="read",
        in_part=True,
        group="Messages",
        answers={200: MessageBody},
        problems=(404,),
    ),
    Operation(
        method="POST",
        path="/messages/{id}/retry",
        name="retry_message",
        summary="Try a message again now that waits for its retry, or is dead",
        handle=retry,
        scope="admin",
        group="Messages",
        answers={200: MessageBody},
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/messages/{id}/cancel",
        name="cancel_message",
        summary="Send a message no more",
        handle=cancel,
        scope="admin",
        group="Messages",
        answers={204: None},
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/messages/{id}/dead-letter",
        name="bury_message",
        summary="Move a message to the dead letter queue",
        handle=bury,
        scope="admin",
        group="Messages",
        answers={200: MessageBody},
        problems=(404, 409),
    ),
)
