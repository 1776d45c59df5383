"""Refused sign-ins in the audit log: the first of an address at once, the others counted, so that nobody can fill it.

first of an address ──▶ a row now          more of it within the window ──▶ one row with their number at its end
more addresses than are remembered ──▶ one row for all of them together
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from eventhub.errors import EventHubError
from eventhub.handling.logs import get_logger
from eventhub.store.audit import Act, Actor, acting_as

if TYPE_CHECKING:
    from eventhub.store import Store

__all__ = ["Refusals"]

log = get_logger("eventhub.http")

WINDOW_SECONDS: Final = 300.0
MAX_ADDRESSES: Final = 20
"""Per window and process; so a day has at most some 12,000 rows, whoever tries what."""
REFUSED: Final = "session.refuse"
_OTHERS: Final = ""


class Refusals:
    """Those of one server process."""

    def __init__(self, store: Store, *, window: float = WINDOW_SECONDS, max_addresses: int = MAX_ADDRESSES) -> None:
        self._store, self._window, self._max = store, window, max_addresses
        self._uncounted: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writes: set[asyncio.Task[None]] = set()

    def note(self, address: str, *, how: str) -> None:
        """A key that is not good was shown: ``how`` says whether to sign a browser in, or with a request."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._window, self._end_window)
        if address in self._uncounted:
            self._uncounted[address] += 1
        elif len(self._uncounted) < self._max:
            self._uncounted[address] = 0
            self._write(address, {"how": how})
        else:
            self._uncounted[_OTHERS] = self._uncounted.get(_OTHERS, 0) + 1

    async def close(self) -> None:
        """Write down what was only counted so far."""
        if self._timer is not None:
            self._timer.cancel()
            self._end_window()
        if self._writes:
            await asyncio.wait(self._writes)

    def _end_window(self) -> None:
        counted, self._uncounted, self._timer = self._uncounted, {}, None
        for address, count in counted.items():
            if count:
                self._write(address, {"further": count, "seconds": self._window})

    def _write(self, address: str, details: dict[str, object]) -> None:
        task = asyncio.create_task(self._record(address, details))
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)

    async def _record(self, address: str, details: dict[str, object]) -> None:
        visitor = Actor("nobody", "visitor", address or "other addresses")
        try:
            with acting_as(visitor):
                await self._store.record_act(Act(REFUSED, None, details))
        except EventHubError as error:  # told here, so that it is not lost
            log.warning("refused_sign_in", address=visitor.address, **details, not_in_audit_log=str(error))
