"""Just enough HTTP/1.1 for a client that must cost little: requests built once, answers read by their length."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

__all__ = ["Answer", "AnswerReader", "request"]

_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_END: Final = b"\r\n\r\n"
_BODILESS: Final = (204, 304)


class Answer(NamedTuple):
    status: int
    body: bytes


class AnswerReader:
    """The answers of one connection, on which only one request is on its way at a time."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> Answer | None:
        """The answer, if these bytes complete it."""
        data = self._data + data if self._data else data
        end = data.find(_END)
        if end < 0:
            self._data = data
            return None
        status = int(data[9:12])
        length = _LENGTH.search(data, 0, end)
        if length is None and status not in _BODILESS:
            raise ValueError(f"The server gave no length with its answer: {data[:end]!r}")
        start = end + len(_END)
        missing = start + (int(length[1]) if length else 0) - len(data)
        if missing > 0:
            self._data = data
            return None
        if missing < 0:
            raise ValueError(f"The server sent more than it was asked for: {data[missing:][:80]!r}")
        self._data = b""
        return Answer(status, data[start:])


def request(method: str, target: str, body: bytes = b"", *, host: str) -> bytes:
    """A whole request, as bytes that can be sent again and again."""
    lines = [f"{method} {target} HTTP/1.1", f"host: {host}"]
    if method != "GET":
        lines += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body
