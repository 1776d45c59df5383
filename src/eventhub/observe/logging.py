"""Log records on standard error, for people or as one JSON object a line.

The hub's own records come from structlog, those of other libraries from ``logging``; both leave in the same form.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, Literal

import structlog
from structlog.typing import Processor

__all__ = ["configure"]


def configure(level: str = "info", form: Literal["human", "json"] = "human") -> None:
    """Send log records of this level and above to standard error; a later call replaces an earlier one."""
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: Sequence[Processor] = (
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    )
    last = _json() if form == "json" else _human()
    structlog.configure(
        processors=[*(step for step in shared if not isinstance(step, structlog.stdlib.ExtraAdder)), *last],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(level=number, handlers=[handler], force=True)


def _human() -> list[Processor]:
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)]


def _json() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("message"),
        structlog.processors.JSONRenderer(serializer=_serialize),
    ]


def _serialize(record: Any, **_: Any) -> str:
    import msgspec

    return msgspec.json.encode(record, enc_hook=str).decode()
