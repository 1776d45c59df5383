"""What the parts of the demo share: the store, the voice that tells the story, the book of what was acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from eventhub.cli.output import console, plain, table
from eventhub.core.events import Status
from eventhub.errors import EventHubError
from eventhub.store import Store

if TYPE_CHECKING:
    from rich.console import RenderableType

    from eventhub.cli.demo.tally import Sum

__all__ = ["DemoError", "Narrator", "Stage"]

WIDTH: Final = 100
PATIENCE: Final = 60.0
SETTLED: Final = (Status.COMPLETED, Status.COMPLETED_WITH_ERRORS, Status.FAILED)


class DemoError(EventHubError):
    """The hub did not do what the demo says it does."""


class Narrator:
    """Tells the story on standard output; silent when the answer is JSON."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = console()
        self._console.quiet = quiet
        self._console.width = min(self._console.width, WIDTH)
        self._began = time.monotonic()

    def opening(self, db: str, directory: str) -> None:
        self._console.print("[bold]Event Hub[/]: events that are stored before anything else happens to them,")
        self._console.print("handled at least once, retried when that fails, and never lost.")
        self._console.print(plain(f"Database: {db}"), style="dim", soft_wrap=True)
        self._console.print(plain(f"Files: {directory}, replaced by the next demo"), style="dim", soft_wrap=True)

    @property
    def seconds(self) -> float:
        """Since the story began."""
        return time.monotonic() - self._began

    def chapter(self, title: str, *lines: str) -> None:
        self._console.print()
        self._console.rule(f"[bold]{title}[/]", align="left", characters="─")
        for line in lines:
            self._console.print(line)

    def say(self, line: str) -> None:
        self._console.print(plain(line))

    def good(self, line: str) -> None:
        self._mark("✓", "green", line)

    def bad(self, line: str) -> None:
        self._mark("✗", "red", line)

    def note(self, line: str) -> None:
        self._mark("·", "dim", line)

    def command(self, line: str) -> None:
        # A command must stay in one piece to be copied.
        self._console.print(plain(f"  {line}"), soft_wrap=True, style="cyan")

    def show(self, renderable: RenderableType) -> None:
        self._console.print(renderable)

    @contextmanager
    def waiting(self, line: str) -> Iterator[None]:
        """A spinner while something takes its time."""
        if self._console.quiet or not self._console.is_terminal:
            yield
            return
        with self._console.status(line):
            yield

    @contextmanager
    def progress(self, line: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar; the function that it gives takes how many are done."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn())
        hidden = self._console.quiet or not self._console.is_terminal
        with Progress(*columns, console=self._console, transient=True, disable=hidden) as bar:
            task = bar.add_task(line, total=total)
            yield lambda done: bar.update(task, completed=done)

    def sum_up(self, sum_: Sum) -> None:
        self.chapter("The sum, as the database has it")
        numbers = ("published", "completed", "retried", "dead", "lost")
        rows = table("part", *numbers, numbers=numbers)
        for line in sum_.lines:
            rows.add_row(line.part, *(f"{getattr(line, name):,}" for name in numbers))
        rows.add_section()
        rows.add_row("[bold]all[/]", *(f"[bold]{getattr(sum_, name):,}[/]" for name in numbers))
        self.show(rows)
        for problem in sum_.problems:
            self.bad(problem)
        if sum_.ok:
            self.good("It adds up: completed + dead = published, and nothing is lost")

    def _mark(self, mark: str, style: str, line: str) -> None:
        from rich.text import Text

        self._console.print(Text.assemble((f"  {mark} ", style), plain(line)))


class Stage:
    """One run of the demo: where its hub is, and what it has to answer for at the end."""

    def __init__(self, store: Store, narrator: Narrator, *, hub: str = "", hub_pid: int = 0) -> None:
        self.store = store
        self.narrator = narrator
        self.hub = hub
        self.hub_pid = hub_pid
        self.acknowledged: dict[str, list[int]] = {}
        """Part → ids of events that the hub said it has."""
        self.handled: set[int] = set()
        self.subscribers: dict[int, str] = {}
        self.duplicates_stopped = 0
        self.webhooks_refused = 0
        self.came_back = 0
        self.taken_over = 0
        self.publish_rate = 0.0
        self.drain_rate = 0.0

    def book(self, part: str, ids: Iterable[int]) -> None:
        """The hub said that it has these events: it has to answer for them at the end."""
        self.acknowledged.setdefault(part, []).extend(ids)

    async def settled(self, *ids: int, status: Status | None = None) -> None:
        """Wait until these events have ended, perhaps in a certain way."""
        deadline = time.monotonic() + PATIENCE
        for event_id in ids:
            while True:
                event = await self.store.event(event_id)
                if event is not None and event.status in ((status,) if status else SETTLED):
                    break
                if time.monotonic() > deadline:
                    found = "not there" if event is None else event.status
                    raise DemoError(f"Event {event_id} is {found} after {PATIENCE:.0f} s; it should have ended.")
                await asyncio.sleep(0.02)

    def expect(self, promise: str, *, kept: bool) -> None:
        """A promise of the hub, checked on the spot."""
        if not kept:
            raise DemoError(f"The hub broke a promise: {promise}.")
        self.narrator.good(promise)
