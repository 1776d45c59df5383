"""A private PgBouncer before a private PostgreSQL: Debian's program, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from eventhub.testing.postgres_cluster import UNPRIVILEGED, PostgresCluster, PostgresError, free_port

__all__ = ["PgBouncer"]

START_SECONDS: Final = 30.0
_CONFIGURATION: Final = """
[databases]
* = host={directory} port={server_port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 1000
server_round_robin = 1
logfile =
pidfile =
{more}
"""
"""Connections to the server are taken in turn, so that whatever was left in a session is missed at once."""


class PgBouncer:
    """One pooler. ``with PgBouncer(cluster, "transaction") as pooler: pooler.url("database")``."""

    def __init__(
        self, cluster: PostgresCluster, mode: Literal["transaction", "session"], *, size: int = 8, **more: str
    ) -> None:
        """``size`` connections to each database; ``more`` are settings by their names."""
        self._cluster, self._mode, self._size, self._more = cluster, mode, size, more
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise PostgresError("The pooler does not run: call start() first.")
        return self._process.pid

    def start(self) -> None:
        """Run it and wait until it answers."""
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if program is None:
            raise PostgresError("PgBouncer is not installed here. Install it (Debian: apt-get install pgbouncer).")
        file = self._cluster.directory / f"pgbouncer-{self.port}.ini"
        log = file.with_suffix(".log")
        file.write_text(
            _CONFIGURATION.format(
                directory=self._cluster.directory,
                server_port=self._cluster.port or 5432,
                port=self.port,
                mode=self._mode,
                size=self._size,
                more="\n".join(f"{name} = {value}" for name, value in self._more.items()),
            )
        )
        user = UNPRIVILEGED if os.geteuid() == 0 else None
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own configuration
                [program, str(file)],
                cwd="/",
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the owner, who ends it
            )
        self._await_start(log)

    def _await_start(self, log: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        while "process up" not in log.read_text():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise PostgresError(f"PgBouncer did not start. Its log ends:\n{log.read_text()[-2000:]}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End it at once: all its connections are cut."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
