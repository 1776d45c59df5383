"""One question to a hub and its answer, as a value or as the error that it stands for."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from eventhub.client.problems import error_of, read_problem
from eventhub.client.transport import Reply, Transport
from eventhub.errors import RemoteError

__all__ = ["REFUSED", "Asking", "answer_of", "given"]

A = TypeVar("A")

REFUSED: Final = 300


class Asking:
    """Something that asks a hub."""

    _transport: Transport

    async def _ask(self, wanted: type[A], method: str, path: str, **how: Any) -> A:
        return answer_of(await self._transport.call(method, path, **how), wanted)


def answer_of(reply: Reply, wanted: type[A]) -> A:
    """What the hub said, or the error that it meant."""
    if reply.status >= REFUSED:
        raise error_of(read_problem(reply.status, reply.body), reply.headers)
    try:
        return msgspec.json.decode(reply.body, type=wanted)
    except msgspec.MsgspecError as error:
        raise RemoteError(
            f"The answer is not that of a hub of this version: {error}. Check the address, and the hub's version.",
            status=reply.status,
        ) from error


def given(**members: Any) -> dict[str, Any]:
    """The members that have a value."""
    return {name: value for name, value in members.items() if value is not None}
