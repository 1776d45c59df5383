"""``eventhub serve``: the hub over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import App, Group, Parameter

from eventhub.cli.options import Common
from eventhub.config import describe
from eventhub.errors import SettingsError

__all__ = ["app"]

app = App(name="serve")
SERVER = Group("Server", sort_key=10)


def _flag(name: str) -> Parameter:
    return Parameter(name=f"--{name.replace('_', '-')}", help=describe(name), group=SERVER, show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Server(Common):
    """Options of the server; each is also a setting."""

    lake: Annotated[str | None, _flag("lake")] = None
    host: Annotated[str | None, _flag("host")] = None
    port: Annotated[str | None, _flag("port")] = None
    workers: Annotated[str | None, _flag("workers")] = None
    roles: Annotated[str | None, _flag("roles")] = None
    allowed_hosts: Annotated[str | None, _flag("allowed_hosts")] = None
    secret_file: Annotated[str | None, _flag("secret_file")] = None
    allow_private: Annotated[str | None, _flag("allow_private")] = None
    work_queue: Annotated[str | None, _flag("work_queue")] = None
    max_retries: Annotated[str | None, _flag("max_retries")] = None
    retry_seconds: Annotated[str | None, _flag("retry_seconds")] = None
    lease_seconds: Annotated[str | None, _flag("lease_seconds")] = None
    rate_per_second: Annotated[str | None, _flag("rate_per_second")] = None
    rate_burst: Annotated[str | None, _flag("rate_burst")] = None
    max_backlog: Annotated[str | None, _flag("max_backlog")] = None
    max_bodies_mb: Annotated[str | None, _flag("max_bodies_mb")] = None
    min_free_disk_mb: Annotated[str | None, _flag("min_free_disk_mb")] = None
    request_seconds: Annotated[str | None, _flag("request_seconds")] = None
    shutdown_seconds: Annotated[str | None, _flag("shutdown_seconds")] = None


@app.default
def serve(*, server: Server | None = None) -> int:
    """Serve the hub over HTTP until it is told to stop: everything in one process, by default on 127.0.0.1:8080."""
    server = server or Server()
    if server.json:
        raise SettingsError("A server prints no document. For a log in JSON give --log-format json.")
    loaded = server.load()
    try:
        from eventhub.http.server import serve as run
    except ImportError as error:
        raise SettingsError("The server needs more packages: pip install 'eventhub[server]'.") from error
    return run(loaded)
