"""The figures of the last days for those who ask often: read from the marts again only when these have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from eventhub.errors import StoreUnavailable
from eventhub.lake.place import Lake

if TYPE_CHECKING:
    from eventhub.lake.figures import Figures

__all__ = ["STALE_AFTER", "Reports"]

STALE_AFTER: Final = timedelta(hours=1)
MOST_KEPT: Final = 8


class Reports:
    """The figures of one hub's lake. Without a lake, or with one of another hub, there are none."""

    def __init__(self, url: str, hub: str) -> None:
        self._lake, self._hub = Lake(url), hub
        self._versions: tuple[int, ...] = ()
        self._kept: dict[tuple[object, ...], Figures] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="eventhub-reports")

    @property
    def can_read(self) -> bool:
        """Whether what reads a lake is installed: it is an extra."""
        return find_spec("deltalake") is not None and find_spec("pyarrow") is not None

    async def read(self, days: int, subscribers: Mapping[str, str]) -> Figures | None:
        """The figures of the last days that the lake knows; None when it has no marts of this hub."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, days, subscribers)

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _read(self, days: int, subscribers: Mapping[str, str]) -> Figures | None:
        from deltalake.exceptions import DeltaError

        try:
            return self._find(days, subscribers)
        except (OSError, DeltaError) as error:
            raise StoreUnavailable(
                f"The lake {self._lake.url} cannot be read ({error}). Check that it can be reached, then try again."
            ) from error

    def _find(self, days: int, subscribers: Mapping[str, str]) -> Figures | None:
        from eventhub.lake.figures import read_figures
        from eventhub.lake.marts import MARTS
        from eventhub.lake.reading import TableReader

        daily = self._lake.table("marts/daily")
        if not daily.exists or not daily.days():
            return None
        events = TableReader(self._lake.dataset("events"))
        events.refresh()
        if not events.has_copies_of(f"{self._hub}/events"):
            return None
        tables = [self._lake.table(path) for path in MARTS]
        versions = tuple(table.open().version() if table.exists else -1 for table in tables)
        if versions != self._versions:
            self._versions = versions
            self._kept = {}
        wanted = (days, *sorted(subscribers.items()))
        if wanted not in self._kept:
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            self._kept[wanted] = read_figures(self._lake, days=days, stale_after=STALE_AFTER, subscribers=subscribers)
        return self._kept[wanted]
