"""The server behind ``eventhub listen``: every request is judged, shown and answered, and added up at the end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from eventhub.cli.output import console, duration, json_text, plain, records
from eventhub.cli.receiving import Answering, Content, Order, Place, Seen, check_signature, read_content
from eventhub.errors import SettingsError

__all__ = ["Arrival", "Receiver", "Showing"]

LARGEST_BODY: Final = 4 << 20
MOST_SHOWN: Final = 4096
LAST_ANSWERS: Final = 5
GOOD: Final = range(200, 300)
GAVE_UP: Final = 499
"""Shown as the status where no answer could be given."""


class Arrival(msgspec.Struct, kw_only=True):
    """A request as it is shown."""

    time: datetime
    id: str | None
    type: str | None
    format: str
    attempt: int
    """How often this message has come here."""
    duplicate: bool
    """It had been taken already: a consumer must not do it twice."""
    verified: bool | None
    """None when there is no secret to check with."""
    problem: str | None
    key: str | None = None
    order: str | None = None
    status: int = 0
    """What it was answered with."""
    payload: Any = None
    text: str | None = None


class Tally(msgspec.Struct, kw_only=True):
    """Everything so far, added up."""

    requests: int = 0
    messages: int = 0
    retries: int = 0
    duplicates: int = 0
    verified: int = 0
    refused: int = 0
    failed: int = 0
    out_of_order: int = 0
    seconds: float = 0.0

    def add(self, arrival: Arrival, *, wrong_place: bool) -> None:
        self.requests += 1
        self.retries += arrival.attempt > 1 and not arrival.duplicate
        self.duplicates += arrival.duplicate
        self.verified += arrival.verified is True
        self.refused += arrival.verified is False
        self.failed += arrival.verified is not False and arrival.status not in GOOD
        self.out_of_order += wrong_place


class Showing:
    """Tells people, or programs, what arrives."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._out = console()
        self._aside = console(stderr=True)

    def listening(self, address: str, *, reachable: bool, checked: bool) -> None:
        self._aside.print(f"Listening on {address}", soft_wrap=True)
        if reachable:
            self._aside.print("Other machines can reach this address.", style="yellow")
        if not checked:
            self._aside.print("Signatures are not checked: there is no --secret.", style="yellow")

    def show(self, arrival: Arrival) -> None:
        if self._json:
            sys.stdout.write(msgspec.json.encode(arrival).decode() + "\n")
            sys.stdout.flush()
            return
        checked = {True: "[green]verified[/]", False: "[red]not verified[/]", None: "[dim]not checked[/]"}
        again = f" [yellow]time {arrival.attempt}[/]" if arrival.attempt > 1 else ""
        again += " [bold yellow]duplicate[/]" if arrival.duplicate else ""
        answer = f"[{'green' if arrival.status in GOOD else 'red'}]{arrival.status}[/]"
        head = plain(f"{arrival.type or '(no type)'}  {arrival.id or '(no id)'}", 200)
        self._out.print(f"[bold]{_clock(arrival.time)}[/]", head, checked[arrival.verified] + again, "→", answer)
        for note in (arrival.problem, arrival.order):
            if note:
                self._out.print(plain(f"    {note}"), style="red")
        body = arrival.text if arrival.text is not None else _pretty(arrival.payload)
        self._out.print(plain("\n".join(f"    {line}" for line in body[:MOST_SHOWN].splitlines())), soft_wrap=True)

    def summary(self, tally: Tally, *, checked: bool, ordered: bool) -> None:
        if self._json:
            sys.stdout.write(msgspec.json.encode({"summary": tally}).decode() + "\n")
            sys.stdout.flush()
            return
        rows = [
            ("requests", f"{tally.requests:,} in {duration(tally.seconds)}"),
            ("messages", f"{tally.messages:,}, {tally.retries:,} retries, {tally.duplicates:,} duplicates"),
            ("signatures", f"{tally.verified:,} good, {tally.refused:,} refused" if checked else "not checked"),
            ("failed here", f"{tally.failed:,}, as they were told to"),
            ("out of order", f"{tally.out_of_order:,}" if ordered else ""),
        ]
        self._out.print(records(rows))


def _clock(value: datetime) -> str:
    return f"{value:%H:%M:%S}.{value.microsecond // 1000:03d}"


def _pretty(payload: Any) -> str:
    return msgspec.json.format(json_text(payload), indent=2)


class Receiver:
    """Takes requests until it is told to stop, or has taken as many as it should."""

    def __init__(
        self, secrets: Sequence[bytes], answering: Answering, order: Order | None, showing: Showing, *, most: int | None
    ) -> None:
        self._secrets = tuple(secrets)
        self._answering = answering
        self._order = order
        self._showing = showing
        self._most = most
        self._seen = Seen()
        self._taken = 0
        self._tally = Tally()
        self._server: _Server | None = None
        self._reader_left = False

    async def run(self, host: str, port: int) -> int:
        """Returns the exit code."""
        listening = _listen(host, port)
        config = uvicorn.Config(
            self,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=LAST_ANSWERS,
        )
        self._server = _Server(config)
        address, bound = listening.getsockname()[:2]
        self._showing.listening(
            f"http://[{address}]:{bound}/" if ":" in address else f"http://{address}:{bound}/",
            reachable=not (address.startswith("127.") or address == "::1"),
            checked=bool(self._secrets),
        )
        started = time.monotonic()
        await self._server.serve(sockets=[listening])
        if self._reader_left:
            raise BrokenPipeError
        self._tally.seconds = round(time.monotonic() - started, 3)
        self._tally.messages = self._seen.different
        self._showing.summary(self._tally, checked=bool(self._secrets), ordered=self._order is not None)
        return 1 if self._tally.refused or self._tally.out_of_order else 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, as ASGI has it."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if request.method != "POST":
            answer: Response = PlainTextResponse("eventhub listen takes POST requests.\n", 405, {"allow": "POST"})
        else:
            try:
                body = await _body(request)
            except ClientDisconnect:
                return
            answer = PlainTextResponse("too large\n", 413) if body is None else await self._take(request, body)
        await answer(scope, receive, send)

    async def _take(self, request: Request, body: bytes) -> Response:
        if self._most is not None and self._taken >= self._most:
            return PlainTextResponse("enough\n", 503)
        self._taken += 1
        headers = dict(request.headers)
        arrival, content = self._judged(headers, body)
        key = None if self._order is None else self._order.key(content)
        place = Place()
        if self._order is not None and key is not None and arrival.id is not None:
            arrival.key = key or None
            place = self._order.begin(key, arrival.id)
            arrival.order = place.note
        arrival.status = self._answering.choose(refused=arrival.verified is False, roll=random.random)
        if not await _still_there(request, self._answering.delay):
            arrival.status, arrival.problem = GAVE_UP, "the sender did not wait for the answer"
        if self._order is not None and key is not None and arrival.id is not None:
            self._order.end(key, arrival.id, taken=arrival.status in GOOD)
        good = arrival.status in GOOD
        if good and arrival.id is not None:
            self._seen.take(arrival.id)
        self._tell(arrival, wrong_place=place.wrong)
        wait = {} if good or self._answering.retry_after is None else {"retry-after": str(self._answering.retry_after)}
        return Response(status_code=arrival.status, headers=wait)

    def _judged(self, headers: dict[str, str], body: bytes) -> tuple[Arrival, Content]:
        now = datetime.now(UTC)
        problem = check_signature(self._secrets, headers, body, now) if self._secrets else None
        content = read_content(headers, body)
        message_id = headers.get("webhook-id")
        attempt, duplicate = self._seen.count(message_id) if message_id else (1, False)
        arrival = Arrival(
            time=now,
            id=message_id,
            type=content.type,
            format=content.format,
            attempt=attempt,
            duplicate=duplicate,
            verified=problem is None if self._secrets else None,
            problem=problem,
            payload=content.payload,
            text=content.text,
        )
        return arrival, content

    def _tell(self, arrival: Arrival, *, wrong_place: bool) -> None:
        self._tally.add(arrival, wrong_place=wrong_place)
        try:
            self._showing.show(arrival)
        except BrokenPipeError:
            self._reader_left = True
        if self._server is not None and (self._reader_left or self._tally.requests == self._most):
            self._server.should_exit = True


async def _still_there(request: Request, delay: float) -> bool:
    """Whether the sender has waited so long."""
    if not delay:
        return True
    try:
        async with asyncio.timeout(delay):
            while (await request.receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return True
    return False


async def _body(request: Request) -> bytes | None:
    """The whole body; None when it is larger than any webhook should be."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST_BODY:
            return None
        parts.append(part)
    return b"".join(parts)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2], family=family)
    except OSError as error:
        raise SettingsError(
            f"Cannot listen on {host}:{port} ({error.strerror or error}). Choose another with --host and --port."
        ) from None


class _Server(uvicorn.Server):
    """uvicorn's server, ended by the first signal and without an error."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._end)
        yield

    def _end(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True
