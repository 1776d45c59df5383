"""A command whose output, or errors, go to a terminal: what somebody who sits there would see."""

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, NamedTuple

from tests.cli.forking import nursery
from tests.cli.support import LONGEST, Command

LARGEST = 65_536


class Seen(NamedTuple):
    """How a command ended, and what it wrote where."""

    returncode: int
    stdout: str
    stderr: str


def seen(
    command: Command,
    *arguments: str,
    stdout: bool = True,
    stderr: bool = True,
    env: Mapping[str, str] | None = None,
) -> Seen:
    """Run a command with a terminal for standard output and standard error, or for one of them."""
    environment = {name: value for name, value in command.environment.items() if name != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "COLUMNS": "120", **(env or {})}
    with tempfile.TemporaryFile("w+") as nothing, _file(terminal=stdout) as out, _file(terminal=stderr) as errors:
        code = nursery().run(arguments, command.directory, environment, (nothing, out.file, errors.file), LONGEST)
        return Seen(code, out.text(), errors.text())


class _Written:
    """What was written to a file, or to a terminal, which has to be read while it is written to."""

    def __init__(self, file: IO[bytes], master: int | None) -> None:
        self.file = file
        self._master = master
        self._chunks: list[bytes] = []
        self._reader: threading.Thread | None = None
        if master is not None:
            self._reader = threading.Thread(target=self._read, args=(master,), daemon=True)
            self._reader.start()

    def _read(self, master: int) -> None:
        while True:
            try:
                chunk = os.read(master, LARGEST)
            except OSError:  # as Linux says that nobody has the other side open any more
                return
            if not chunk:
                return
            self._chunks.append(chunk)

    def text(self) -> str:
        if self._reader is None:
            self.file.seek(0)
            return self.file.read().decode()
        self.file.close()
        self._reader.join(LONGEST)
        if self._reader.is_alive():
            raise subprocess.TimeoutExpired("eventhub", LONGEST)
        return b"".join(self._chunks).decode()


@contextmanager
def _file(*, terminal: bool) -> Iterator[_Written]:
    if not terminal:
        with tempfile.TemporaryFile() as file:
            yield _Written(file, None)
        return
    master, slave = os.openpty()
    with os.fdopen(slave, "wb", buffering=0) as file:
        try:
            yield _Written(file, master)
        finally:
            os.close(master)
