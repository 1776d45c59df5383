"""From bytes to checked values: bodies by counted bytes and within a time, strict JSON, schemas with pointers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from eventhub.core import strict_json
from eventhub.errors import InvalidPayloadError, PayloadTooLargeError
from eventhub.http.intake import LARGE, ReceivedBytes, check_values
from eventhub.http.problems import Problem

__all__ = ["aside", "checked", "parse_json", "read_body", "read_query"]

T = TypeVar("T")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
ENVELOPE: Final = 3
"""Levels around a payload at most: an object, its list of events, an event."""
FREE: Final = frozenset({"payload", "filter", "metadata"})
"""Members with content of the client's own."""
_PARTS: Final = re.compile(r"\.([^.\[]+)|\[(\d+)\]")
_PLACE: Final = re.compile(r" - at `\$(.*)`$")


class Gone(Exception):
    """The client went away before it had sent everything."""


async def read_body(
    receive: Receive, received: ReceivedBytes, *, declared: bytes | None, limit: int, seconds: float
) -> bytes:
    """The whole body; what counts is what arrives, whatever the client said about its length."""
    if declared is not None and declared.isdigit():
        if int(declared) > limit:
            raise _too_large(limit)
        received.expect(int(declared))
    deadline = asyncio.get_running_loop().time() + seconds  # for all of it, however it is cut
    message = await _next(receive, deadline)
    if not message.get("more_body"):  # nearly always: one message
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        received.add(len(body))
        return body
    chunks, size = [message["body"]], len(message["body"])
    received.add(size)
    while message.get("more_body"):
        message = await _next(receive, deadline)
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > limit:
            raise _too_large(limit)
        received.add(len(chunks[-1]))
    return b"".join(chunks)


async def _next(receive: Receive, deadline: float) -> MutableMapping[str, Any]:
    steps = receive().__await__()
    try:
        first = next(steps)
    except StopIteration as done:  # nearly always: it is there already, and no clock has to run
        message: MutableMapping[str, Any] = done.value
    else:
        try:
            async with asyncio.timeout_at(deadline):
                message = await _Rest(first, steps)
        except TimeoutError:
            raise Problem(408, "too-slow", "The request did not arrive in time. Send it again.") from None
    if message["type"] == "http.disconnect":
        raise Gone
    return message


class _Rest:
    """What remains to be awaited after a first step that did not end it; ``first`` is what that step waits for."""

    def __init__(self, first: Any, steps: Generator[Any, Any, Any]) -> None:
        self._first = first
        self._steps = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        try:
            yield self._first
        except BaseException as error:
            self._steps.throw(error)
            raise
        return (yield from self._steps)


def _too_large(limit: int) -> Problem:
    return Problem(413, "body-too-large", f"The body is larger than {limit:,} bytes. Send less at once.")


async def aside(size: int, work: Callable[[], T]) -> T:
    """Work on a body of so many bytes; on a large one in a thread, so that nobody else waits for it."""
    return await asyncio.to_thread(work) if size > LARGE else work()


def parse_json(raw: bytes) -> Any:
    """Strict JSON. The fast way holds when nothing is escaped and no member was dropped: as many colons come out as
    went in. Anything else, and everything doubtful, is read again by the strict reader, which finds the words.
    """
    check_values(raw)
    try:
        value = _decode(raw)
        if b"\\" not in raw and _encode(value).count(b":") == raw.count(b":"):
            return value
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        pass
    try:
        return strict_json.load(raw, max_bytes=len(raw), envelope=ENVELOPE)
    except PayloadTooLargeError:
        raise
    except InvalidPayloadError as error:
        raise Problem(400, "invalid-json", str(error).replace("payload", "The body", 1)) from None


def checked(value: Any, wanted: type[T], *, status: int = 422, strict: bool = True) -> T:
    """The value as the type says, or a problem that points to the place."""
    try:
        try:
            return msgspec.convert(value, wanted, strict=strict)
        except msgspec.ValidationError as error:
            if not strict or "got `float`" not in str(error):
                raise
        return msgspec.convert(_with_whole_numbers(value), wanted)
    except msgspec.ValidationError as error:
        words = str(error)
        place = _PLACE.search(words)
        detail = words[: place.start()] if place else words
        pointer = _pointer(place.group(1)) if place else ""
        raise Problem(status, "invalid-request", f"{detail}.", pointer=pointer) from None


def _with_whole_numbers(value: Any) -> Any:
    """The value with 200.0 as 200, which are the same number in JSON; what is free to be anything stays as it is."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, dict):
        return {name: item if name in FREE else _with_whole_numbers(item) for name, item in value.items()}
    return [_with_whole_numbers(item) for item in value] if isinstance(value, list) else value


def _pointer(place: str) -> str:
    """``.events[3].tags`` as a JSON pointer: ``/events/3/tags``; of ``.metadata[...]`` only the mapping is known."""
    return "".join(f"/{name or index}" for name, index in _PARTS.findall(place.partition("[...]")[0]))


def read_query(query: bytes, wanted: type[T]) -> T:
    """The query string; each parameter at most once, and none that the route does not know."""
    if not query and not wanted.__struct_fields__:  # type: ignore[attr-defined]
        return wanted()
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        raise Problem(400, "invalid-query", "The query string cannot be read. Percent-encode it as UTF-8.") from None
    values = dict(pairs)
    known = wanted.__struct_fields__  # type: ignore[attr-defined]
    if len(values) != len(pairs):
        raise Problem(400, "invalid-query", "A query parameter is given twice; keep one.")
    unknown = sorted(values.keys() - set(known))
    if unknown:
        shown = ", ".join(repr(name[:40]) for name in unknown)
        raise Problem(400, "invalid-query", f"There is no parameter {shown}; known are: {', '.join(known) or 'none'}.")
    if any("\x00" in value for value in values.values()):
        raise Problem(400, "invalid-query", "A query parameter contains a NUL character; remove it.")
    found = checked(values, wanted, status=400, strict=False)
    for name in values:
        if getattr(found, name) is None:  # the word null, which means no text but nothing at all
            raise Problem(400, "invalid-request", "Leave the parameter out instead of null.", pointer=f"/{name}")
    return found
