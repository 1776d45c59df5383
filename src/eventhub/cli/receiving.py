"""What arrives at ``eventhub listen``, judged: is it signed, what is in it, was it here before, is it its turn."""

from __future__ import annotations

import hmac
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from eventhub.core.ordering import ordering_key_of
from eventhub.core.signing import sign
from eventhub.core.strict_json import load
from eventhub.errors import InvalidPayloadError

__all__ = ["Answering", "Content", "Order", "Place", "Seen", "check_signature", "read_content"]

TOLERANCE: Final = 300
"""Seconds by which the time of a signature may differ from ours, both ways."""
MOST_SIGNATURES: Final = 20
REMEMBERED: Final = 100_000
_SECONDS: Final = re.compile(r"[1-9][0-9]{0,11}\Z")
_NUMBER: Final = re.compile(r"([0-9]{1,19})\Z")
_STANDARD: Final = {"type", "timestamp", "data"}
_STRUCTURED: Final = "application/cloudevents+json"


def check_signature(secrets: Sequence[bytes], headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
    """What is wrong with a request's signature by the Standard Webhooks scheme; None when it is good."""
    missing = [name for name in ("webhook-id", "webhook-timestamp", "webhook-signature") if not headers.get(name)]
    if missing:
        return f"no {' and no '.join(missing)} header"
    stamp = headers["webhook-timestamp"]
    if not _SECONDS.match(stamp):
        return "webhook-timestamp is no number of seconds"
    late = now.timestamp() - int(stamp)
    if abs(late) > TOLERANCE:
        return f"signed {abs(late):.0f} s {'ago' if late > 0 else 'ahead'}; {TOLERANCE} are tolerated"
    given = [item.encode("utf-8", "replace") for item in headers["webhook-signature"].split(" ")[:MOST_SIGNATURES]]
    right = False
    for secret in secrets:
        expected = sign([secret], headers["webhook-id"], int(stamp), body).encode()
        for item in given:  # all of them, whether one was right or not
            right |= hmac.compare_digest(item, expected)
    return None if right else "no signature fits: another secret, or the body was changed on its way"


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says. ``payload`` is None and ``text`` is set when the body is not JSON."""

    format: str
    type: str | None = None
    payload: Any = None
    text: str | None = None
    event_id: str | None = None
    ordering_key: str | None = None


def read_content(headers: Mapping[str, str], body: bytes) -> Content:
    """The event in a request of any of the four formats."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    payload, text = _parsed(body)
    if "ce-specversion" in headers:
        return Content(
            format="ce-binary",
            type=_header(headers, "ce-type"),
            payload=payload,
            text=text,
            event_id=_header(headers, "ce-id"),
            ordering_key=_header(headers, "ce-partitionkey"),
        )
    if kind == _STRUCTURED and isinstance(payload, dict):
        return Content(
            format="ce-structured",
            type=_text(payload.get("type")),
            payload=payload.get("data", payload.get("data_base64")),
            event_id=_text(payload.get("id")),
            ordering_key=_text(payload.get("partitionkey")),
        )
    if isinstance(payload, dict) and payload.keys() == _STANDARD and "eventhub-type" not in headers:
        return Content(format="standard", type=_text(payload["type"]), payload=payload["data"])
    return Content(format="raw", type=headers.get("eventhub-type"), payload=payload, text=text)


def _parsed(body: bytes) -> tuple[Any, str | None]:
    """JSON, or else a text."""
    try:
        return load(body) if body else None, None
    except InvalidPayloadError:
        return None, body.decode("utf-8", "replace")


def _header(headers: Mapping[str, str], name: str) -> str | None:
    """An attribute of a CloudEvent: percent-encoded where it is not plain ASCII."""
    value = headers.get(name)
    return None if value is None else unquote(value)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


class Seen:
    """How often each message came, and whether it was taken, for as many as can be remembered."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._times: OrderedDict[str, int] = OrderedDict()
        self._taken: set[str] = set()
        self._most = most
        self.different = 0

    def count(self, message_id: str) -> tuple[int, bool]:
        """How often it has come, this time included, and whether it had been taken before: then this is a duplicate."""
        times = self._times.pop(message_id, 0) + 1
        self._times[message_id] = times
        if times == 1:
            self.different += 1
        if len(self._times) > self._most:
            forgotten, _ = self._times.popitem(last=False)
            self._taken.discard(forgotten)
        return times, message_id in self._taken

    def take(self, message_id: str) -> None:
        """It was answered with a success."""
        if message_id in self._times:
            self._taken.add(message_id)


class Place(msgspec.Struct, frozen=True):
    """What there is to say about a message's place in its order, and whether that place is wrong for sure."""

    note: str | None = None
    wrong: bool = False


class _Last:
    """The newest message of a key: where it stands in the order, and what became of it here."""

    __slots__ = ("done", "number", "open")

    def __init__(self, number: int) -> None:
        self.number = number
        self.open = 0
        self.done = False


class Order:
    """Watches that the messages of a key come one after the other, and none before its predecessor was taken."""

    def __init__(self, path: str | None, most: int = REMEMBERED) -> None:
        self._path = path
        self._most = most
        self._last: OrderedDict[str, _Last] = OrderedDict()

    def key(self, content: Content) -> str | None:
        """The key of a message: by the path, or one for all when there is no path."""
        if self._path is None:
            return ""
        return ordering_key_of(self._path, content.ordering_key, content.payload, None, content.type or "")

    def begin(self, key: str, message_id: str) -> Place:
        """A message of this key has come."""
        found = _NUMBER.search(message_id)
        if found is None:
            return Place("the webhook-id has no number at its end, so its place is unknown")
        number = int(found[1])
        last = self._last.get(key)
        place = Place()
        if last is None or number > last.number:
            place = place if last is None else _passing(last)
            last = self._last[key] = _Last(number)
        elif number < last.number:
            return Place(f"out of order: it comes after {last.number}", wrong=True)
        elif last.open:
            place = Place("it comes again while it is being answered", wrong=True)
        last.open += 1
        self._last.move_to_end(key)
        if len(self._last) > self._most:
            self._last.popitem(last=False)
        return place

    def end(self, key: str, message_id: str, *, taken: bool) -> None:
        """The message was answered."""
        found = _NUMBER.search(message_id)
        last = self._last.get(key)
        if found is not None and last is not None and last.number == int(found[1]):
            last.open -= 1
            last.done |= taken


def _passing(last: _Last) -> Place:
    if last.open:
        return Place(f"out of order: {last.number} is still being answered", wrong=True)
    return Place(None if last.done else f"{last.number} was not taken here: it is dead, or was overtaken")


class Answering(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are answered: a share of them with a failure, all after a delay."""

    share: float = 0.0
    status: int = 500
    delay: float = 0.0
    retry_after: int | None = None

    def choose(self, *, refused: bool, roll: Callable[[], float]) -> int:
        """The status for one request; one that is not signed as it should be is refused."""
        if refused:
            return 401
        return self.status if roll() < self.share else 204
