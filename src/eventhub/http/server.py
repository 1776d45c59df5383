"""Running the server: one process, or several that share a socket; signals; an end in good order.

first SIGTERM or SIGINT    take no more requests, tell waiting workers that there is nothing, finish what is
                           under way (at most ``shutdown_seconds``), close the store
second one                 end at once; leases and the next start take care of the rest
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
import uvloop

from eventhub.config import Loaded, Settings
from eventhub.errors import SettingsError
from eventhub.handling.logs import get_logger
from eventhub.http.app import build_app
from eventhub.http.gate import is_loopback
from eventhub.http.processes import Processes
from eventhub.http.protocol import LimitedProtocol
from eventhub.http.service import Service
from eventhub.hub.serving import run_roles
from eventhub.keys import KeyRing
from eventhub.secret_file import locate, read_or_create
from eventhub.store import Store
from eventhub.store.opening import open_named

__all__ = ["listen", "serve", "serve_one"]

log = get_logger("eventhub.http")

KEEP_ALIVE: Final = 75
BACKLOG: Final = 2048
SIGNAL: Final = 128
FAILED: Final = 1
GARBAGE_AFTER: Final = 20_000
"""New objects between two looks for garbage; with Python's 700, a large body would cost looking more than reading."""


def serve(loaded: Loaded) -> int:
    """Serve until told to stop; returns the exit code."""
    os.umask(0o077)  # what a server writes is its own
    settings, store = loaded.settings, open_named(loaded.settings)
    secret = locate(loaded, store)
    if "api" not in settings.role_names:
        if settings.workers > 1:
            raise SettingsError(
                f"workers is {settings.workers}, but the processes of one command share a port, and without the role "
                f"api there is none. Start it {settings.workers} times with one each, or add the role api."
            )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run_roles(settings, store, read_or_create(secret)))
    asyncio.run(_check_start(settings, store, secret))
    listening = listen(settings)
    if settings.workers > 1:
        return Processes(settings, secret, listening).run(lambda: _announce(listening, settings))
    return serve_one(settings, secret, listening, announce=lambda: _announce(listening, settings))


def _announce(listening: socket.socket, settings: Settings) -> None:
    """From here on it serves, and a signal means a stop in good order."""
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    log.info("listening", address=address, processes=settings.workers)
    print(f"Event Hub listens on {address}", flush=True)  # noqa: T201 - scripts wait for this line


async def _check_start(settings: Settings, store: Store, secret: Path) -> None:
    """Open the database once; refuse a secret that its keys were not made under, and an open door without a key."""
    async with store:
        keys = await KeyRing.open(store, secret)
        if await keys.keyless():
            check_door(settings)


def check_door(settings: Settings) -> None:
    """Without a key only the hub's own user on this machine may ask: nobody else may be meant to."""
    if is_loopback(settings.host) and not settings.allowed_hosts.strip():
        return
    who = (
        f"allowed_hosts names {settings.allowed_hosts}, so others are to come"
        if is_loopback(settings.host)
        else f"{settings.host} can be reached from other machines"
    )
    raise SettingsError(
        f"{who}, and there is no API key yet. Make one with `eventhub keys create admin --scopes admin`, "
        "or listen on 127.0.0.1 without allowed_hosts."
    )


def listen(settings: Settings) -> socket.socket:
    """The socket that all processes share."""
    listening = socket.socket(socket.AF_INET6 if ":" in settings.host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"Cannot listen on {settings.host}:{settings.port} ({error.strerror or error}). "
            "Choose another with --host and --port, or stop what listens there."
        ) from None
    listening.listen(BACKLOG)
    listening.set_inheritable(True)
    return listening


def serve_one(
    settings: Settings,
    secret: Path,
    listening: socket.socket,
    *,
    announce: Callable[[], None] | None = None,
    told_by: int | None = None,
    store: Store | None = None,
) -> int:
    """One server process on a socket that listens already; it stops by signals, or as ``told_by`` that file.

    ``store`` is one that was made for it already; else it is the one that the settings name.
    """
    service = Service(settings, store or open_named(settings), read_or_create(secret))
    config = uvicorn.Config(
        build_app(service),
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        loop="uvloop",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, int(settings.shutdown_seconds)),
        backlog=BACKLOG,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # what matters of its life we say ourselves
    server = _Server(config, service, announce=announce, told_by=told_by)
    try:
        server.run(sockets=[listening])
    except SystemExit:  # uvicorn's own, with a code of its own, when the database went away since it was checked
        return FAILED
    return 0 if server.started else FAILED


class _Server(uvicorn.Server):
    """uvicorn's server, with a second order that means now."""

    def __init__(
        self, config: uvicorn.Config, service: Service, *, announce: Callable[[], None] | None, told_by: int | None
    ) -> None:
        super().__init__(config)
        self._service = service
        self._announce = announce
        self._told_by = told_by

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.freeze()  # what is there now stays: nobody need look through it again
        gc.set_threshold(GARBAGE_AFTER, *gc.get_threshold()[1:])
        if self.started and self._announce is not None:
            self._announce()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if self._told_by is None:
            with super().capture_signals():
                yield
        else:
            threading.Thread(target=self._listen, args=(self._told_by,), daemon=True).start()
            yield

    def _listen(self, file: int) -> None:
        while os.read(file, 1):
            self.handle_exit(signal.SIGTERM, None)
        if not self.should_exit:  # whoever gives the orders is gone
            self.handle_exit(signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signals have it
        if self.should_exit:
            os._exit(SIGNAL + sig)
        self.should_exit = True  # and not kept, or uvicorn would raise it again at its end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        log.info("stopping", within_seconds=self.config.timeout_graceful_shutdown)
        self._service.stop_taking()
        await super().shutdown(sockets)
        log.info("stopped")
