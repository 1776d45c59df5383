"""CloudEvents 1.0 coming in: binary (attributes in headers), structured (one JSON object), batch (an array of them).

An attribute becomes metadata under its ``ce-`` name; ``source`` and ``id`` together are the idempotency key, because
that is what they mean; the extensions ``partitionkey`` and ``tags`` become ordering key and tags. An event is the same
in whichever mode it comes: data of JSON is JSON and that of a text is text also when it comes in base64, and the media
type of JSON is written in one way and may be left out.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from eventhub.http.bodies.basics import MOST_EVENTS
from eventhub.http.bodies.events import NewEventBody
from eventhub.http.problems import Problem
from eventhub.http.reading import parse_json

__all__ = ["BATCH_TYPE", "STRUCTURED_TYPE", "binary", "from_batch", "is_binary", "structured"]

STRUCTURED_TYPE: Final = "application/cloudevents+json"
BATCH_TYPE: Final = "application/cloudevents-batch+json"
_ENVELOPE: Final = b"application/cloudevents"
_DEFAULT: Final = "application/json"
_NEEDED: Final = ("id", "source", "type")
_DATA: Final = frozenset({"data", "data_base64"})
_NAME: Final = re.compile(r"[a-z0-9]{1,40}\Z")
_JSON: Final = re.compile(r"(application|text)/(.+\+)?json\Z")


def is_binary(headers: Mapping[bytes, bytes]) -> bool:
    """Whether the attributes are in the headers; in the other modes they may be there as well, and do not count."""
    return b"ce-specversion" in headers and not headers.get(b"content-type", b"").strip().lower().startswith(_ENVELOPE)


def binary(headers: Mapping[bytes, bytes], raw: bytes) -> NewEventBody:
    """The event whose attributes are headers and whose data is the body."""
    attributes: dict[str, Any] = {}
    for name, value in headers.items():
        if name.startswith(b"ce-"):
            attributes[name[3:].decode("latin-1")] = _header(name, value)
    kind = headers.get(b"content-type", b"").decode("latin-1")
    if kind:
        attributes["datacontenttype"] = kind
    has_data = bool(raw) or kind.lower().startswith("text/")
    return _event(attributes, _data(attributes, raw) if has_data else None, "")


def structured(raw: bytes) -> NewEventBody:
    """The event that is one JSON object."""
    return _from_object(parse_json(raw), "")


def from_batch(raw: bytes) -> list[NewEventBody]:
    """The events of a JSON array, in their order."""
    found = parse_json(raw)
    if not isinstance(found, list) or not 1 <= len(found) <= MOST_EVENTS:
        raise Problem(
            422, "invalid-request", f"A CloudEvents batch is an array of 1 to {MOST_EVENTS:,} events.", pointer=""
        )
    return [_from_object(item, f"/{place}") for place, item in enumerate(found)]


def _from_object(found: Any, place: str) -> NewEventBody:
    if not isinstance(found, dict):
        raise Problem(422, "invalid-request", "A CloudEvent is a JSON object.", pointer=place)
    attributes = {name: value for name, value in found.items() if name not in _DATA and value is not None}
    data = found.get("data")
    if found.get("data_base64") is not None:
        raw = _from_base64(found["data_base64"])
        if "data" in found or raw is None:
            raise _refused("data_base64", "is base64 text, and then there is no data beside it", place)
        data = _data(attributes, raw)
    return _event(attributes, data, place)


def _data(attributes: dict[str, Any], raw: bytes) -> Any:
    """Bytes as their media type says: JSON, a text, or what is kept in base64."""
    kind = str(attributes.get("datacontenttype") or _DEFAULT).partition(";")[0].strip().lower()
    if _JSON.match(kind):
        return parse_json(raw)
    if kind.startswith("text/"):
        return _text(raw)
    attributes["dataencoding"] = "base64"
    return base64.b64encode(raw).decode()


def _media_type(given: Any, data: Any) -> Any:
    """The media type of the data; that of JSON is written in one way, and where there is no data it says nothing."""
    if given is not None and str(given).partition(";")[0].strip().lower() != _DEFAULT:
        return given
    return None if data is None else _DEFAULT


def _event(attributes: dict[str, Any], data: Any, place: str) -> NewEventBody:
    if attributes.get("specversion") != "1.0":
        raise _refused("specversion", 'is "1.0" in every CloudEvent that this hub knows', place)
    for name in _NEEDED:
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise _refused(name, "is a text that is not empty, and every CloudEvent has it", place)
    media_type = _media_type(attributes.pop("datacontenttype", None), data)
    if media_type is not None:
        attributes["datacontenttype"] = media_type
    metadata: dict[str, str] = {}
    for name, value in sorted(attributes.items()):  # the order says nothing, and differs between the modes
        if not _NAME.match(name):
            raise _refused(name, "has a name that is not small letters and digits, at most 40", place)
        if not isinstance(value, str | int | bool):
            raise _refused(name, "is a text, a whole number or a boolean", place)
        if name not in ("type", "specversion", "tags", "partitionkey"):
            metadata[f"ce-{name}"] = str(value).lower() if isinstance(value, bool) else str(value)
    tags, key = attributes.get("tags"), attributes.get("partitionkey")
    identity = f"{attributes['source']}\x1f{attributes['id']}".encode("utf-8", "surrogatepass")
    return NewEventBody(
        event_type=attributes["type"],
        payload=data,
        metadata=metadata,
        tags=None if tags is None else str(tags),
        ordering_key=None if key is None else str(key)[:255] or None,
        idempotency_key=f"ce:{hashlib.sha256(identity).hexdigest()}",
    )


def _header(name: bytes, value: bytes) -> str:
    """Header values are percent-encoded where they are not printable ASCII."""
    try:
        return unquote(value.decode("utf-8"), errors="strict")
    except UnicodeDecodeError:
        raise Problem(400, "invalid-header", f"The header {name.decode('latin-1')} is not UTF-8.") from None


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "invalid-json", "The body is not UTF-8.") from None


def _from_base64(value: Any) -> bytes | None:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        return None


def _refused(name: str, rule: str, place: str) -> Problem:
    return Problem(422, "invalid-request", f"The attribute {name[:40]!r} {rule}.", pointer=f"{place}/{name[:40]}")
