"""The hub's own news, told as ordinary events that anybody may subscribe to.

    hub.subscriber.disabled     a consumer is gone (410), or an operator switched it off
    hub.subscriber.recovered    a consumer that was left alone answers again
    hub.message.dead            a message was given up
    hub.key.parked              its ordering key is held until somebody acts

News about messages that were news themselves is not told: a consumer that refuses them would make ever more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from eventhub.core.lifecycle import Reason
from eventhub.handling.logs import get_logger
from eventhub.store import Store
from eventhub.store.composing import Composer
from eventhub.store.messages import DeadLetter, SubscriberRow
from eventhub.store.values import NewEvent

__all__ = ["NEWS", "Notices"]

log = get_logger("eventhub.hub")

NEWS: Final = "hub."
DISABLED: Final = "hub.subscriber.disabled"
RECOVERED: Final = "hub.subscriber.recovered"
DEAD: Final = "hub.message.dead"
PARKED: Final = "hub.key.parked"
PORTION: Final = 20
"""Letters come with their payloads."""


class Notices:
    """Publishes news in the very commit that makes it so."""

    def __init__(self, store: Store, composer: Composer) -> None:
        self._store, self._composer = store, composer

    async def disable(self, row: SubscriberRow, reason: str) -> bool:
        """The subscriber wants no more; its messages wait until somebody enables it again."""
        payload = {"subscriber": row.id, "name": row.name, "reason": reason}
        event = self._event(DISABLED, payload)
        done = await self._store.set_status(
            row.id, "disabled", reason=reason, expect=frozenset({"active", "paused"}), event=event
        )
        if done:
            log.error("subscriber_disabled", subscriber=row.name, reason=reason)
        return done

    async def recovered(self, row: SubscriberRow) -> bool:
        event = self._event(RECOVERED, {"subscriber": row.id, "name": row.name})
        done = await self._store.close_circuit(row.id, event=event)
        if done:
            log.info("subscriber_recovered", subscriber=row.name)
        return done

    async def announce_dead(self) -> int:
        """Tell of messages that were given up, each once; returns of how many."""
        told = 0
        while count := await self._store.announce_dead(self._about, limit=PORTION):
            told += count
        return told

    def _about(self, letters: Sequence[DeadLetter]) -> list[NewEvent]:
        events = []
        for letter in letters:
            if letter.type.startswith(NEWS):
                continue
            facts = {
                "message_id": letter.delivery_id,
                "event_id": letter.id,
                "event_type": letter.type,
                "subscriber": letter.subscriber,
                "name": (letter.consumer or {}).get("name"),
                "reason": letter.reason,
                "error": letter.errors[-1][:1000] if letter.errors else None,
                "attempts": letter.attempts,
            }
            events.append(self._event(DEAD, facts))
            if letter.parked and letter.reason != Reason.SKIPPED:
                events.append(self._event(PARKED, {**facts, "ordering_key": letter.ordering_key}))
        return events

    def _event(self, kind: str, payload: dict[str, Any]) -> NewEvent:
        event = self._composer.one(kind, payload, {})
        event.work, event.broadcast = False, True
        return event
