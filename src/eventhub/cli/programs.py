"""One run of a program for one event: payload in, exit code out, and nothing left behind when it is called off."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from eventhub.client.performing import Ended

if TYPE_CHECKING:
    from eventhub.client.answers import ClaimedEvent

__all__ = ["Program", "without_secrets"]

LONGEST_ERROR: Final = 2000
"""Characters of standard error that are reported: the last ones."""
WIDEST_CHARACTER: Final = 4
KILL_AFTER: Final = 5.0
"""Seconds between SIGTERM and SIGKILL for a program that is called off."""
LAST_WORDS: Final = 1.0
"""Seconds that a child of the program may hold its standard error open after its end."""
BY_SIGNAL: Final = 128
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127


SECRETS: Final = frozenset({"EVENTHUB_KEY", "EVENTHUB_DB", "EVENTHUB_SECRET_FILE", "EVENTHUB_LISTEN_SECRET"})
"""Variables of ours that a program has no need of: it handles what somebody else has published."""


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a program."""
    return {name: value for name, value in environment.items() if name not in SECRETS}


class Program:
    """A handler that runs a program in a process group of its own."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = tuple(command)
        self._environment = dict(environment)

    async def __call__(self, event: ClaimedEvent) -> Ended:
        """Run it to its end; a cancellation ends the whole group before it passes."""
        tail = _Tail()
        # Files, not pipes: a program need not read its input, and may leave a child behind that keeps its output.
        with tempfile.TemporaryFile() as payload:
            payload.write(msgspec.json.encode(event.payload))
            payload.seek(0)
            async with tail:
                try:
                    process = await asyncio.create_subprocess_exec(
                        *self._command,
                        stdin=payload,
                        stderr=tail.writing,
                        env={**self._environment, **_about(event)},
                        start_new_session=True,
                    )
                except OSError as error:
                    code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
                    return Ended(error=f"{self._command[0]}: {error.strerror}", status_code=code)
                tail.close_writing()
                try:
                    code = await process.wait()
                except asyncio.CancelledError:
                    await _end(process)
                    raise
        if code == 0:
            return Ended(status_code=0)
        if code < 0:
            words = f"ended by {_name(-code)}"
            return Ended(error=tail.text() or words, status_code=BY_SIGNAL - code)
        return Ended(error=tail.text() or f"exit code {code}", status_code=code)


def _about(event: ClaimedEvent) -> dict[str, str]:
    found = {
        "EVENTHUB_EVENT_ID": str(event.id),
        "EVENTHUB_EVENT_TYPE": event.event_type or "",
        "EVENTHUB_TITLE": event.title or "",
        "EVENTHUB_TAGS": event.tags or "",
        "EVENTHUB_ATTEMPT": str(event.attempt),
    }
    for name in ("traceparent", "tracestate"):
        if name in event.metadata:
            found[name.upper()] = event.metadata[name]
    return found


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the program and everything that it has started."""
    _signal(process.pid, signal.SIGTERM)
    # Not asyncio.timeout: in a task that is being cancelled it raises CancelledError before Python 3.11.3.
    ending = asyncio.ensure_future(process.wait())
    await asyncio.wait({ending}, timeout=KILL_AFTER)
    _signal(process.pid, signal.SIGKILL)
    await ending


def _signal(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Tail:
    """Standard error of a program: passed on as it comes, and its end kept."""

    def __init__(self) -> None:
        self._kept = b""
        self.writing = -1

    async def __aenter__(self) -> None:
        reading, self.writing = os.pipe()
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0)
        )
        self._copying = asyncio.create_task(self._copy(reader))

    async def __aexit__(self, *_: object) -> None:
        self.close_writing()
        await asyncio.wait({self._copying}, timeout=LAST_WORDS)
        self._copying.cancel()
        self._transport.close()

    def close_writing(self) -> None:
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    async def _copy(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(65_536):
            self._kept = (self._kept + chunk)[-LONGEST_ERROR * WIDEST_CHARACTER :]
            with suppress(OSError, ValueError):  # nobody may be there to read it
                sys.stderr.buffer.write(chunk)
                sys.stderr.buffer.flush()

    def text(self) -> str:
        """The last lines, whole ones if more than one fits."""
        text = self._kept.decode("utf-8", "replace").strip()
        if len(text) <= LONGEST_ERROR:
            return text
        text = text[-LONGEST_ERROR:]
        first, newline, rest = text.partition("\n")
        return rest if newline and rest else first
