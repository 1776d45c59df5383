"""The hub's own log records: structured, and where the application wants them.

An application that has configured structlog gets them there. Any other gets them through ``logging`` under the names
``eventhub.bus`` and ``eventhub.queue``, like those of every library, and never on its standard output.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

import structlog

__all__ = ["get_logger"]


class _Logger:
    """Chooses where to write at the moment of writing, because applications configure after they import."""

    def __init__(self, name: str) -> None:
        self._configured = structlog.get_logger(name)
        self._plain = structlog.wrap_logger(
            logging.getLogger(name),
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.processors.format_exc_info,
                structlog.processors.KeyValueRenderer(key_order=["event"], drop_missing=True),
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
        )

    def __getattr__(self, level: str) -> Any:
        write = getattr(self._configured if structlog.is_configured() else self._plain, level)

        def safely(event: str, **fields: Any) -> None:
            with suppress(Exception):  # a log that cannot be written never stops the work
                write(event, **fields)

        return safely


def get_logger(name: str) -> Any:
    """A logger with the methods ``info``, ``warning``, ``error`` and ``exception``, which take fields."""
    return _Logger(name)
