"""The command in a process of its own each time, without waiting for Python and all imports each time.

    test ──arguments, directory, environment, three files──▶ nursery, which has imported everything
                                                               └─fork─▶ watcher ─fork─▶ the command
    test ◀──────────────── its process id, and its exit status ───────────┘

The command runs as it would from the shell: another process, whose input, output, signals and end are its own.
"""

import array
import atexit
import gc
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

_nurseries: dict[int, "Nursery"] = {}


def run_forked(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
) -> subprocess.CompletedProcess[str]:
    """What ``subprocess.run(["eventhub", *arguments], …)`` would give."""
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        status = nursery().run(arguments, cwd, env, (given, out, errors), timeout)
        texts = []
        for file in (out, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(["eventhub", *arguments], status, *texts)


def nursery() -> "Nursery":
    """The one of this test process."""
    return _nurseries.get(os.getpid()) or _nurseries.setdefault(os.getpid(), Nursery())


class Nursery:
    """Started when it is first needed; it ends when the test process does."""

    def __init__(self) -> None:
        self._address = f"eventhub-nursery-{secrets.token_hex(16)}"
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], files: Sequence[IO[Any]], timeout: float
    ) -> int:
        with self.begin(arguments, cwd, env, files) as forked:
            return forked.wait(timeout)

    def begin(self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], files: Sequence[IO[Any]]) -> "Forked":
        """Start a command that has these three files, and go on."""
        if self._process is None:
            self._process = self._start()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(f"\0{self._address}")  # no file, so that nothing is left behind
        asked = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}).encode()
        socket.send_fds(connection, [len(asked).to_bytes(4, "big")], [file.fileno() for file in files])
        connection.sendall(asked)
        return Forked(connection, arguments)

    def _start(self) -> "subprocess.Popen[bytes]":
        program = f"import sys; from {__name__} import serve; sys.exit(serve())"
        process = subprocess.Popen(
            [sys.executable, "-c", program, self._address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "NO_COLOR": "1"},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process


def begin_forked(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], stderr: IO[Any]
) -> tuple["Forked", IO[str]]:
    """A command that goes on beside the test, without input, and what it says on standard output."""
    readable, writable = os.pipe()
    with Path(os.devnull).open("rb") as nothing, os.fdopen(writable, "wb") as out:
        return nursery().begin(arguments, cwd, env, (nothing, out, stderr)), os.fdopen(readable)


class Forked:
    """A command that was begun: what ``subprocess.Popen`` has of it. It is killed when this is closed or forgotten."""

    def __init__(self, connection: socket.socket, arguments: Sequence[str]) -> None:
        self._connection = connection
        self._answers = connection.makefile()
        self._arguments = arguments
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(["eventhub", *self._arguments], timeout or 0)
            self.returncode = int(self._answers.readline())
            self.close()
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Its watcher reaps it and tells at once, so that its number stays its own until then."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def close(self) -> None:
        self._answers.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# --------------------------------------------------------------- in the nursery


def serve() -> int:
    """Fork a command for every connection; returns in each command's process, with its exit code."""
    _import_everything()
    gc.collect()
    gc.freeze()  # a look at these by a command's collector would copy them
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"\0{sys.argv[1]}")
    listening.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    while listening.fileno() in select.select([listening.fileno(), 0], [], [])[0]:  # input ends with the test process
        connection, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            return _watch(connection)
        connection.close()
    return 0


def _import_everything() -> None:
    from importlib import import_module
    from importlib.util import find_spec

    from eventhub.cli import GROUPS

    for group in GROUPS:
        if group not in ("bench", "pipeline") and find_spec(f"eventhub.cli.{group}"):
            import_module(f"eventhub.cli.{group}")
    for name in ("eventhub", "eventhub.bus", "eventhub.queue", "eventhub.hub", "eventhub.client"):
        import_module(name)
    for name in ("eventhub.store.sqlite", "eventhub.store.postgres", "eventhub.http.server", "eventhub.http.app"):
        import_module(name)
    for name in ("rich.console", "rich.table", "cyclopts", "uvloop"):
        import_module(name)


def _watch(connection: socket.socket) -> int:
    """Start the command, wait for its end or for that of whoever asked, and tell the status."""
    size, files = _received(connection)
    asked = json.loads(connection.recv(size, socket.MSG_WAITALL))
    command = os.fork()
    if command == 0:
        connection.close()
        return _become(asked, files)
    for file in files:
        os.close(file)
    connection.sendall(f"{command}\n".encode())
    ended = os.pidfd_open(command)
    if (
        ended not in select.select([ended, connection.fileno()], [], [])[0]
    ):  # nobody sends more, so the connection has ended
        os.kill(command, signal.SIGKILL)
    _, status = os.waitpid(command, 0)
    with suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _received(connection: socket.socket) -> tuple[int, list[int]]:
    fds = array.array("i")
    length, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_LEN(3 * fds.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data)
    return int.from_bytes(length, "big"), list(fds)


def _become(asked: dict[str, Any], files: list[int]) -> int:
    from eventhub.cli import main

    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(str(asked["cwd"]))
    sys.argv = ["eventhub", *asked["arguments"]]
    return _ended(main())


def _ended(code: int) -> int:
    """End as Python would, but leave what the nursery imported: to take it apart lasts longer than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what the command left unclosed or unawaited says so now
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code  # Python itself shall say that it could not write
