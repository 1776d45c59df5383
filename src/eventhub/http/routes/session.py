"""Signing in with a browser: an API key once, then a cookie."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from eventhub._version import __version__
from eventhub.http.answers import NO_STORE, Answer, document, empty
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Answered, Asked
from eventhub.http.operations import ANY_KEY, Example, Operation
from eventhub.http.problems import Problem
from eventhub.store.audit import Act, Actor, acting_as

__all__ = ["OPERATIONS"]


SESSION: Final = 4096
"""Bytes of a body that anybody may send."""


class NewSession(Asked):
    key: Annotated[str, Meta(min_length=1, max_length=256, description="An API key: eh_<id>_<secret>.")]


class SessionBody(Answered):
    """Who asks, and what there is to see."""

    name: str
    scopes: list[str]
    keyless: Annotated[bool, Meta(description="There is no API key yet, and whoever sits at this machine may do all.")]
    version: str
    engine: Literal["sqlite", "postgres"]
    lake: Annotated[bool, Meta(description="Whether history was ever copied to the lake.")]


async def begin(ask: Ask) -> Answer:
    """Changes a key for a cookie that lasts twelve hours, or as long as the key."""
    service = ask.service
    principal = await service.keys.verify(ask.body.key)
    if principal is None:
        service.refuse_key(ask.client, ask.headers, how="session")
        raise Problem(401, "unauthorized", "This API key is not good. Check it, or make one: eventhub keys create.")
    with acting_as(Actor(principal.name, "key", ask.address, principal.id)):
        await service.store.record_act(Act("session.begin"))
    cookie = service.sessions.begin(principal.id, secure=_is_secure(ask))
    return empty(headers=(*NO_STORE, (b"set-cookie", cookie)))


async def show(ask: Ask) -> Answer:
    """Who asks."""
    service, principal = ask.service, ask.principal
    body = SessionBody(
        name=principal.name,
        scopes=list(principal.scopes.texts),
        keyless=principal is service.owner,
        version=__version__,
        engine="sqlite" if service.store.engine == "sqlite" else "postgres",
        lake=bool(await service.store.lake_commits("events", limit=1)),
    )
    return document(body, headers=NO_STORE)


async def end(ask: Ask) -> Answer:
    """Ends the session, whoever has its cookie; the key lives on."""
    principal = await ask.service.sessions.sign_out(ask.headers)
    if principal is not None:
        with acting_as(Actor(principal.name, "key", ask.address, principal.id)):
            await ask.service.store.record_act(Act("session.end"))
    cookie = ask.service.sessions.end(secure=_is_secure(ask))
    return empty(headers=(*NO_STORE, (b"set-cookie", cookie)))


def _is_secure(ask: Ask) -> bool:
    """Whether a proxy says that the browser came by https; one that lies loses its own cookie only."""
    return ask.headers.get(b"x-forwarded-proto", b"").strip().lower() == b"https"


OPERATIONS: Final = (
    Operation(
        method="POST",
        path="/session",
        name="begin_session",
        summary="Sign a browser in: an API key for a cookie",
        description="The cookie counts where no key is sent, for twelve hours at most, and ends with its key.",
        handle=begin,
        scope=None,
        group="Dashboard",
        body=NewSession,
        limit=SESSION,
        answers={204: None},
        problems=(401, 429, 503),
        example=Example(body={"key": "eh_2bX9dLq0aZ7p_Jm4tWc8RvKx1YhNq6bTzAe3GfUs5PoDi"}),
    ),
    Operation(
        method="GET",
        path="/session",
        name="show_session",
        summary="Who asks, and what there is to see",
        handle=show,
        scope=ANY_KEY,
        group="Dashboard",
        answers={200: SessionBody},
    ),
    Operation(
        method="DELETE",
        path="/session",
        name="end_session",
        summary="Sign a browser out",
        handle=end,
        scope=None,
        group="Dashboard",
        answers={204: None},
    ),
)
