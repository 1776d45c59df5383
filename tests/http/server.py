"""The real server as a process of its own: started as by its command, ended by its process id, its log kept."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from tests.cli.forking import Forked, begin_forked, run_forked
from tests.cli.support import EVENTHUB

START_SECONDS = 60.0
STOP_SECONDS = 20.0
LISTENS = "Event Hub listens on http://"


def environment() -> dict[str, str]:
    """The caller's, without its settings of the hub."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EVENTHUB_")} | {"NO_COLOR": "1"}


def begin_afresh(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stderr: IO[Any]
) -> tuple["subprocess.Popen[str]", IO[str]]:
    """As ``begin_forked``, by the installed program."""
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    begun = subprocess.Popen(
        [EVENTHUB, *arguments], cwd=cwd, env=env, stdin=nothing, stdout=pipe, stderr=stderr, text=True
    )
    assert begun.stdout is not None
    return begun, begun.stdout


class HubServer:
    """One server on a database; it may be ended and started again, then on the same port.

    It is forked, which saves Python's imports; ``afresh`` starts the installed program itself, as a shell would.
    """

    def __init__(self, db: str, directory: Path, *flags: str, afresh: bool = False) -> None:
        self.db = db
        self.directory = directory
        self.flags = flags
        if (
            "--roles" not in flags and "--allow-private" not in flags
        ):  # tests make subscribers anywhere: nothing goes there
            self.flags = (*flags, "--roles", "api,fanout,janitor")
        self.host = "127.0.0.1"
        self.port = 0
        self.log_file = directory / "server.log"
        self.process: Forked | subprocess.Popen[str] | None = None
        self._afresh = afresh
        self._said: IO[str] | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def secret_file(self) -> Path:
        return self.directory / "eventhub.secret"

    def start(self) -> Self:
        """Start it, and wait until it says that it listens."""
        self.directory.mkdir(parents=True, exist_ok=True)
        arguments = ("serve", *self._named(), "--port", str(self.port), *self.flags)
        start = begin_afresh if self._afresh else begin_forked
        with self.log_file.open("ab") as log:
            self.process, self._said = start(arguments, cwd=self.directory, env=environment(), stderr=log)
        line = ""
        if select.select([self._said], [], [], START_SECONDS)[0]:
            line = self._said.readline()
        if not line.startswith(LISTENS):
            self.kill()
            raise AssertionError(f"The server did not start; it said {line!r} and:\n{self.log()}")
        address = line.removeprefix(LISTENS).strip()
        self.port = int(address.rpartition(":")[2])
        return self

    def _named(self) -> list[str]:
        return ["--db", self.db, "--secret-file", str(self.secret_file)]

    def command(self, *arguments: str, secret: bool = False) -> subprocess.CompletedProcess[str]:
        """Another command of the hub on the same database."""
        named = self._named() if secret else ["--db", self.db]
        return run_forked((*arguments, *named), cwd=self.directory, env=environment(), stdin="", timeout=60)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """The exit code, when it has ended."""
        assert self.process is not None
        code = self.process.wait(seconds)
        if self._said is not None:
            self._said.close()
        return code

    def kill(self) -> None:
        """SIGKILL: no last words."""
        self.send(signal.SIGKILL)
        self.wait()

    def stop(self) -> None:
        """End it, if it still runs: politely, then not."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.send(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait()
        if self.process.poll() is None:
            self.kill()
        if self._said is not None:
            self._said.close()

    def log(self, since: int = 0) -> str:
        """What it wrote to standard error, from a byte on."""
        with contextlib.suppress(FileNotFoundError), self.log_file.open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")
        return ""

    def log_size(self) -> int:
        return self.log_file.stat().st_size if self.log_file.exists() else 0

    def memory(self) -> int:
        """Bytes of memory that it has now."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("The server has no memory: it has ended.")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def until_refused(port: int, seconds: float = 10.0) -> None:
    """Wait until nothing listens on the port any more: another process cannot be asked to tell."""
    import socket

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return
        time.sleep(0.01)
    raise AssertionError(f"Port {port} still answers after {seconds} s.")
