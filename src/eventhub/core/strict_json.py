"""Strict JSON: what may be a payload, and the one text it is kept as.

The fast way encodes, decodes and compares: whatever JSON cannot say (NaN, keys that are not strings, dates, sets)
comes back different. Only a payload that fails this, or could be too deep, hold a NUL or too large a number, is walked
in Python, which also finds the words for the error.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import msgspec

from eventhub.errors import InvalidPayloadError, PayloadTooLargeError

__all__ = ["MAX_BYTES", "MAX_DEPTH", "decode", "dump", "dump_many", "dump_metadata", "load"]

MAX_BYTES: Final = 1_048_576
MAX_DEPTH: Final = 64
_INT_MIN: Final = -(2**63)
_INT_MAX: Final = 2**64 - 1


_ALL_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER: Final = b"0" * 19  # the shortest that may be beyond 64 bits

_NOT_OPENERS: Final = bytes(set(range(256)) - set(b"[{\n"))
_WIDEST_CHARACTER: Final = 4  # bytes
_TOGETHER: Final = 64  # payloads: more of them leave the processor's cache and wake the garbage collector

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()
_encode = _encoder.encode
_decode = _decoder.decode


def dump(payload: Any, *, what: str = "payload", max_bytes: int = MAX_BYTES) -> str:
    """The canonical text of a payload; raises InvalidPayloadError or PayloadTooLargeError before anything is stored."""
    try:
        raw = _encode(payload)
        plain = _decode(raw) == payload
    except Exception:  # noqa: BLE001 - whatever it was, the walk below names it
        return _dump_slowly(payload, what, max_bytes)
    if (
        not plain
        or (b"\\" in raw and b"\\u0000" in raw)
        or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH
        or _LONG_NUMBER in raw.translate(_ALL_ZEROS)
    ):
        return _dump_slowly(payload, what, max_bytes)
    if len(raw) > max_bytes:
        _too_large(what, len(raw), max_bytes)
    return raw.decode()


def dump_many(payloads: Sequence[Any]) -> list[str | None]:
    """The canonical texts of many payloads at a third less cost than one by one; None for those that need ``dump``."""
    return [
        text for start in range(0, len(payloads), _TOGETHER) for text in _texts(payloads[start : start + _TOGETHER])
    ]


def _texts(payloads: Sequence[Any]) -> Sequence[str | None]:
    doubtful = [None] * len(payloads)
    try:
        lines = _encoder.encode_lines(payloads)
        plain = _decoder.decode_lines(lines) == payloads
    except Exception:  # noqa: BLE001 - one of them is to blame, and ``dump`` says which
        return doubtful
    if not plain or (b"\\" in lines and b"\\u0000" in lines) or _LONG_NUMBER in lines.translate(_ALL_ZEROS):
        return doubtful
    texts = lines.decode().split("\n")[:-1]
    openers = lines.translate(None, _NOT_OPENERS).split(b"\n")[:-1]
    if len(max(texts, key=len)) * _WIDEST_CHARACTER <= MAX_BYTES and len(max(openers, key=len)) <= MAX_DEPTH:
        return texts
    return [
        text if len(text) * _WIDEST_CHARACTER <= MAX_BYTES and len(opened) <= MAX_DEPTH else None
        for text, opened in zip(texts, openers, strict=True)
    ]


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
    _walk(value, "payload", 1 - envelope, [])
    return value


def _dump_slowly(payload: Any, what: str, max_bytes: int) -> str:
    value = _walk(payload, what, 1, [])
    raw = _encode(value)
    if len(raw) > max_bytes:
        _too_large(what, len(raw), max_bytes)
    return raw.decode()


def _walk(value: Any, path: str, depth: int, above: list[int]) -> Any:
    """The value in plain JSON types, or the error that says where and why it is not."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        if not _INT_MIN <= value <= _INT_MAX:
            _refuse(path, "is an integer beyond 64 bits", "send it as a string")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            _refuse(path, f"is {value}", "JSON has no NaN or Infinity; send null or a string")
        return float(value)
    if isinstance(value, dict | list | tuple):
        if id(value) in above:
            _refuse(path, "contains itself", "break the cycle")
        if depth > MAX_DEPTH:
            _refuse(path, f"is nested more than {MAX_DEPTH} levels deep", "flatten it")
        return _walk_container(value, path, depth, [*above, id(value)])
    return _refuse(path, f"is a {type(value).__name__}", "convert it to a string, number, list or mapping first")


def _walk_container(value: Any, path: str, depth: int, above: list[int]) -> Any:
    if not isinstance(value, dict):
        return [_walk(item, f"{path}[{n}]", depth + 1, above) for n, item in enumerate(value)]
    plain = {}
    for key, item in value.items():
        if not isinstance(key, str):
            _refuse(path, f"has the key {key!r}, a {type(key).__name__}", "JSON keys are strings")
        plain[_text(key, f"{path} key")] = _walk(item, f"{path}.{key}", depth + 1, above)
    return plain


def _text(value: str, path: str) -> str:
    if "\x00" in value:
        _refuse(path, "contains a NUL character", "remove it")
    try:
        value.encode()
    except UnicodeEncodeError:
        _refuse(path, "contains a lone surrogate", "send well-formed Unicode")
    return str(value)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        double = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise InvalidPayloadError(f"payload has the key {double!r} twice in one object; keep one.")
    return value


def _no_constant(name: str) -> NoReturn:
    raise InvalidPayloadError(f"payload contains {name}; JSON has no NaN or Infinity. Send null or a string.")


def _refuse(path: str, problem: str, remedy: str) -> NoReturn:
    raise InvalidPayloadError(f"{textwrap.shorten(path, 200, placeholder='…')} {problem}; {remedy}.")


def _too_large(what: str, size: int, limit: int) -> NoReturn:
    raise PayloadTooLargeError(
        f"{what} has {size:,} bytes; at most {limit:,} are allowed. Store it elsewhere and send a reference."
    )
