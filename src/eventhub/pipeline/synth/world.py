"""The made-up company whose history is told: its events, who works on them, who subscribes, and what goes wrong."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

__all__ = [
    "DISPATCHERS",
    "EACH",
    "ERRORS",
    "KINDS_OF_ERRORS",
    "NOTES",
    "QUEUES",
    "REPLACED",
    "TYPES",
    "WEB_ERRORS",
    "WORKERS_EACH",
    "EventType",
    "workers_of",
]

Wanted = Literal["work", "both", "broadcast", "nobody"]


class EventType(NamedTuple):
    """A type of events: who wants it, how long it takes, and how much likelier than others it fails."""

    name: str
    queue: str
    tags: str | None
    median_ms: int
    fails: float = 1.0
    wanted: Wanted = "work"


TYPES: Final = (
    EventType("page.viewed", "analytics", None, 4, 0.2),
    EventType("order.created", "orders", "orders,eu", 35),
    EventType("email.requested", "mail", "mail", 180, 1.5),
    EventType("order.paid", "orders", "orders,eu", 60, 1.2, "both"),
    EventType("stock.changed", "stock", "stock", 12, 0.4),
    EventType("search.indexed", "analytics", "search", 25, 0.6),
    EventType("cart.updated", "orders", None, 8, 0.3),
    EventType("user.signed_in", "analytics", "users", 5, 0.1, "nobody"),
    EventType("order.shipped", "orders", "orders,shipping", 45, 1.0, "broadcast"),
    EventType("invoice.created", "billing", "billing", 220, 1.4),
    EventType("invoice.paid", "billing", "billing", 90, 1.0, "broadcast"),
    EventType("user.registered", "mail", "users", 140, 0.8, "both"),
    EventType("image.uploaded", "media", "media,large", 1_400, 2.0),
    EventType("thumbnail.made", "media", "media", 320, 1.1),
    EventType("refund.requested", "billing", "billing,urgent", 400, 3.0),
    EventType("address.changed", "stock", "users", 15, 0.5, "broadcast"),
    EventType("report.requested", "reports", "reports", 5_200, 2.5),
    EventType("coupon.used", "orders", None, 10, 0.3, "nobody"),
    EventType("parcel.located", "stock", "shipping", 9, 0.4, "broadcast"),
    EventType("fraud.suspected", "billing", "billing,urgent", 800, 2.0),
    EventType("sms.requested", "mail", "mail,sms", 260, 4.0),
    EventType("price.changed", "stock", "stock", 11, 0.3, "broadcast"),
    EventType("backup.finished", "reports", "reports", 60, 0.2, "nobody"),
    EventType("user.deleted", "reports", "users,urgent", 2_000, 1.5, "both"),
)
"""The commonest first."""
QUEUES: Final = tuple(dict.fromkeys(kind.queue for kind in TYPES))
DISPATCHERS: Final = ("dispatcher-1", "dispatcher-2")
WORKERS_EACH: Final = 6
REPLACED: Final = 2
"""So many of each queue's workers left when two thirds of the time had passed, and others came."""

_TEMPLATES: Final = (
    "TimeoutError: no answer from inventory.internal within {n} s",
    "ConnectionError: connection to 10.0.{n}.17:5432 refused",
    "ValueError: order {n} has no items",
    "KeyError: 'customer_{n}'",
    "PermissionError: token of account {n} has expired",
    "HTTPError: 502 Bad Gateway from https://mail.example/api/{n}",
    'IntegrityError: duplicate key value violates unique constraint "payments_pkey" (id={n})',
    "MemoryError: image of {n} megapixels",
)  # fmt: skip
EACH: Final = 60
ERRORS: Final = tuple(text.replace("{n}", str(11 + 13 * n)) for text in _TEMPLATES for n in range(EACH))
"""What handlers say when they fail: each kind in many wordings."""
KINDS_OF_ERRORS: Final = len(_TEMPLATES)
WEB_ERRORS: Final[tuple[tuple[int | None, str], ...]] = (
    (503, "HTTP 503 Service Unavailable"),
    (500, "HTTP 500 Internal Server Error"),
    (429, "HTTP 429 Too Many Requests"),
    (None, "timeout: no answer after 10.0 s"),
    (None, "network: connection refused"),
)
"""What consumers answer, and how it is told."""
_WORDS: Final = (
    *("gift", "left", "at", "the", "door", "ring", "twice", "call", "before", "delivery", "fragile", "keep", "upright"),
    *("second", "floor", "paid", "by", "invoice", "express", "returns", "accepted", "loyal", "customer", "first"),
    *("order", "newsletter", "wanted", "leave", "with", "neighbour"),
)
NOTES: Final = tuple(" ".join(_WORDS[(n * 7 + k * 5) % len(_WORDS)] for k in range(4 + n % 24)) for n in range(64))


def workers_of(queue: str) -> tuple[str, ...]:
    """The workers of a queue: those who were there first, and behind them the ones that came later."""
    return tuple(f"{queue}-worker-{n + 1}" for n in range(WORKERS_EACH + REPLACED))
