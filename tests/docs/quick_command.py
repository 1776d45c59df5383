"""The `eventhub` command for shells of tests: a few lines that ask the nursery of `tests/cli/forking.py` to fork it.

Starting Python with all its imports takes ten times as long as most commands of a guide.
"""

import sys
from pathlib import Path

from tests.cli.forking import Nursery

PROGRAM = """#!{python} -ISE
import json, os, socket, sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    asked = json.dumps({{"arguments": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}).encode()
    socket.send_fds(connection, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(asked)
    _, status = connection.makefile()
    sys.exit(int(status))
"""


class QuickCommand:
    """A directory for the front of `PATH`; the commands end with the test process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._nursery = Nursery()
        self._nursery._process = self._nursery._start()
        program = directory / "eventhub"
        program.write_text(PROGRAM.format(python=sys.executable, address=f"\0{self._nursery._address}"))
        program.chmod(0o755)

    def stop(self) -> None:
        process = self._nursery._process
        assert process is not None
        process.communicate()
