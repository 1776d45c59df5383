"""A server process, or one with other roles of the hub, on a store that writes down its claims and reports.

It is the process of `eventhub serve`, and may be killed at any moment; SIGTERM asks it to stop, and a second time to
stop at once.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from eventhub.config import Settings
from eventhub.errors import StoreUnavailable
from eventhub.http.server import listen, serve_one
from eventhub.hub.serving import run_roles
from eventhub.secret_file import read_or_create
from eventhub.testing.torture.history import History
from eventhub.testing.torture.recording import recorded

PAUSE: Final = 0.1


class Arguments(msgspec.Struct, kw_only=True):
    process: str
    directory: str
    url: str
    secret: str
    """The file that all servers of a run share."""
    port: int = 0
    roles: str = "all"
    lease: float = 3.0
    shutdown_seconds: float = 5.0


def main(raw: dict[str, Any]) -> None:
    arguments = msgspec.convert(raw, Arguments)
    secret = Path(arguments.secret)
    settings = Settings(
        db=arguments.url,
        port=arguments.port,
        roles=arguments.roles,
        allow_private="127.0.0.0/8",
        lease_seconds=arguments.lease,
        retry_seconds=0.2,
        shutdown_seconds=arguments.shutdown_seconds,
        circuit_seconds=3600.0,
        log_level="critical",
        lake=str(Path(arguments.directory) / "no-lake"),
    )
    with History(Path(arguments.directory), arguments.process) as history:
        while not _serve(settings, secret, history):
            time.sleep(PAUSE)  # the database was away when it started
        history.note("end")


def _serve(settings: Settings, secret: Path, history: History) -> bool:
    """From its start to its end; false when it could not start."""
    store = recorded(settings.db, history)
    if "api" in settings.role_names:
        told = partial(history.note, "ready")
        with listen(settings) as listening:
            return serve_one(settings, secret, listening, announce=told, store=store) == 0
    try:
        uvloop.run(run_roles(settings, store, read_or_create(secret)))
    except StoreUnavailable:
        return False
    return True
