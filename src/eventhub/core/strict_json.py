"""Strict JSON: what may be a payload, and the one text it is kept as.

The fast way takes two encoders: one that refuses almost all that JSON cannot say (keys that are not strings, numbers
beyond 64 bits, lone surrogates, dates, sets), and one that writes the text and refuses the fragments of JSON that the
first would take unseen. Only NaN and Infinity become null in both, so a text with a null is read again and compared. A
payload that fails this, is too deep or could hold a NUL is walked in Python, which also finds the words for the error;
the place is put together on the way back from it, so that nothing is paid for the places of what is right.

What has one obvious form in JSON is taken in it: a tuple is a list, a UUID its text, a member of an enumeration its
value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import chain
from typing import Any, Final, NoReturn
from uuid import UUID

import msgspec
import orjson

from eventhub.errors import InvalidPayloadError, PayloadTooLargeError

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "by_value",
    "decode",
    "dump",
    "dump_many",
    "dump_metadata",
    "dump_pieces",
    "load",
    "readable",
    "ready_texts",
]

MAX_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 64
_EXACT: Final = 2**53
"""Up to which every whole number has a float of its own."""
_MAY_BE_WHOLE: Final = re.compile(r"\.0(?![0-9])|[0-9]e")
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1

_NOT_OPENERS: Final = bytes(set(range(256)) - set(b"[{\n"))
_NO_HINTS: Final = bytes(set(range(256)) - set(b"[{ul\n"))
_LONGEST_PATH: Final = 200  # characters of it in an error
_WIDEST_CHARACTER: Final = 4  # bytes
_TOGETHER: Final = 64  # payloads: more of them leave the processor's cache

_STRICTLY: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_encoder = msgspec.json.Encoder()
_sorting = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder()
_encode = _encoder.encode
_decode = _decoder.decode


def dump(payload: Any, *, what: str = "payload", max_bytes: int = MAX_BYTES) -> str:
    """The canonical text of a payload; raises InvalidPayloadError or PayloadTooLargeError before anything is stored."""
    raw = _plain(payload, MAX_DEPTH)
    if raw is None:
        raw = _encode(_walked(payload, what, 1))
    if len(raw) > max_bytes:
        _too_large(what, len(raw), max_bytes)
    return raw.decode()


def dump_many(payloads: Sequence[Any]) -> list[str | None]:
    """The canonical texts of many payloads at a third less cost than one by one; None for those that need ``dump``."""
    return list(chain.from_iterable(dump_pieces(payloads)))


def dump_pieces(payloads: Sequence[Any]) -> Iterator[Sequence[str | None]]:
    """As ``dump_many``, some at a time, each when it is asked for."""
    return (_texts(payloads[start : start + _TOGETHER]) for start in range(0, len(payloads), _TOGETHER))


def _texts(payloads: Sequence[Any]) -> Sequence[str | None]:
    doubtful = [None] * len(payloads)
    try:
        orjson.dumps(payloads, None, _STRICTLY)
        lines = _encoder.encode_lines(payloads)
        hints = lines.translate(None, _NO_HINTS)  # of depth and of null, which is looked for in what is left
        if b"ull" in hints and b"null" in lines and _decoder.decode_lines(lines) != payloads:
            return doubtful
    except Exception:  # noqa: BLE001 - one of them is to blame, and ``dump`` says which
        return doubtful
    if _may_hold_nul(lines):
        return doubtful
    texts = lines.decode().split("\n")
    texts.pop()
    if len(lines) <= MAX_BYTES and _longest(hints) <= MAX_DEPTH:
        return texts
    openers = lines.translate(None, _NOT_OPENERS).split(b"\n")
    return [
        text if len(text) * _WIDEST_CHARACTER <= MAX_BYTES and len(opened) <= MAX_DEPTH else None
        for text, opened in zip(texts, openers, strict=False)
    ]


def _longest(hints: bytes) -> int:
    """The length of the longest line; those of payloads that have the same form are alike, which is seen at once."""
    first = hints.find(b"\n") + 1
    alike = hints[:first] * (len(hints) // first) == hints
    return first - 1 if alike else len(max(hints.split(b"\n"), key=len))


def ready_texts(texts: Sequence[str]) -> list[str | None]:
    """Of many JSON texts from outside, those that are what ``dump`` writes already; None for those that need ``load``.

    Such a text reads and writes back as it is, so that it can hold nothing that is said twice, or in another way.
    """
    return [
        ready for start in range(0, len(texts), _TOGETHER) for ready in _ready(list(texts[start : start + _TOGETHER]))
    ]


def _ready(texts: list[str]) -> Sequence[str | None]:
    try:
        values = _decoder.decode_lines("\n".join(texts))
    except Exception:  # noqa: BLE001 - one of them is to blame, and ``load`` says why
        return [None] * len(texts) if len(texts) == 1 else [ready for text in texts for ready in _ready([text])]
    if len(values) != len(texts):
        return [None] * len(texts)
    return [text if text == again else None for text, again in zip(texts, _texts(values), strict=True)]


def dump_metadata(metadata: Any) -> str | None:
    """Metadata is a flat mapping of strings to strings; None when there is none."""
    if not metadata:
        return None
    if not isinstance(metadata, dict):
        raise InvalidPayloadError(f"metadata is a {type(metadata).__name__}; give a mapping of strings to strings.")
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidPayloadError(f"metadata[{key!r}] is {value!r}; both the key and the value must be strings.")
    return dump(metadata, what="metadata")


def decode(text: str | bytes) -> Any:
    """The value of a text that this module wrote."""
    return _decode(text)


def readable(text: str) -> Any:
    """The value of a text, or the text itself when somebody has damaged it where it lay: that must stop nobody."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def by_value(text: str) -> bytes:
    """A text of this module's in a form that all texts of the same value share: members sorted, 1.0 as 1."""
    value = _decode(text)
    if _MAY_BE_WHOLE.search(text):
        value = _with_whole_numbers(value)
    return _sorting.encode(value)


def _with_whole_numbers(value: Any) -> Any:
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, dict):
        return {name: _with_whole_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_whole_numbers(item) for item in value]
    return value


def load(text: str | bytes, *, max_bytes: int = MAX_BYTES, envelope: int = 0) -> Any:
    """Read JSON from outside as strictly as ``dump`` writes it; duplicate keys are refused too.

    A text that carries payloads may be deeper by as many levels as it wraps around them.
    """
    try:
        size = len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if size > max_bytes:
            _too_large("payload", size, max_bytes)
        source = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(source, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except InvalidPayloadError:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidPayloadError(f"payload is not JSON: {error}") from None
    if _plain(value, MAX_DEPTH + envelope) is None:
        _walked(value, "payload", 1 - envelope)
    return value


def _plain(value: Any, levels: int) -> bytes | None:
    """The text of a value that is JSON beyond doubt; None for any other."""
    try:
        orjson.dumps(value, None, _STRICTLY)
        raw = _encode(value)
        if (
            _may_hold_nul(raw)
            or (b"null" in raw and _decode(raw) != value)
            or (raw.count(b"[") + raw.count(b"{") > levels and _is_deeper(_decode(raw), levels))
        ):
            return None
    except Exception:  # noqa: BLE001 - whatever it was, the walk names it
        return None
    return raw


def _may_hold_nul(raw: bytes) -> bool:
    return b"\\" in raw and b"\\u0000" in raw


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether a value that was read has more levels than these; all containers of one level are taken together."""
    containers = [value]
    for _ in range(levels):
        containers = [
            item
            for each in containers
            for item in (each.values() if type(each) is dict else each)
            if type(item) is dict or type(item) is list
        ]
        if not containers:
            return False
    return True


class _Refused(Exception):
    """What is wrong, and where: the places are gathered from the inside out."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy
        self.places: list[str] = []


def _walked(value: Any, what: str, depth: int) -> Any:
    """The value in plain JSON types, or the error that says where and why it is not."""
    try:
        return _walk(value, depth, [])
    except _Refused as refused:
        path = what + "".join(reversed(refused.places))
        shown = path if len(path) <= _LONGEST_PATH else f"{path[: _LONGEST_PATH - 1]}…"
        raise InvalidPayloadError(f"{' '.join(shown.split())} {refused}; {refused.remedy}.") from None


def _walk(value: Any, depth: int, above: list[int]) -> Any:
    while isinstance(value, Enum):
        value = value.value
    if not isinstance(value, dict | list | tuple):
        return _leaf(value)
    if id(value) in above:
        raise _Refused("contains itself", "break the cycle")
    if depth > MAX_DEPTH:
        raise _Refused(f"is nested more than {MAX_DEPTH} levels deep", "flatten it")
    walk = _walk_mapping if isinstance(value, dict) else _walk_list
    return walk(value, depth + 1, [*above, id(value)])


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, UUID):
        return UUID.__str__(value)
    if isinstance(value, int):
        if not _INT_MIN <= value <= _INT_MAX:
            raise _Refused("is an integer beyond 64 bits", "send it as a string")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _Refused(f"is {value}", "JSON has no NaN or Infinity; send null or a string")
        return float(value)
    raise _Refused(f"is a {type(value).__name__}", "convert it to a string, number, list or mapping first")


def _walk_list(value: Any, depth: int, above: list[int]) -> list[Any]:
    plain: list[Any] = []
    try:
        for item in value:
            plain.append(_walk(item, depth, above))  # noqa: PERF401 - how many there are is the place
    except _Refused as refused:
        refused.places.append(f"[{len(plain)}]")
        raise
    return plain


def _walk_mapping(value: Any, depth: int, above: list[int]) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    name: str | None = None
    try:
        for key, item in value.items():
            name = None
            name = _key(key)
            plain[name] = _walk(item, depth, above)
    except _Refused as refused:
        if name is not None:
            refused.places.append(f".{name[:_LONGEST_PATH]}")
        raise
    return plain


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise _Refused(f"has the key {key!r}, a {type(key).__name__}", "JSON keys are strings")
    try:
        return _text(key)
    except _Refused as refused:
        refused.places.append(" key")
        raise


def _text(value: str) -> str:
    if "\x00" in value:
        raise _Refused("contains a NUL character", "remove it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Refused("contains a lone surrogate", "send well-formed Unicode") from None
    return str.__str__(value)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        double = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise InvalidPayloadError(f"payload has the key {double!r} twice in one object; keep one.")
    return value


def _no_constant(name: str) -> NoReturn:
    raise InvalidPayloadError(f"payload contains {name}; JSON has no NaN or Infinity. Send null or a string.")


def _too_large(what: str, size: int, limit: int) -> NoReturn:
    raise PayloadTooLargeError(
        f"{what} has {size:,} bytes; at most {limit:,} are allowed. Store it elsewhere and send a reference."
    )
