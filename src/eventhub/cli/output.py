"""Tables for people, one JSON document for programs; both on standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["console", "document", "duration", "json_text", "moment", "plain", "records", "status", "table"]

PIPED_WIDTH: Final = 200
_SECOND: Final = 1.0
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_DAY: Final = 86_400.0
_STATUS_STYLES: Final = {
    "PENDING": "yellow",
    "PROCESSING": "cyan",
    "COMPLETED": "green",
    "COMPLETED_WITH_ERRORS": "red",
    "FAILED": "red",
}


def console(*, stderr: bool = False) -> Console:
    """A terminal as it is; for a file or a pipe no colour, and room enough that no cell is cut to nothing."""
    from rich.console import Console

    class OurConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # whose reader has left is for main to decide about

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return OurConsole(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def document(value: Any) -> None:
    """The one JSON document of a command, indented; times are RFC 3339 in UTC."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
    sys.stdout.flush()


def table(*columns: str, title: str | None = None, numbers: Sequence[str] = ()) -> Table:
    """An empty table; columns named in ``numbers`` are set to the right."""
    from rich import box
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column in columns:
        right = column in numbers
        made.add_column(column, justify="right" if right else "left", no_wrap=right)
    return made


def records(pairs: Iterable[tuple[str, RenderableType]]) -> Table:
    """Name and value, one a line; those with an empty value are left out."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(style="bold", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value:
            made.add_row(name, value)
    return made


def status(value: str) -> str:
    """A status in its colour, as rich markup."""
    return f"[{_STATUS_STYLES.get(value, 'default')}]{value}[/]"


def moment(value: datetime | None) -> str:
    """A time for people: to the second, UTC."""
    return "" if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def duration(seconds: float | None) -> str:
    """A length of time in the unit that fits it."""
    if seconds is None:
        return ""
    if seconds < _SECOND:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"  # noqa: PLR2004
    if seconds < _MINUTE:
        return f"{seconds:.1f} s"
    for unit, name, below in ((_MINUTE, "min", _HOUR), (_HOUR, "h", _DAY)):
        if seconds < below:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds / _DAY:.1f} d"


def json_text(value: Any) -> str:
    """A payload as JSON in one line."""
    return msgspec.json.encode(value).decode()


def plain(text: str | None, limit: int | None = None) -> Text:
    """What came from outside: never read as markup, and unable to steer the terminal."""
    from rich.text import Text

    shown = text or ""
    if limit is not None and len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    return Text("".join(letter if letter.isprintable() or letter == "\n" else repr(letter)[1:-1] for letter in shown))
