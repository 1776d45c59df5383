"""A conversation with an adapter: one JSON document a line, each way."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, Final, Self

from benchmarks.comparing.systems import ROOT, System

__all__ = ["Adapter", "Missing", "Trouble"]

LONGEST_LINE: Final = 2**24
GOODBYE_SECONDS: Final = 30.0


class Missing(Exception):
    """The system has no such thing; the text says why."""


class Trouble(Exception):
    """The system failed, or handled something else than it was given."""


class Adapter:
    """The process of one adapter on one database, for the length of a block. What it prints besides goes to ``log``."""

    def __init__(self, system: System, url: str, payload: dict[str, Any], log: int, *, notify: bool = False) -> None:
        self._system = system
        self._url = url
        self._payload = payload
        self._log = log
        self._notify = notify
        self._process: asyncio.subprocess.Process
        self.told: dict[str, Any] = {}
        """Versions and settings."""

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *self._system.command,
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            limit=LONGEST_LINE,
        )
        try:
            self.told = await self.ask("prepare", url=self._url, payload=self._payload, notify=self._notify)
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def _end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), GOODBYE_SECONDS)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            if not isinstance(error, TimeoutError):
                raise

    async def ask(self, do: str, *, patience: float = 3600.0, **asked: Any) -> dict[str, Any]:
        self.say(do, **asked)
        return await self.hear(patience=patience)

    def say(self, do: str, **asked: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **asked}).encode() + b"\n")

    async def hear(self, *, patience: float = 60.0) -> dict[str, Any]:
        assert self._process.stdout is not None
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), patience)
        except TimeoutError:
            raise Trouble(f"no answer within {patience:g} s") from None
        if not line:
            raise Trouble("the adapter ended; the log says why")
        answer: dict[str, Any] = json.loads(line)
        if "unsupported" in answer:
            raise Missing(answer["unsupported"])
        if "error" in answer:
            raise Trouble(answer["error"])
        return answer
