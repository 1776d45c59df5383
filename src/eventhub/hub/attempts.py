"""One attempt at a message: the request that is sent, and the story of it that is kept."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from eventhub._version import __version__
from eventhub.core.envelopes import envelope
from eventhub.core.signing import sign
from eventhub.core.subscribers import is_secret_header
from eventhub.hub.sending import WebhookAnswer, WebhookRequest
from eventhub.hub.subscribers import ReadySubscriber
from eventhub.store.messages import MessageClaim

__all__ = ["Hidden", "compose", "story", "webhook_id"]

AGENT: Final = f"eventhub/{__version__}"
Hidden: Final = "***"
_encode = msgspec.json.Encoder().encode


def webhook_id(hub: str, message_id: int) -> str:
    """The same for every attempt at a message, and unlike those of other hubs."""
    return f"msg_{hub[:12]}_{message_id}"


def compose(claim: MessageClaim, ready: ReadySubscriber, *, hub: str, now: float, until: float) -> WebhookRequest:
    """The signed request. What the subscriber adds comes first, so that it can replace nothing of ours."""
    timestamp = int(now)
    subscriber = ready.subscriber
    own, body = envelope(claim, subscriber.format, source=f"urn:eventhub:{hub}")
    number = webhook_id(hub, claim.held.id)
    headers = {
        "user-agent": AGENT,
        **ready.headers,
        **own,
        "webhook-id": number,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(ready.secrets, number, timestamp, body),
    }
    return WebhookRequest(
        url=subscriber.url,
        headers=headers,
        body=body,
        connect_timeout=subscriber.connect_timeout_seconds,
        total_timeout=subscriber.timeout_seconds,
        now=now,
        until=until,
    )


class _Story(msgspec.Struct, omit_defaults=True):
    url: str
    attempt: int
    worker: str
    status: int | None = None
    failure: str | None = None
    error: str | None = None
    dns_ms: float | None = None
    connect_ms: float | None = None
    first_byte_ms: float | None = None
    total_ms: float | None = None
    request_headers: dict[str, str] = {}
    response_headers: dict[str, str] = {}
    response_body: str = ""


def story(request: WebhookRequest, answer: WebhookAnswer, *, attempt: int, worker: str) -> str:
    """All that helps to understand an attempt, as JSON; what is secret in its headers is not in it."""
    told = _Story(
        url=request.url,
        attempt=attempt,
        worker=worker,
        status=answer.status,
        failure=answer.failure,
        error=answer.error,
        dns_ms=answer.dns_ms,
        connect_ms=answer.connect_ms,
        first_byte_ms=answer.first_byte_ms,
        total_ms=answer.total_ms,
        request_headers=_shown(request.headers),
        response_headers=_shown(answer.headers),
        response_body=answer.body.decode("utf-8", "replace").replace("\x00", "\ufffd"),  # PostgreSQL knows no NUL
    )
    return _encode(told).decode()


def _shown(headers: dict[str, Any]) -> dict[str, str]:
    return {name: Hidden if _is_secret(name) else value for name, value in headers.items()}


def _is_secret(name: str) -> bool:
    found = _known.get(name)
    if found is None:
        if len(_known) > 1000:  # noqa: PLR2004 - names come from servers elsewhere
            _known.clear()
        found = _known[name] = is_secret_header(name) or "cookie" in name.lower()
    return found


_known: dict[str, bool] = {}
