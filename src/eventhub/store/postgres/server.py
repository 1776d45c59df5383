"""Where a PostgreSQL is and how it is reached: its hosts, the limit for each, and the pooler that may stand before it.

    postgresql://user@one,two:5433/app?connect_timeout=3&pool=transaction&listen_url=postgresql%3A%2F%2F…

``connect_timeout``, ``pool`` and ``listen_url`` are read here; the driver reads the rest. Several hosts are tried one
after the other, the one that answered last first, each for a time of its own, and only one that can be written to is
taken, unless ``target_session_attrs`` says otherwise.

A pooler such as PgBouncer may give each transaction another connection to the server. Then nothing may be left in a
session: no prepared statement, no setting, no LISTEN. It is found out by its refusal of a setting, or because the
process id that it gave at the start is not that of the server's process.
"""

from __future__ import annotations

import re
import socket
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import asyncpg
import structlog

from eventhub.errors import SettingsError
from eventhub.store.opening import shown

__all__ = ["Server"]

APPLICATION: Final = {"application_name": "eventhub"}
SETTINGS: Final = APPLICATION | {"jit": "off"}
"""For the whole session; a pooler keeps only the name of the application."""
CONNECT_SECONDS: Final = 10.0
"""For the only host."""
HOST_SECONDS: Final = 2.5
"""For each of several hosts: the next one is asked within three seconds."""
POOLS: Final = ("transaction", "session")
_OURS: Final = ("connect_timeout", "pool", "listen_url")
_HOST: Final = re.compile(r"(\[[^\]]+\]|/.*?|[^:]*)(?::(\d+))?")
_log: Final = structlog.get_logger("eventhub.store")

Connection = Any
"""The driver's; its stubs know it as a class with a parameter, which it is not when the program runs."""


class Server:
    """The server that a URL names; remembers which host answered and whether a pooler stands before it."""

    def __init__(self, url: str, *, listen_url: str | None = None) -> None:
        """Raises SettingsError for a parameter of ours that cannot be used, and ValueError for what is no URL."""
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True)
        given = dict(pairs)
        self.url = url
        self.pool = given.get("pool")
        """The pooler's mode; None while none was named or found."""
        if self.pool not in (None, *POOLS):
            raise SettingsError(f"{shown(url)}: pool is {self.pool!r}; give one of {', '.join(POOLS)}.")
        self.listen_url = given.get("listen_url") or listen_url
        self._is_known = self.pool is not None
        self._dsn = url
        if any(name in given for name in _OURS):
            rest = urlencode([(name, value) for name, value in pairs if name not in _OURS], safe="/,:")
            self._dsn = parts._replace(query=rest).geturl()
        self._hosts = _hosts(parts.netloc.rpartition("@")[2], given)
        self._seconds = _seconds(url, given) or (HOST_SECONDS if self.has_hosts else CONNECT_SECONDS)
        self._wants = given.get("target_session_attrs")

    @property
    def has_hosts(self) -> bool:
        """Whether there is another host to go to when one cannot be used."""
        return len(self._hosts) > 1

    @property
    def keeps_sessions(self) -> bool:
        """Whether what one statement leaves in its session is there for the next, such as LISTEN."""
        return self.pool != "transaction"

    async def connect(self, *_: Any, server_settings: dict[str, str] | None = None, **options: Any) -> Connection:
        """A connection with our settings and these; the driver's pool calls it with the driver's options."""
        settings = server_settings or {}
        if self.pool is not None:
            return await self._connect_pooled(settings, options)
        try:
            connection = await self._connect_any({**options, "server_settings": SETTINGS | settings})
        except asyncpg.ProtocolViolationError as error:
            if "startup parameter" not in str(error):
                raise
        else:
            if self._is_known or not await _is_pooled(connection):
                self._is_known = True
                return connection
            connection.terminate()
        self._found_pooler()
        return await self._connect_pooled(settings, options)

    async def _connect_pooled(self, settings: dict[str, str], options: dict[str, Any]) -> Connection:
        if self.pool == "transaction":
            options = {**options, "statement_cache_size": 0}
        return await self._connect_any({**options, "server_settings": APPLICATION | settings})

    def _found_pooler(self) -> None:
        """Taken for one in transaction mode, for what works there works in session mode, too."""
        self.pool = "transaction"
        self._is_known = True
        _log.info(
            "a pooler was found before the database, so statements are not prepared",
            database=shown(self.url),
            remedy="Add pool=transaction to the URL, or pool=session if the pooler keeps sessions.",
        )

    async def _connect_any(self, options: dict[str, Any]) -> Connection:
        """The first host that can be used, in the order of the URL but for the one that was used last."""
        options = {**options, "timeout": self._seconds}
        if not self.has_hosts:
            connection = await asyncpg.connect(self._dsn, **options)
            _keep_alive(connection)
            return connection
        if self._wants is None:
            options["target_session_attrs"] = "read-write"
        attempts = [self._wants] if self._wants != "prefer-standby" else ["standby", "any"]
        failures: list[str] = []
        for wants in attempts:
            if wants is not None:
                options["target_session_attrs"] = wants
            for place in list(self._hosts):
                host, port = place
                try:
                    connection = await asyncpg.connect(self._dsn, host=host, port=port, **options)
                except _NEXT as error:
                    if isinstance(error, asyncpg.ProtocolViolationError):
                        raise
                    failures.append(f"{host}:{port}: {_why(error, self._seconds)}")
                    continue
                self._hosts.remove(place)
                self._hosts.insert(0, place)
                _keep_alive(connection)
                return connection
        raise ConnectionError("none of the hosts can be used (" + "; ".join(failures) + ")")


_NEXT: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.TargetServerAttributeNotMatched,
)
"""Errors after which another host may do; a refused login is not one, for the others would refuse it, too."""


def _why(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "it is not what target_session_attrs asks for; without it: it is read-only, such as a standby"
    return str(error) or type(error).__name__


async def _is_pooled(connection: Connection) -> bool:
    """Whether the server's process is another than the connection was told at its start.

    Asked without preparing a statement, whose name could be in use in a session that is not ours alone.
    """
    try:
        status = await connection.execute(f"SELECT WHERE pg_backend_pid() = {connection.get_server_pid():d}")
    except BaseException:
        connection.terminate()
        raise
    return bool(status != "SELECT 1")


def _hosts(named: str, given: dict[str, str]) -> list[tuple[str, int]]:
    """The hosts of a URL and their ports; empty when it names one or none, which the driver reads as well."""
    text = unquote(named) or given.get("host", "")
    if "," not in text:
        return []
    ports = given.get("port", "5432").split(",")
    found = []
    for place, one in enumerate(text.split(",")):
        match = _HOST.fullmatch(one)
        if match is None:
            raise ValueError(f"{one} is not a host")
        port = match[2] or (ports[place] if len(ports) > place else ports[-1])
        found.append((match[1].strip("[]") or "localhost", int(port)))
    return found


def _seconds(url: str, given: dict[str, str]) -> float | None:
    """``connect_timeout`` as other drivers read it: for each host; 0 or less names no limit."""
    text = given.get("connect_timeout", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        raise SettingsError(f"{shown(url)}: connect_timeout is {text!r}; give a number of seconds.") from None
    return seconds if seconds > 0 else None


def _keep_alive(connection: Any) -> None:
    """A server that is gone without a word is noticed within a minute. The driver has no setting for this."""
    line = connection._transport.get_extra_info("socket")  # noqa: SLF001 - see above
    if line is None or line.family not in (socket.AF_INET, socket.AF_INET6):
        return
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
