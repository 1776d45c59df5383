"""The ordering key of a message: read from its event by the path that its subscriber gives."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import msgspec

from eventhub.core.paths import Path

__all__ = ["LONGEST_KEY", "key_path", "ordering_key_of"]

LONGEST_KEY: Final = 255


def key_path(text: str) -> Path | None:
    """Where the key is, if that is inside the event; None for the publisher's own ``ordering_key``.

    Raises ValueError for a path that cannot be a key's.
    """
    path = Path.parse(text)
    if path.root == "ordering_key":
        return None
    if path.text == "payload":
        raise ValueError("is the whole payload; name a value in it, such as payload.customer.id")
    return path


_remembered = lru_cache(maxsize=4096)(key_path)


def ordering_key_of(
    path: str | None,
    ordering_key: str | None,
    payload: Any,
    metadata: Mapping[str, str] | None,
    event_type: str = "",
) -> str | None:
    """The key by which this event is ordered for a subscriber with this path; None: it is not ordered.

    Numbers and booleans count as their JSON text. What is missing, null, empty, a list or an object is no key. One that
    is too long stands as a digest of itself.
    """
    if path is None:
        return None
    found = _remembered(path)
    value = ordering_key if found is None else found.read(event_type, payload, metadata, ordering_key)
    if isinstance(value, str):
        key = value
    elif isinstance(value, bool | int | float):
        key = msgspec.json.encode(value).decode()
    else:
        return None
    if len(key) <= LONGEST_KEY:
        return key or None
    return blake2b(key.encode(), digest_size=32).hexdigest()
