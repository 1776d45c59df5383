"""The processes of a measurement: a server, ours or the other, and the load that is put on it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from typing import Final

import msgspec

from eventhub.bench.http.load import Kind, LoadReport, Orders
from eventhub.errors import EventHubError, SettingsError

__all__ = [
    "BenchFailed",
    "ServerProcess",
    "answer_of",
    "check_packages",
    "has_rival",
    "hub_server",
    "listening",
    "others",
    "put_load",
    "rival_server",
    "stop_process",
]

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 40.0
LOAD_SECONDS: Final = 900.0
_ADDRESS: Final = re.compile(rb"listens on http://([0-9.]+):(\d+)")
_HUB: Final = ("-c", "import sys; from eventhub.cli import main; sys.exit(main(['serve']))")
_RIVAL: Final = ("-m", "eventhub.bench.http.rival")
_LOAD: Final = ("-m", "eventhub.bench.http.load")


class ServerProcess(msgspec.Struct, frozen=True):
    host: str
    port: int
    process: int


class BenchFailed(EventHubError):
    """A process of the benchmark did not do its part; the text holds what it said."""


def check_packages(option: str = "--http") -> None:
    """The server's packages are an extra."""
    if any(find_spec(name) is None for name in ("starlette", "uvicorn", "uvloop", "httptools")):
        raise SettingsError(f"bench {option} needs the server's packages: pip install 'eventhub[server]'.")


def has_rival() -> bool:
    return find_spec("fastapi") is not None


@asynccontextmanager
async def hub_server(url: str) -> AsyncIterator[ServerProcess]:
    """``eventhub serve`` with its defaults, on a free port and this database."""
    with tempfile.TemporaryDirectory(prefix="eventhub-bench-") as directory:
        settings = {
            "EVENTHUB_DB": url,  # not among the arguments: it may contain a password
            "EVENTHUB_PORT": "0",
            "EVENTHUB_LOG_LEVEL": "warning",
            "EVENTHUB_SECRET_FILE": os.path.join(directory, "secret"),  # noqa: PTH118 - a variable is text
        }
        async with _server(_HUB, settings, directory) as server:
            yield server


@asynccontextmanager
async def rival_server(url: str) -> AsyncIterator[ServerProcess]:
    """The FastAPI app on this database."""
    with tempfile.TemporaryDirectory(prefix="eventhub-bench-") as directory:
        async with _server(_RIVAL, {"DATABASE_URL": url}, directory) as server:
            yield server


@asynccontextmanager
async def _server(command: Sequence[str], settings: Mapping[str, str], directory: str) -> AsyncIterator[ServerProcess]:
    """A server process in an empty directory, without the settings of whoever runs the benchmark."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, env={**others(), **settings}, cwd=directory
    )
    try:
        host, port = await asyncio.wait_for(listening(process), START_SECONDS)
        yield ServerProcess(host, port, process.pid)
    finally:
        await stop_process(process)


def others() -> dict[str, str]:
    """The environment without settings of the hub."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EVENTHUB_")}


async def listening(process: asyncio.subprocess.Process) -> tuple[str, int]:
    """Where the server listens, as it says itself; connections wait in its socket until it has started."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    async for line in process.stdout:
        found = _ADDRESS.search(line)
        if found:
            return found[1].decode(), int(found[2])
    raise BenchFailed(f"The server ended with code {await process.wait()} before it listened; its error is above.")


async def stop_process(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


async def put_load(
    server: ServerProcess, kind: Kind, *, connections: int, count: int, rate: float = 50.0
) -> LoadReport:
    """Put this load on a server, from another process."""
    orders = Orders(
        kind=kind,
        host=server.host,
        port=server.port,
        process=server.process,
        connections=connections,
        count=count,
        rate=rate,
    )
    answer = await answer_of(_LOAD, msgspec.json.encode(orders), what=f"load {kind!r}")
    return msgspec.json.decode(answer, type=LoadReport)


async def answer_of(command: Sequence[str], orders: bytes, *, what: str) -> bytes:
    """What a process writes that is given its orders and then left to it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        answer, trouble = await asyncio.wait_for(process.communicate(orders), LOAD_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise BenchFailed(f"The {what} broke off. {_last_line(trouble)}")
    return answer


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "It said nothing."
