"""Who wants which events in this process, and under which terms."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import msgspec

from eventhub.bus.breaker import Breaker, BreakerSettings, check_breaker
from eventhub.bus.settings import check_seconds
from eventhub.core.events import QueuedEvent
from eventhub.core.matching import Pattern
from eventhub.core.retry import RetryPolicy
from eventhub.errors import HandlerExistsError, SettingsError
from eventhub.handling.calling import check_handler, is_async
from eventhub.handling.texts import clean
from eventhub.store.buses import Names, RequiredHandlers, dump_names, lacking

__all__ = ["Handler", "Matched", "Subscription", "Subscriptions", "name_of"]

Handler = Callable[[QueuedEvent], Awaitable[Any] | Any]
"""An async or a plain function of one event. What it returns is ignored; what it raises is a failure."""

MAX_CACHED_TYPES: Final = 10_000
MAX_NAME_LENGTH: Final = 200


class Subscription(msgspec.Struct, frozen=True, eq=False):
    """A handler with its pattern and terms.

    ``id`` is new in every process; ``name`` is the same in all of them, so that an event remembers its handlers:
    the one that was given, or the handler's module and qualified name.
    """

    id: str
    name: str
    named: bool
    """Whether the name was given, and so belongs to this subscription alone."""
    pattern: Pattern
    handler: Handler
    is_async: bool
    timeout: float
    override: RetryPolicy | None
    """Its own policy; None: as the bus has it."""
    breaker: Breaker | None

    @property
    def key(self) -> str:
        """What its results are kept under, unless another subscription has the same key."""
        return self.name if self.named else f"{self.pattern.text}|{self.name}"


class Matched(msgspec.Struct, frozen=True, eq=False):
    """The subscriptions of an event in their order, and what follows from them."""

    subscriptions: tuple[Subscription, ...]
    policy: RetryPolicy
    """The one policy of the event."""
    required: RequiredHandlers
    """What an event remembers that is published now."""
    skipped: Names = ()
    """Handlers that the event needs and that this bus goes on without."""

    @property
    def names(self) -> Names:
        return tuple(subscription.name for subscription in self.subscriptions)


class Subscriptions:
    """The subscriptions of the bus ``owner``. Matches are cached until a subscription comes or goes.

    With ``skip_missing`` an event goes on without handlers that it needs and that are not here, if any of them is.
    """

    def __init__(
        self,
        *,
        owner: str,
        timeout: float,
        retry: RetryPolicy,
        breaker: BreakerSettings | None,
        skip_missing: bool = False,
    ) -> None:
        self._owner = owner
        self._timeout = timeout
        self._retry = retry
        self._breaker = check_breaker(breaker)
        self._skip_missing = skip_missing
        self._by_id: dict[str, Subscription] = {}
        self._keys: Counter[str] = Counter()
        self._cache: dict[tuple[str, Names | None], Matched | None] = {}

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
        name: str | None = None,
    ) -> Subscription:
        """Take in a handler; what is not given is as the bus has it."""
        check_handler(pattern, handler)
        breaker = check_breaker(breaker) or self._breaker
        added = Subscription(
            id=str(uuid4()),
            name=name_of(handler) if name is None else self._new_name(name),
            named=name is not None,
            pattern=Pattern(pattern),
            handler=handler,
            is_async=is_async(handler),
            timeout=self._timeout if timeout is None else check_seconds("timeout", timeout),
            override=None if retry is None else self._retry.override(retry),
            breaker=None if breaker is None else Breaker(breaker),
        )
        self._by_id[added.id] = added
        self._keys[added.key] += 1
        self._cache.clear()
        return added

    def remove(self, subscription_id: str) -> bool:
        """False when there is no such subscription."""
        self._cache.clear()
        removed = self._by_id.pop(subscription_id, None)
        if removed is not None:
            self._keys[removed.key] -= 1
        return removed is not None

    @property
    def names(self) -> Names:
        """The names of all subscriptions."""
        return tuple(subscription.name for subscription in self._by_id.values())

    def matching(self, event_type: str, required: Names | None = None) -> Matched | None:
        """Who handles an event of this type that remembers these handlers; None when not all of them are here.

        One that remembers none, because it was not published by a bus or nobody wanted it, is for whoever wants its
        type. A name may stand for several handlers, such as closures of one function: as many are needed as it was.
        """
        try:
            return self._cache[event_type, required]
        except KeyError:
            pass
        if len(self._cache) >= MAX_CACHED_TYPES:
            self._cache.clear()
        matched = self._cache[event_type, required] = self._find(event_type, required)
        return matched

    def _find(self, event_type: str, required: Names | None) -> Matched | None:
        found = tuple(s for s in self._by_id.values() if s.pattern.matches(event_type))
        missing: Names = ()
        if required is not None:
            found = tuple(s for s in found if s.name in required)
            missing = lacking(required, (s.name for s in found))
        if not found or (missing and not self._skip_missing):
            return None
        overrides = [s.override for s in found if s.override is not None]
        policy = RetryPolicy.most_permissive(overrides) if overrides else self._retry
        return Matched(found, policy, RequiredHandlers(dump_names(s.name for s in found), self._owner), missing)

    def result_key(self, subscription: Subscription) -> str:
        """What the results of a subscription are kept under: good for other processes if it can be told from others.

        Which of several closures of one function it is, only this process knows.
        """
        unique = self._keys[subscription.key] == 1
        return subscription.key if unique else f"{subscription.key}#{subscription.id}"

    def _new_name(self, name: str) -> str:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_LENGTH or clean(name) != name:
            raise SettingsError(f"The name {name!r:.300} is not usable: give 1 to {MAX_NAME_LENGTH} characters.")
        if any(s.named and s.name == name for s in self._by_id.values()):
            raise HandlerExistsError(f"A subscription with the name '{name}' is there already; choose another name.")
        return name


def name_of(handler: Handler) -> str:
    """The module and qualified name of a handler; a script is known by its file, since all of them are ``__main__``."""
    target: Any = handler
    while isinstance(target, partial):
        target = target.func
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    module = getattr(target, "__module__", None) or type(target).__module__
    if module == "__main__":
        script = getattr(sys.modules["__main__"], "__file__", None)
        module = module if script is None else Path(script).stem
    return clean(f"{module}.{name}")[:MAX_NAME_LENGTH]
