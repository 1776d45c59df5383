"""What a process does for the hub: hand events out, send messages, keep house; any of these, in any number of them."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from eventhub.errors import SettingsError
from eventhub.hub.destinations import Destinations
from eventhub.hub.dispatcher import Dispatcher, DispatcherTuning
from eventhub.hub.fan_out import FanOut
from eventhub.hub.janitor import Janitor, Keeping
from eventhub.hub.lines import CircuitRules
from eventhub.hub.looping import Loop
from eventhub.hub.notices import Notices
from eventhub.hub.numbers import Numbers
from eventhub.hub.presence import Presence
from eventhub.hub.roster import Roster
from eventhub.hub.sending import Sender
from eventhub.hub.subscribers import SubscriberBook
from eventhub.store import Store
from eventhub.store.composing import Composer

__all__ = ["ROLES", "Crew", "CrewSettings"]

ROLES: Final = ("fanout", "dispatcher", "janitor")


class CrewSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the roles do their work."""

    tuning: DispatcherTuning = DispatcherTuning()
    circuit: CircuitRules = CircuitRules()
    keeping: Keeping = Keeping()


class Crew:
    """The roles of one process on one store."""

    def __init__(
        self,
        store: Store,
        book: SubscriberBook,
        destinations: Destinations,
        *,
        queue: str,
        roles: frozenset[str] = frozenset(ROLES),
        settings: CrewSettings = CrewSettings(),  # noqa: B008 - frozen
    ) -> None:
        unknown = sorted(roles - set(ROLES))
        if unknown:
            raise SettingsError(f"There is no role {', '.join(unknown)}; give some of {', '.join(ROLES)}.")
        self.numbers = Numbers()
        notices = Notices(store, Composer(queue))
        self._sender = Sender(destinations, limit=settings.tuning.concurrency) if "dispatcher" in roles else None
        self._loops: list[Loop] = []
        if "fanout" in roles:
            self._loops.append(FanOut(store, self.numbers))
        if self._sender is not None:
            roster = Roster(store, book, settings.circuit)
            self._loops.append(Dispatcher(store, roster, self._sender, notices, self.numbers, tuning=settings.tuning))
        if "janitor" in roles:
            self._loops.append(Janitor(store, notices, settings.keeping))
        if self._loops:
            self._loops.append(Presence(store, sorted(roles)))

    async def start(self) -> None:
        if self._sender is not None:
            await self._sender.start()
        for loop in self._loops:
            loop.start()

    async def stop(self) -> None:
        """What is under way ends first, what takes too long is given back; from now on nothing more is begun."""
        await asyncio.gather(*(loop.stop() for loop in self._loops))
        if self._sender is not None:
            await self._sender.close()
