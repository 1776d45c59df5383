"""The audit log: which administrative act was done, by whom, from where, and when.

    caller ──acting_as(actor)──▶ operation of the store ──one transaction──▶ the act and its row

The store's operations name the act and its target; who acts is a matter of context, so that no caller can forget to say
it. Without a context it is the user whom this process belongs to. What has changed nothing leaves no row.
"""

from __future__ import annotations

import os
import pwd
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Literal, TypeVar

import msgspec

__all__ = ["HUB", "Act", "Actor", "Audit", "AuditEntry", "AuditFilter", "acting_as", "actor", "row_of", "to_entry"]

R = TypeVar("R")
PORTION: Final = 5_000
"""So many rows are pruned in one transaction."""
MAX_TEXT: Final = 200
"""Characters of a target or of a text among the details: some of them come from outside."""
MAX_LISTED: Final = 500


class Actor(msgspec.Struct, frozen=True):
    """Who acts: an API key by name and id, whoever is at the machine (``owner``), a user of a host, the hub itself."""

    name: str
    kind: Literal["key", "owner", "user", "hub", "visitor"]
    address: str | None = None
    key_id: str | None = None


HUB: Final = Actor("hub", "hub")
"""What happens by itself: the janitor's retention, a consumer that has gone for good."""
_actor: ContextVar[Actor | None] = ContextVar("actor", default=None)


@contextmanager
def acting_as(who: Actor) -> Iterator[None]:
    """Everything in this context, and in tasks begun in it, is done by ``who``."""
    token = _actor.set(who)
    try:
        yield
    finally:
        _actor.reset(token)


def actor() -> Actor:
    """Who acts now."""
    return _actor.get() or _local_user(os.geteuid())


@lru_cache(4)
def _local_user(number: int) -> Actor:
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = f"uid {number}"
    return Actor(name, "user", socket.gethostname())


class Act(msgspec.Struct, frozen=True):
    """What is done: an action such as ``key.revoke``, its target such as ``key:Ab3…``, and what else is worth knowing.

    No secret and no payload belongs into the details.
    """

    action: str
    target: str | None = None
    details: dict[str, Any] = {}


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the audit log."""

    id: int
    created_at: datetime
    actor: str
    actor_kind: str
    key_id: str | None = None
    address: str | None = None
    action: str
    target: str | None = None
    details: dict[str, Any] = {}


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows to list, newest first; every given field must fit. An action stands for its group, too (``key``)."""

    actor: str | None = None
    action: str | None = None
    target: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    before_id: int | None = None
    limit: int = 50


class Audit(ABC):
    """The operations; each opens the store when it is not open yet."""

    @abstractmethod
    async def record_act(self, act: Act, *, now: datetime | None = None) -> None:
        """Write down an act that is no transaction of the store: right before it, or right after."""

    @abstractmethod
    async def audit(self, wanted: AuditFilter) -> list[AuditEntry]:
        """Rows that fit, newest first."""

    async def prune_audit(self, older_than: timedelta, *, now: datetime | None = None) -> int:
        """Forget acts that are older than that; returns how many."""
        pruned = 0
        while portion := await self._prune_audit(older_than, PORTION, now):
            pruned += portion
        return pruned

    @abstractmethod
    async def _prune_audit(self, older_than: timedelta, limit: int, now: datetime | None) -> int: ...


def act_of(act: Act | Callable[[R], Act | None], result: R) -> Act | None:
    """What was done, if anything was: the first thing that an operation returns says so."""
    effect = result[0] if isinstance(result, tuple) else result
    if not effect:
        return None
    return act if isinstance(act, Act) else act(result)


def row_of(act: Act, who: Actor) -> tuple[str | None, ...]:
    """The columns of a row but its time, in the order of the statement that writes it."""
    details = msgspec.json.encode({name: _bounded(value) for name, value in act.details.items() if value is not None})
    target = None if act.target is None else _bounded(act.target)
    shown = None if details == b"{}" else details.decode()
    return _bounded(who.name), who.kind, who.key_id, who.address, act.action, target, shown


def to_entry(row: Sequence[Any], time: Callable[[Any], datetime]) -> AuditEntry:
    number, created_at, name, kind, key_id, address, action, target, details = row
    return AuditEntry(
        id=number,
        created_at=time(created_at),
        actor=name,
        actor_kind=kind,
        key_id=key_id,
        address=address,
        action=action,
        target=target,
        details=msgspec.json.decode(details) if details else {},
    )


def _bounded(value: Any) -> Any:
    if isinstance(value, str):
        clean = value.replace("\x00", "").encode("utf-8", "replace").decode()
        return clean if len(clean) <= MAX_TEXT else f"{clean[: MAX_TEXT - 1]}…"
    return list(value)[:MAX_LISTED] if isinstance(value, list | set | tuple) else value
