"""An answer before it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET

__all__ = ["NO_STORE", "Answer", "document", "empty", "given"]

JSON: Final = b"application/json"
NO_STORE: Final = ((b"cache-control", b"no-store"),)


class Answer(msgspec.Struct, frozen=True):
    """Status, body and headers; the length is added when it is sent.

    With ``stream`` it goes on after its head, piece by piece, until the stream ends or the client has hung up; when
    ``stop`` is set it ends soon, even if the client takes nothing. Whatever happens, ``ended`` is called at the end.
    """

    status: int
    body: bytes = b""
    content_type: bytes | None = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None
    stop: asyncio.Event | None = None
    ended: Callable[[], None] | None = None


_encode = msgspec.json.Encoder().encode


def document(value: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    """A value as JSON."""
    return Answer(status, _encode(value), headers=headers)


def empty(status: int = 204, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    return Answer(status, content_type=None, headers=headers)


def given(value: Any) -> Any:
    """The value of a member that is left out when there is none."""
    return UNSET if value is None else value
