"""Subscribers: who gets which events by webhook; made, changed, paused and removed."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta
from msgspec.structs import asdict

from eventhub.core.subscribers import Subscriber
from eventhub.errors import SubscriberChanged
from eventhub.http.answers import NO_STORE, Answer, document
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Asked, Counted
from eventhub.http.bodies.subscribers import (
    CreatedSubscriber,
    NewSubscriberBody,
    RotateSecretBody,
    SecretBody,
    SentTest,
    SubscriberBody,
    SubscriberChanges,
    SubscriberList,
)
from eventhub.http.operations import Example, Operation
from eventhub.http.problems import Problem
from eventhub.hub.subscribers import SubscriberView
from eventhub.store.audit import Act

__all__ = ["OPERATIONS"]


class ReasonQuery(Asked):
    reason: Annotated[str, Meta(max_length=1000, description="Shown with the subscriber.")] | None = None


async def create(ask: Ask) -> Answer:
    """A new subscriber; this answer is the only one that has its secret."""
    given = asdict(ask.body)
    own = given.pop("secret")
    view, secret = await ask.service.book.create(Subscriber(**given), secret=own)
    return document(CreatedSubscriber(**_members(view), secret=secret), 201, (*NO_STORE, *_tag(view)))


async def list_subscribers(ask: Ask) -> Answer:
    """All of them, by name."""
    return document(SubscriberList(subscribers=[_shown(view) for view in await ask.service.book.list()]))


async def show(ask: Ask) -> Answer:
    """One subscriber."""
    return _answer(await ask.service.book.get(ask.subscriber_id))


async def change(ask: Ask) -> Answer:
    """Changes what is named; with If-Match only if nobody else has changed it since."""
    number, book = ask.subscriber_id, ask.service.book
    changes = {name: value for name, value in asdict(ask.body).items() if value is not UNSET}
    wanted = ask.header(b"if-match")
    if wanted is None or wanted.strip() == "*":
        return _answer(await book.update(number, changes))
    view = await book.get(number)
    known = {part.strip().removeprefix("W/").strip('"') for part in wanted.split(",")}
    if str(view.version) not in known:
        raise Problem(412, "subscriber-changed", f"Subscriber {number} has version {view.version}. Read it again.")
    try:
        return _answer(await book.update(number, changes, expected_version=view.version))
    except SubscriberChanged as error:
        raise Problem(412, "subscriber-changed", str(error)) from None


async def remove(ask: Ask) -> Answer:
    """Forgets a subscriber; the count is that of its messages that are cancelled with it."""
    return document(Counted(count=await ask.service.book.remove(ask.subscriber_id, by=ask.by)))


async def enable(ask: Ask) -> Answer:
    """Active again."""
    return _answer(await ask.service.book.enable(ask.subscriber_id))


async def disable(ask: Ask) -> Answer:
    """Gets nothing until it is enabled; what comes meanwhile waits."""
    return _answer(await ask.service.book.disable(ask.subscriber_id, ask.query.reason))


async def pause(ask: Ask) -> Answer:
    """Gets nothing until it is resumed; what comes meanwhile waits."""
    return _answer(await ask.service.book.pause(ask.subscriber_id, ask.query.reason))


async def resume(ask: Ask) -> Answer:
    """Active again after a pause."""
    return _answer(await ask.service.book.resume(ask.subscriber_id))


async def rotate_secret(ask: Ask) -> Answer:
    """A new secret; the old one signs beside it for the overlap."""
    body: RotateSecretBody = ask.body
    overlap = timedelta(seconds=body.overlap_seconds)
    secret = await ask.service.book.rotate_secret(ask.subscriber_id, overlap, secret=body.secret)
    return document(SecretBody(secret=secret), 200, NO_STORE)


async def send_test(ask: Ask) -> Answer:
    """An event of the type hub.test, for this subscriber alone and whatever types it wants."""
    service = ask.service
    view = await service.book.get(ask.subscriber_id)
    await service.check_room(1)
    act = Act("subscriber.test", f"subscriber:{view.id}")
    (published,) = await service.store.publish([service.publisher.compose_test(view.id)], act=act)
    service.metrics.received()
    return document(SentTest(event_id=published.id), 202)


def _answer(view: SubscriberView) -> Answer:
    return document(_shown(view), 200, _tag(view))


def _tag(view: SubscriberView) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"etag", f'"{view.version}"'.encode()),)


def _shown(view: SubscriberView) -> Any:
    return SubscriberBody(**_members(view))


def _members(view: SubscriberView) -> dict[str, Any]:
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


_EXAMPLE: Final = {"name": "shipping", "url": "https://example.com/hooks", "event_type": "order.*"}


def _move(verb: str, summary: str, handle: Any, query: Any = None) -> Operation:
    return Operation(
        method="POST",
        path=f"/subscribers/{{id}}/{verb}",
        name=f"{verb}_subscriber",
        summary=summary,
        handle=handle,
        scope="admin",
        group="Subscribers",
        query=query,
        answers={200: SubscriberBody},
        problems=(404, 409),
    )


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/subscribers",
        name="create_subscriber",
        summary="Make a subscriber; its secret is shown once",
        handle=create,
        scope="admin",
        group="Subscribers",
        body=NewSubscriberBody,
        answers={201: CreatedSubscriber},
        problems=(409,),
        example=Example(body=_EXAMPLE),
    ),
    Operation(
        method="GET",
        path="/subscribers",
        name="list_subscribers",
        summary="Every subscriber, by name",
        handle=list_subscribers,
        scope="read",
        group="Subscribers",
        answers={200: SubscriberList},
    ),
    Operation(
        method="GET",
        path="/subscribers/{id}",
        name="show_subscriber",
        summary="One subscriber",
        handle=show,
        scope="read",
        group="Subscribers",
        answers={200: SubscriberBody},
        problems=(404,),
    ),
    Operation(
        method="PATCH",
        path="/subscribers/{id}",
        name="change_subscriber",
        summary="Change what is named in the body",
        handle=change,
        scope="admin",
        group="Subscribers",
        body=SubscriberChanges,
        answers={200: SubscriberBody},
        problems=(404, 409, 412),
        headers=(("If-Match", "The version that is to be changed, as in the ETag; 412 when there is another by now."),),
        example=Example(body={"event_type": "order.placed", "rate_per_second": 50}),
    ),
    Operation(
        method="DELETE",
        path="/subscribers/{id}",
        name="remove_subscriber",
        summary="Remove a subscriber and cancel its open messages; answers with their number",
        handle=remove,
        scope="admin",
        group="Subscribers",
        answers={200: Counted},
        problems=(404,),
    ),
    _move("enable", "Let a disabled subscriber get messages again", enable),
    _move("disable", "Hold all messages until it is enabled", disable, ReasonQuery),
    _move("pause", "Hold all messages until it is resumed", pause, ReasonQuery),
    _move("resume", "End a pause", resume),
    Operation(
        method="POST",
        path="/subscribers/{id}/rotate-secret",
        name="rotate_secret",
        summary="A new secret; the old one signs beside it for the overlap",
        handle=rotate_secret,
        scope="admin",
        group="Subscribers",
        body=RotateSecretBody,
        body_optional=True,
        answers={200: SecretBody},
        problems=(404, 409),
        example=Example(body={"overlap_seconds": 86_400}),
    ),
    Operation(
        method="POST",
        path="/subscribers/{id}/test",
        name="test_subscriber",
        summary="Send an event of the type hub.test to this subscriber alone",
        handle=send_test,
        scope="admin",
        group="Subscribers",
        answers={202: SentTest},
        problems=(404, 503),
    ),
)
