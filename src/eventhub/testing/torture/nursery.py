"""The process that all children are forked from: it has imported everything, so a new child costs milliseconds.

It reads one request a line, ``{"role": …, "arguments": {…}, "plant": …}``, forks, and answers with the process id.
When its standard input ends, or it is killed, its children die with it. It never has threads or an event loop.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import logging
import os
import resource
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

import structlog

PR_SET_PDEATHSIG: Final = 1
USUAL: Final = ("publisher", "worker")
"""Roles that are imported before the first request; others when the first of them is wanted."""


def serve(packages: Sequence[str]) -> None:
    """Fork what is asked for, until nobody asks any more. ``packages`` have the modules of roles."""

    @cache
    def module(role: str) -> ModuleType:
        for package in packages:
            if find_spec(f"{package}.{role}"):
                return importlib.import_module(f"{package}.{role}")
        raise LookupError(f"There is no role {role} in {', '.join(packages)}.")

    for usual in USUAL:
        module(usual)
    # Standard error is for tracebacks; what the hub and the driver's pool warn of is expected here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").addFilter(_is_news)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for children: the kernel takes them away
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})  # it waits until a child knows what to do with it
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        request = json.loads(line)
        role = module(request["role"])
        pid = os.fork()
        if pid == 0:
            _live(role, request["arguments"], request.get("plant"))
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record tells of more than a server that hung up on PostgreSQL's driver before it had said anything."""
    error = record.exc_info[1] if record.exc_info else None
    return "unexpected connection_lost() call" not in str(error)


def _live(role: Any, arguments: dict[str, Any], plant: str | None) -> None:
    """The whole life of a child; it never returns."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(2, 1)  # standard output belongs to the answers
        if plant is not None:
            place, _, name = plant.partition(":")
            getattr(importlib.import_module(place), name)()
        role.main(arguments)
        status = 0
    except BaseException:  # noqa: BLE001 - the child ends here; its parent's log has to say why
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1:])
