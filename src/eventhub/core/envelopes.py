"""The body of a webhook and the headers that belong to it, built around the payload's text as it is stored.

    standard         {"type":…,"timestamp":…,"data":…}, as Standard Webhooks has it
    raw              the payload alone; type, id and time are headers
    ce-binary        the payload alone; the attributes of the CloudEvent are headers
    ce-structured    one JSON object with the attributes and the data

An event that came in as a CloudEvent (its attributes are ``ce-`` metadata) goes out with the same attributes; any other
has its own id and the hub's source. The trace that published it is passed on.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

__all__ = ["ATTRIBUTE", "Broadcast", "envelope", "timestamp_text"]

ATTRIBUTE: Final = "ce-"
"""How the metadata of an event that came in as a CloudEvent begins."""
_JSON: Final = "application/json"
_STRUCTURED: Final = "application/cloudevents+json"
_NAME: Final = re.compile(r"ce-[a-z0-9]{1,40}\Z")
_NOT_PASSED_ON: Final = frozenset({"specversion", "type", "data", "datacontenttype", "dataencoding", "partitionkey"})
_JSON_TYPE: Final = re.compile(r"(?:application|text)/(?:.+\+)?json\s*(?:;|\Z)", re.IGNORECASE)
_MEDIA_TYPE: Final = re.compile(r"[!-~]+/[!-~]+(?:[ ;][ -~]*)?\Z")
_SAFE: Final = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_PLAIN: Final = re.compile(r"[!#-$&-~]*\Z")
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")
_TRACESTATE: Final = re.compile(r"[!-~](?:[ -~]{0,510}[!-~])?\Z")

_metadata = msgspec.json.Decoder(dict[str, str])
_encode = msgspec.json.Encoder().encode


class Broadcast(Protocol):
    """What an envelope is made of: a claim of the store has it all. Payload and metadata are JSON text."""

    @property
    def event_id(self) -> int: ...
    @property
    def type(self) -> str: ...
    @property
    def payload(self) -> str: ...
    @property
    def metadata(self) -> str | None: ...
    @property
    def ordering_key(self) -> str | None: ...
    @property
    def created_at(self) -> datetime: ...


def envelope(message: Broadcast, form: str, *, source: str) -> tuple[dict[str, str], bytes]:
    """Headers, with names in small letters, and body of a message in this format; ``source`` names the hub."""
    metadata = _read(message.metadata) if message.metadata is not None else None
    headers, body = _FORMS[form](message, metadata, source)
    if metadata is not None:
        _pass_on_trace(metadata, headers)
    return headers, body


def timestamp_text(moment: datetime) -> str:
    """RFC 3339 in UTC."""
    return f"{moment.astimezone(UTC).isoformat()[:-6]}Z"


def _read(text: str) -> dict[str, str] | None:
    """The metadata, if there is anything in it that goes out."""
    return _metadata.decode(text) if '"ce-' in text or '"trace' in text else None


def _standard(message: Broadcast, _: Mapping[str, str] | None, __: str) -> tuple[dict[str, str], bytes]:
    time = timestamp_text(message.created_at)
    body = f'{{"type":"{message.type}","timestamp":"{time}","data":{message.payload}}}'
    return {"content-type": _JSON}, body.encode()


def _raw(message: Broadcast, _: Mapping[str, str] | None, __: str) -> tuple[dict[str, str], bytes]:
    headers = {
        "content-type": _JSON,
        "eventhub-type": message.type,
        "eventhub-time": timestamp_text(message.created_at),
    }
    return headers, message.payload.encode()


def _binary(message: Broadcast, metadata: Mapping[str, str] | None, source: str) -> tuple[dict[str, str], bytes]:
    content_type, body = _JSON, None
    if metadata is not None:
        content_type, body = _foreign_data(message.payload, metadata)
    headers = {"content-type": content_type, "ce-specversion": "1.0", "ce-type": message.type}
    for name, value in _attributes(message, metadata, source).items():
        headers[f"ce-{name}"] = value if _PLAIN.match(value) else quote(value, safe=_SAFE)
    return headers, message.payload.encode() if body is None else body


def _structured(message: Broadcast, metadata: Mapping[str, str] | None, source: str) -> tuple[dict[str, str], bytes]:
    content_type, member = _JSON, "data"
    if metadata is not None:
        content_type, body = _foreign_data(message.payload, metadata)
        if body is not None and metadata.get("ce-dataencoding") == "base64":
            member = "data_base64"
    attributes = {"specversion": "1.0", "type": message.type, **_attributes(message, metadata, source)}
    attributes["datacontenttype"] = content_type
    start = _encode(attributes)
    return {"content-type": _STRUCTURED}, b'%b,"%b":%b}' % (start[:-1], member.encode(), message.payload.encode())


def _attributes(message: Broadcast, metadata: Mapping[str, str] | None, source: str) -> dict[str, str]:
    """Those of the CloudEvent beside type and data."""
    attributes = {"id": str(message.event_id), "source": source, "time": timestamp_text(message.created_at)}
    if metadata is not None and metadata.get("ce-id") and metadata.get("ce-source"):
        for name, value in metadata.items():
            if value and _NAME.match(name) and name[3:] not in _NOT_PASSED_ON:
                attributes[name[3:]] = value
    if message.ordering_key is not None:
        attributes["partitionkey"] = message.ordering_key
    return attributes


def _foreign_data(payload: str, metadata: Mapping[str, str]) -> tuple[str, bytes | None]:
    """The media type of data that came in as a CloudEvent and its bytes, which are None where it is JSON.

    Text and bytes of another type are stored as a JSON string; the latter in base64.
    """
    given = metadata.get("ce-datacontenttype", "")
    encoded = metadata.get("ce-dataencoding") == "base64"
    if not _MEDIA_TYPE.match(given):
        given = "application/octet-stream" if encoded else _JSON
    if not encoded and _JSON_TYPE.match(given):
        return given, None
    data: Any = msgspec.json.decode(payload)
    if isinstance(data, str):
        if not encoded:
            return given, data.encode()
        try:
            return given, binascii.a2b_base64(data, strict_mode=True)
        except (binascii.Error, ValueError):
            pass
    return _JSON, None


def _pass_on_trace(metadata: Mapping[str, str], headers: dict[str, str]) -> None:
    parent, state = metadata.get("traceparent"), metadata.get("tracestate")
    if parent is not None and _TRACEPARENT.match(parent):
        headers["traceparent"] = parent
        if state is not None and _TRACESTATE.match(state):
            headers["tracestate"] = state


Form = Callable[[Broadcast, Mapping[str, str] | None, str], tuple[dict[str, str], bytes]]

_FORMS: Final[dict[str, Form]] = {
    "standard": _standard,
    "raw": _raw,
    "ce-binary": _binary,
    "ce-structured": _structured,
}
