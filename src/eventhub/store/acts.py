"""The administrative acts of the store, as the audit log names them; the same for both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from eventhub.store.audit import Act
from eventhub.store.incarnations import Restored
from eventhub.store.values import ApiKey, Published

__all__ = [
    "create_key",
    "create_subscriber",
    "expire_key",
    "key_of_subscriber",
    "of_message",
    "published_by",
    "purge_dead",
    "remove_subscriber",
    "reset",
    "restored",
    "retry_dead",
    "revoke_key",
    "set_status",
    "unpark",
]


def create_key(key: ApiKey) -> Act:
    action = "key.create" if key.rotated_from is None else "key.rotate"
    details = {"name": key.name, "scopes": key.scopes, "expires_at": key.expires_at, "rotated_from": key.rotated_from}
    return Act(action, f"key:{key.id}", details)


def revoke_key(key_id: str) -> Act:
    return Act("key.revoke", f"key:{key_id}")


def expire_key(key_id: str, at: datetime) -> Act:
    return Act("key.expire", f"key:{key_id}", {"expires_at": at})


def retry_dead(ids: Iterable[int]) -> Act:
    """Of work by the ids of the events, of messages by their own."""
    retried = sorted(ids)
    return Act("dead_letter.retry", _one("delivery", retried), {"count": len(retried), "deliveries": retried})


def purge_dead(count: int, events: Sequence[int]) -> Act:
    return Act("dead_letter.purge", None, {"count": count, "events": sorted(events)})


def restored(done: Restored) -> Act:
    return Act("database.restore", None, {"incarnation": done.incarnation.number, "ids_above": done.after})


def published_by(act: Act) -> Callable[[Sequence[Published]], Act | None]:
    """The act of publishing, with the new events; none if the idempotency key was used for them before."""

    def done(published: Sequence[Published]) -> Act | None:
        new = [one.id for one in published if not one.duplicate]
        return replace(act, details={**act.details, "published": new}) if new else None

    return done


def reset(event_id: int, reason: str) -> Act:
    return Act("event.reset", f"event:{event_id}", {"reason": reason})


def unpark(queue: str, ordering_key: str) -> Act:
    return Act("ordering_key.unpark", f"queue:{queue}", {"ordering_key": ordering_key})


def key_of_subscriber(what: str, subscriber: int, ordering_key: str) -> Act:
    """``retry``, ``skip`` or ``unpark``."""
    return Act(f"ordering_key.{what}", f"subscriber:{subscriber}", {"ordering_key": ordering_key})


def of_message(what: str, message_id: int) -> Act:
    """``retry``, ``cancel`` or ``bury``."""
    return Act(f"message.{what}", f"message:{message_id}")


def create_subscriber(subscriber: int, name: str) -> Act:
    return Act("subscriber.create", f"subscriber:{subscriber}", {"name": name})


def set_status(subscriber: int, status: str, reason: str | None) -> Act:
    return Act("subscriber.status", f"subscriber:{subscriber}", {"status": status, "reason": reason})


def remove_subscriber(subscriber: int) -> Act:
    return Act("subscriber.delete", f"subscriber:{subscriber}")


def _one(kind: str, ids: Sequence[int]) -> str | None:
    return f"{kind}:{ids[0]}" if len(ids) == 1 else None
