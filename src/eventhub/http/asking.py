"""A request after it has passed the gate: what handlers get."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from eventhub.errors import EventNotFound, InvalidEventError, SubscriberNotFound
from eventhub.http.bodies.basics import LARGEST_ID
from eventhub.http.problems import Problem
from eventhub.http.reading import Receive
from eventhub.store.audit import Actor

if TYPE_CHECKING:
    from eventhub.http.intake import ReceivedBytes
    from eventhub.http.service import Service
    from eventhub.keys import Principal

__all__ = ["Ask", "address_of", "as_id", "as_moment"]

LONGEST_ID = len(str(LARGEST_ID))
MAX_FORWARDED: Final = 100
_WITH_ZONE: Final = Annotated[datetime, Meta(tz=True)]


def as_id(text: str) -> int | None:
    """The number that a text is, if an event can have it."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_ID else 0
    return number if 0 < number <= LARGEST_ID else None


def as_moment(text: str) -> datetime:
    """The time that a text is, with its zone."""
    try:
        moment: datetime = msgspec.convert(text, _WITH_ZONE)
        return moment.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        raise InvalidEventError(f"{text[:40]!r} is no time; give one such as 2026-01-31T12:00:00Z.") from None


def address_of(client: Any, headers: Mapping[bytes, bytes]) -> str:
    """The neighbour's address; and, as far as it may be believed, for whom a proxy says that it asks."""
    peer = "" if client is None else str(client[0])
    named = headers.get(b"x-forwarded-for", b"").decode("latin-1").strip()[:MAX_FORWARDED]
    return f"{peer} for {named}" if named.isprintable() and named else peer


class Ask:
    """One request: who asks, what for, and what came with it."""

    __slots__ = (
        "_receive",
        "_scope",
        "body",
        "content_type",
        "headers",
        "parameters",
        "principal",
        "query",
        "raw",
        "received",
        "service",
    )

    def __init__(
        self,
        service: Service,
        headers: dict[bytes, bytes],
        principal: Principal,
        parameters: MutableMapping[str, str],
        receive: Receive,
        *,
        scope: Any,
    ) -> None:
        self.service = service
        self.headers = headers
        self.principal = principal
        self.parameters = parameters
        self.query: Any = None
        self.body: Any = None
        self.raw = b""
        self.received: ReceivedBytes
        self.content_type = ""
        self._receive = receive
        self._scope = scope

    @property
    def event_id(self) -> int:
        """The id in the path; one that no event can have is an event that is not there."""
        text = self.parameters["id"]
        number = as_id(text)
        if number is None:
            raise EventNotFound(f"Event not found: {text[:40]}")
        return number

    @property
    def subscriber_id(self) -> int:
        """The id of a subscriber in the path."""
        text = self.parameters["id"]
        number = as_id(text)
        if number is None:
            raise SubscriberNotFound(f"Subscriber not found: {text[:40]}")
        return number

    def id_of(self, kind: str) -> int:
        """The id in the path of something else."""
        text = self.parameters["id"]
        number = as_id(text)
        if number is None:
            raise Problem(404, "not-found", f"{kind} not found: {text[:40]}")
        return number

    @property
    def by(self) -> str:
        """Who asks, for the record."""
        return self.principal.name

    @property
    def actor(self) -> Actor:
        """Who asks, for the audit log."""
        who = self.principal
        if who.id:
            return Actor(who.name, "key", self.address, who.id)
        return Actor(who.name, "owner" if who is self.service.owner else "visitor", self.address)

    @property
    def client(self) -> Any:
        """Address and port of the neighbour."""
        return self._scope.get("client")

    @property
    def address(self) -> str:
        """Where the request comes from."""
        return address_of(self._scope.get("client"), self.headers)

    def let_go_of_body(self) -> None:
        """Before a long wait: the body was read, and its bytes are needed no more."""
        self.raw = b""
        self.received.release()

    def header(self, name: bytes) -> str | None:
        """A header as text, None when it is missing."""
        value = self.headers.get(name)
        if value is None:
            return None
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            raise Problem(400, "invalid-header", f"The header {name.decode()} is not UTF-8.") from None

    async def is_welcome(self, scope: str) -> bool:
        """Whether whoever asked may still do this: their key or session may have ended since."""
        principal = await self.service.gate.recognise(self.headers, self._scope)
        return principal is not None and principal.scopes.allows(scope)

    async def gone(self) -> None:
        """Returns when the client has hung up."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
