"""A report of the last days from the marts of a lake, for people and for programs; it needs no Java."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import msgspec

from eventhub.lake.figures import Figures, read_figures
from eventhub.lake.place import Lake
from eventhub.pipeline.report.page import page

__all__ = ["Figures", "write_report"]


def write_report(
    lake: Lake,
    out: Path,
    *,
    days: int = 7,
    stale_after: timedelta = timedelta(hours=1),
    subscribers: Mapping[str, str] | None = None,
) -> Figures:
    """Write the report as HTML, and its figures as JSON beside it; returns the figures."""
    figures = read_figures(lake, days=days, stale_after=stale_after, subscribers=subscribers)
    data = msgspec.json.format(msgspec.json.encode(figures), indent=1)
    _write(out, page(figures).encode("utf-8", "replace"))
    _write(out.with_suffix(".json"), data + b"\n")
    return figures


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all: whoever looks meanwhile sees the one before."""
    handle, draft = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        Path(draft).chmod(0o666 & ~umask)
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
