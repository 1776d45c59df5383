"""Commands of the hub as processes of their own: the server, and whatever else a user would type."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from eventhub.errors import EventHubError

__all__ = ["CommandFailed", "HubProcess", "ended", "run", "spelling", "start"]

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0
LAST_LINES: Final = 10
LISTENS: Final = "Event Hub listens on "
_PROGRAM: Final = "import sys; from eventhub.cli import main; sys.exit(main())"


class CommandFailed(EventHubError):
    """A command of the demo did not do what it should; its own words are told."""


def spelling() -> str:
    """How the command is typed here: its name, or its path where a shell would not find it."""
    beside = Path(sys.executable).with_name("eventhub")
    return "eventhub" if shutil.which("eventhub") or not beside.exists() else os.path.relpath(beside)


async def start(
    *arguments: str, db: str, cwd: Path, settings: dict[str, str] | None = None, stderr: int = asyncio.subprocess.PIPE
) -> asyncio.subprocess.Process:
    """Start `eventhub …` on a database, with settings of the caller's environment left out.

    The URL may hold a password, and arguments are for everyone to see: it goes by the environment. Signals of the
    terminal do not reach it: the demo ends what it has started.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("EVENTHUB_")}
    given = {f"EVENTHUB_{name.upper()}": value for name, value in (settings or {}).items()}
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _PROGRAM,
        *arguments,
        cwd=cwd,
        env={**ours, "NO_COLOR": "1", "EVENTHUB_DB": db, **given},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        process_group=0,
    )


async def run(*arguments: str, db: str, cwd: Path, tell: Callable[[str], None] = lambda _: None) -> str:
    """Run a command to its end and give its standard output; ``tell`` hears each line of its standard error."""
    process = await start(*arguments, db=db, cwd=cwd)
    assert process.stdout is not None  # noqa: S101 - a pipe
    assert process.stderr is not None  # noqa: S101 - a pipe
    said: list[str] = []
    try:
        output = asyncio.create_task(process.stdout.read())
        async for line in process.stderr:
            said.append(line.decode(errors="replace").rstrip())
            tell(said[-1])
        code, text = await process.wait(), (await output).decode(errors="replace")
    finally:
        await ended(process)
    if code:
        last = "\n".join([*said, text][-LAST_LINES:]).strip()
        raise CommandFailed(f"`eventhub {' '.join(arguments)}` ended with exit code {code}:\n{last}")
    return text


async def ended(process: asyncio.subprocess.Process, *, patience: float = 0.0) -> int:
    """End a process: with patience by SIGTERM first."""
    if process.returncode is None and patience:
        process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await process.wait()
    if process.returncode is None:
        process.kill()
    code = await process.wait()
    # What it has started may live a moment longer and hold its pipes: they would be found open when the loop is closed.
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - there is no other way to let go of them
    return code


class HubProcess:
    """`eventhub serve` for the length of a block, where the demo's files are; webhooks may go to this machine."""

    def __init__(self, db: str, directory: Path, *, port: int, settings: dict[str, str] | None = None) -> None:
        self.url = ""
        self.log = directory / "hub.log"
        self._db, self._directory, self._port = db, directory, port
        self._settings = {
            "secret_file": str(directory / "eventhub.secret"),
            "lake": str(directory / "lake"),
            "allow_private": "127.0.0.0/8",
            **(settings or {}),
        }
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    async def __aenter__(self) -> Self:
        flags = ("--port", str(self._port))
        with self.log.open("wb") as log:
            self._process = await start(
                "serve", *flags, db=self._db, cwd=self._directory, settings=self._settings, stderr=log.fileno()
            )
        try:
            async with asyncio.timeout(START_SECONDS):
                assert self._process.stdout is not None  # noqa: S101 - a pipe
                line = (await self._process.stdout.readline()).decode().strip()
        except BaseException:
            await ended(self._process)
            raise
        if not line.startswith(LISTENS):
            await ended(self._process)
            raise CommandFailed(f"The hub did not start:\n{self._last_words()}")
        self.url = line.removeprefix(LISTENS)
        return self

    async def watch(self) -> None:
        """Wait until it ends by itself, which is an error."""
        if self._process is not None:
            code = await self._process.wait()
            raise CommandFailed(f"The hub has ended with exit code {code}:\n{self._last_words()}")

    def _last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-LAST_LINES:])

    async def stop(self) -> int:
        """End it in good order; returns its exit code. Harmless when it has ended."""
        return 0 if self._process is None else await ended(self._process, patience=STOP_SECONDS)

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
