"""All operations of one path as a plain ASGI endpoint: check, read, call, answer. Nothing wraps the body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from eventhub.core.scopes import PUBLISH, WORK
from eventhub.errors import EventHubError
from eventhub.handling.logs import get_logger
from eventhub.http.answers import NO_STORE, Answer
from eventhub.http.asking import Ask
from eventhub.http.bodies.basics import Asked
from eventhub.http.cloud_events import BATCH_TYPE, is_binary
from eventhub.http.gate import accepts
from eventhub.http.operations import BATCH, Operation
from eventhub.http.problems import Problem, problem_of, unforeseen
from eventhub.http.reading import Gone, Receive, aside, checked, parse_json, read_body, read_query
from eventhub.store.audit import acting_as

if TYPE_CHECKING:
    from eventhub.http.service import Service

__all__ = ["Endpoint", "answer_to", "send_answer"]

log = get_logger("eventhub.http")

SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
BODILESS: Final = frozenset({204, 304})
SERVER_ERROR: Final = 500
STALLED_SECONDS: Final = 60.0
"""For which a client may take nothing of its stream; then it is over, and its place free for another."""
LAST_SECONDS: Final = 1.0
SECURITY: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)


class Endpoint:
    """What one path can do, by method."""

    def __init__(self, service: Service, operations: Sequence[Operation]) -> None:
        self._service = service
        self._gate = service.gate
        self._by_method = {operation.method: operation for operation in operations}
        if "GET" in self._by_method and self._by_method["GET"].safe:
            self._by_method["HEAD"] = self._by_method["GET"]
        self._allow = ", ".join(sorted(self._by_method))

    async def __call__(self, scope: Any, receive: Receive, send: Any) -> None:
        started = perf_counter()
        operation = self._by_method.get(scope["method"])
        try:
            answer = await self._answer(operation, scope, receive)
        except Gone:
            return
        except Exception as error:  # noqa: BLE001 - every answer is an answer
            answer = answer_to(error, scope, reads=_reads(operation, scope["method"]))
        if answer.stream is None:
            await send_answer(answer, scope["method"], send, private=_reads(operation, scope["method"], keyed=True))
        self._service.metrics.answered(
            operation.name if operation else "unknown", answer.status, perf_counter() - started
        )
        if answer.stream is not None:
            await send_stream(answer, answer.stream, receive, send)

    async def _answer(self, operation: Operation | None, scope: Any, receive: Receive) -> Answer:
        gate, method = self._gate, scope["method"]
        headers = gate.check_size(scope)
        writes = method not in SAFE_METHODS or operation is None or not operation.safe
        gate.check_place(headers, writes=writes)
        if operation is None:
            raise Problem(405, "method", f"{method[:20]} is not possible here.", allow=self._allow)
        principal = await gate.admit(operation, headers, scope, writes=writes)
        if not accepts(headers, operation.gives):
            raise Problem(406, "not-acceptable", f"This route answers with {operation.gives} only.")
        ask = Ask(self._service, headers, principal, scope.get("path_params", {}), receive, scope=scope)
        ask.query = read_query(scope["query_string"], operation.query or Asked)
        if operation.body is None:
            return await _handled(operation, ask, writes=writes)
        intake = self._service.intake
        with intake.receive() as ask.received:
            await self._read(operation, ask, receive)
            async with intake.turn(len(ask.raw)):
                await self._parse(operation, ask)
                return await _handled(operation, ask, writes=writes)

    async def _read(self, operation: Operation, ask: Ask, receive: Receive) -> None:
        headers = ask.headers
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise Problem(415, "compressed", "Compressed bodies are not accepted. Send it as it is.")
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")
        as_data = operation.cloud_events and is_binary(headers)
        if not kind and operation.body_optional:
            kind = "application/json"
        if not as_data and kind not in operation.accepts:
            known = ", ".join(operation.accepts)
            raise Problem(415, "content-type", f"The content type is {kind[:80]!r}; this route takes {known}.")
        ask.content_type = kind
        ask.raw = await read_body(
            receive,
            ask.received,
            declared=headers.get(b"content-length"),
            limit=BATCH if kind == BATCH_TYPE else operation.limit,
            seconds=self._service.settings.request_seconds,
        )

    async def _parse(self, operation: Operation, ask: Ask) -> None:
        """JSON of ours is checked here; a CloudEvent by who takes it."""
        as_data = operation.cloud_events and is_binary(ask.headers)
        if ask.content_type == "application/json" and not as_data:
            raw, wanted = ask.raw or (b"{}" if operation.body_optional else b""), operation.body
            ask.body = await aside(len(raw), lambda: checked(parse_json(raw), wanted))


async def _handled(operation: Operation, ask: Ask, *, writes: bool) -> Answer:
    if not writes or operation.scope in (PUBLISH, WORK):
        return await operation.handle(ask)
    with acting_as(ask.actor):
        return await operation.handle(ask)


def _reads(operation: Operation | None, method: str, *, keyed: bool = False) -> bool:
    """Whether nothing would have been stored; ``keyed``, of what not everybody may read."""
    if operation is None or method not in SAFE_METHODS or (keyed and operation.scope is None):
        return False
    return operation.safe or operation.streams


def answer_to(error: Exception, scope: Any, *, reads: bool = False) -> Answer:
    """The answer that an error becomes; what nobody foresaw is logged here and told to nobody."""
    if isinstance(error, Problem):
        return error.answer()
    if isinstance(error, EventHubError):
        problem = problem_of(error, reads=reads)
        if problem.status >= SERVER_ERROR:
            log.error("request failed", method=scope["method"], path=scope["path"], error=f"{error}")
        return problem.answer()
    log.error("request failed", method=scope["method"], path=scope["path"], exc_info=error)
    return unforeseen().answer()


async def send_stream(answer: Answer, stream: AsyncGenerator[bytes, None], receive: Receive, send: Any) -> None:
    """The head, then piece by piece. A client that does not read holds up its own pieces only, and not for ever."""
    sending = asyncio.create_task(_send_pieces(answer, stream, send))
    others = [asyncio.create_task(_gone(receive))]
    if answer.stop is not None:
        others.append(asyncio.create_task(_stopped(answer.stop)))
    try:
        await asyncio.wait([sending, *others], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, *others):
            task.cancel()
        ended, *_ = await asyncio.gather(sending, *others, return_exceptions=True)
        if isinstance(ended, Exception):
            log.warning("stream failed", error=f"{type(ended).__name__}: {ended}")
        await stream.aclose()
        if answer.ended is not None:
            answer.ended()


async def _send_pieces(answer: Answer, stream: AsyncGenerator[bytes, None], send: Any) -> None:
    headers = [*SECURITY, *answer.headers, (b"content-type", answer.content_type)]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    async for piece in stream:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except TimeoutError:
            log.info("stream given up", after_seconds=STALLED_SECONDS)
            return
    await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _stopped(stop: asyncio.Event) -> None:
    """Returns a little after the stop, in which a client that reads gets the end of its stream."""
    await stop.wait()
    await asyncio.sleep(LAST_SECONDS)


async def send_answer(answer: Answer, method: str, send: Any, *, private: bool = False) -> None:
    """All of it at once. What is ``private`` is stored by no browser and no proxy on the way."""
    headers = [*SECURITY, *answer.headers]
    if private and not any(name == b"cache-control" for name, _ in answer.headers):
        headers += NO_STORE
    if answer.status not in BODILESS:
        headers.append((b"content-length", str(len(answer.body)).encode()))
    if answer.content_type is not None:
        headers.append((b"content-type", answer.content_type))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if method == "HEAD" else answer.body})
