"""The hub's own log records: structured, and where the application wants them.

An application that has configured structlog gets them there. Any other gets them through ``logging`` under the names
``eventhub.bus`` and ``eventhub.queue``, like those of every library, and never on its standard output. Such an
application has no use for structlog and what comes with it, so it is not imported here: that would be a third of the
time that importing Event Hub takes, and a sixth of its memory.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from functools import partial
from typing import Any

__all__ = ["get_logger"]


class _Logger:
    """Chooses where to write at the moment of writing, because applications configure after they import."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._plain = logging.getLogger(name)

    def __getattr__(self, level: str) -> Any:
        return partial(self._write, level)

    def _write(self, level: str, event: str, /, **fields: Any) -> None:
        with suppress(Exception):  # a log that cannot be written never stops the work
            structlog: Any = sys.modules.get("structlog")
            if structlog is not None and structlog.is_configured():
                getattr(structlog.get_logger(self._name), level)(event, **fields)
                return
            options = {"exc_info": fields.pop("exc_info")} if "exc_info" in fields else {}
            said = " ".join(f"{name}={value!r}" for name, value in {"event": event, **fields}.items())
            getattr(self._plain, level)("%s", said, stacklevel=2, **options)


def get_logger(name: str) -> Any:
    """A logger with the methods ``info``, ``warning``, ``error`` and ``exception``, which take fields."""
    return _Logger(name)
