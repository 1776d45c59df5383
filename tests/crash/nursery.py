"""The process that all children are forked from: it has imported everything, so a new child costs milliseconds.

It reads one request a line, ``{"role": …, "process": …, "arguments": {…}}``, forks, and answers with the process id.
When its standard input ends, or it is killed, its children die with it. It never has threads or an event loop.
"""

import ctypes
import importlib
import json
import logging
import os
import resource
import signal
import sys
import traceback
from typing import Any

import structlog

ROLES = ("bus_process", "hub_process", "migrator", "publisher", "worker")
"""Those that most tests use; others are imported when the first of them is wanted."""
PR_SET_PDEATHSIG = 1


def serve() -> None:
    roles = {role: importlib.import_module(f"tests.crash.{role}") for role in ROLES}
    # Standard error is for tracebacks; what the hub and the driver's pool warn of is expected here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.getLogger("asyncpg.pool").setLevel(logging.ERROR)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for children: the kernel takes them away
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        request = json.loads(line)
        role = request["role"]
        if role not in roles:
            roles[role] = importlib.import_module(f"tests.crash.{role}")
        pid = os.fork()
        if pid == 0:
            _live(roles[role], request["arguments"])
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _live(role: Any, arguments: dict[str, Any]) -> None:
    """The whole life of a child; it never returns."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(2, 1)  # standard output belongs to the answers
        role.main(arguments)
        status = 0
    except BaseException:  # noqa: BLE001 - the child ends here; its parent's log has to say why
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
