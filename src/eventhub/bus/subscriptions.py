"""Who wants which events in this process, and under which terms."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final
from uuid import uuid4

import msgspec

from eventhub.bus.breaker import Breaker, BreakerSettings
from eventhub.bus.settings import check_seconds
from eventhub.core.events import QueuedEvent
from eventhub.core.matching import Pattern
from eventhub.core.retry import RetryPolicy
from eventhub.errors import SettingsError

__all__ = ["Handler", "Matched", "Subscription", "Subscriptions"]

Handler = Callable[[QueuedEvent], Awaitable[Any] | Any]
"""An async or a plain function of one event. What it returns is ignored; what it raises is a failure."""

MAX_CACHED_TYPES: Final = 10_000


class Subscription(msgspec.Struct, frozen=True, eq=False):
    """A handler with its pattern and terms.

    ``id`` is new in every process; ``key`` is the same in all of them, so that a handler's success is
    remembered across restarts: the pattern, the handler's qualified name, and a number when both
    are subscribed again.
    """

    id: str
    key: str
    pattern: Pattern
    handler: Handler
    is_async: bool
    timeout: float
    policy: RetryPolicy
    breaker: Breaker | None


class Matched(msgspec.Struct, frozen=True, eq=False):
    """The subscriptions of an event type in their order, and the one policy that follows from them."""

    subscriptions: tuple[Subscription, ...]
    policy: RetryPolicy


class Subscriptions:
    """The subscriptions of a bus. Matches are cached by event type until a subscription comes or goes."""

    def __init__(self, *, timeout: float, retry: RetryPolicy, breaker: BreakerSettings | None) -> None:
        self._timeout = timeout
        self._retry = retry
        self._breaker = breaker
        self._by_id: dict[str, Subscription] = {}
        self._cache: dict[str, Matched | None] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def add(
        self,
        pattern: str,
        handler: Handler,
        *,
        timeout: float | None,
        retry: Mapping[str, Any] | RetryPolicy | None,
        breaker: BreakerSettings | None,
    ) -> Subscription:
        """Take in a handler; what is not given is as the bus has it."""
        if not callable(handler):
            raise SettingsError(f"The handler of {pattern!r} is {handler!r}; give a function that takes an event.")
        breaker = breaker or self._breaker
        added = Subscription(
            id=str(uuid4()),
            key=self._new_key(pattern, handler),
            pattern=Pattern(pattern),
            handler=handler,
            is_async=_is_async(handler),
            timeout=self._timeout if timeout is None else check_seconds("timeout", timeout),
            policy=self._retry.override(retry),
            breaker=None if breaker is None else Breaker(breaker),
        )
        self._by_id[added.id] = added
        self._cache.clear()
        return added

    def remove(self, subscription_id: str) -> bool:
        """False when there is no such subscription."""
        self._cache.clear()
        return self._by_id.pop(subscription_id, None) is not None

    def matching(self, event_type: str) -> Matched | None:
        """Who wants events of this type; None when nobody does."""
        try:
            return self._cache[event_type]
        except KeyError:
            pass
        wanted = tuple(s for s in self._by_id.values() if s.pattern.matches(event_type))
        matched = Matched(wanted, RetryPolicy.most_permissive(s.policy for s in wanted)) if wanted else None
        if len(self._cache) >= MAX_CACHED_TYPES:
            self._cache.clear()
        self._cache[event_type] = matched
        return matched

    def _new_key(self, pattern: str, handler: Handler) -> str:
        named = handler.func if isinstance(handler, partial) else handler
        name = getattr(named, "__qualname__", type(named).__qualname__)
        module = getattr(named, "__module__", "")
        key = first = f"{pattern}|{module}.{name}"
        taken = {s.key for s in self._by_id.values()}
        number = 1
        while key in taken:
            number += 1
            key = f"{first}#{number}"
        return key


def _is_async(handler: Handler) -> bool:
    target: Any = handler
    while isinstance(target, partial):
        target = target.func
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)
