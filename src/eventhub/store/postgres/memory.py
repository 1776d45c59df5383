"""What a process remembers of a PostgreSQL database: one object for one incarnation, replaced as a whole.

    connection is made ─▶ identify ─▶ the incarnation we know? ─yes─▶ use it
                                             │ no
                            a place that was not noted? begin a new incarnation
                                             ▼
                            forget everything, close what leads to the old one

An operation is bound to the memory that it began with, and gets connections to that incarnation only: what it has
looked up before never reaches another one. When there are no such connections any more it begins anew, which it can,
for nothing of it was sent.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import wraps
from time import monotonic
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import asyncpg

from eventhub.errors import StoreUnavailable
from eventhub.store.contract import Store
from eventhub.store.incarnations import Incarnation
from eventhub.store.opening import shown
from eventhub.store.postgres.floors import Floors
from eventhub.store.postgres.marker_floor import MarkerFloor
from eventhub.store.postgres.publishing import SQL
from eventhub.store.routes import KnownRoutes

if TYPE_CHECKING:
    from eventhub.store.values import Route

    _Connection = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection

__all__ = ["AnotherIncarnation", "HubConnection", "Incarnations", "Memory", "Remembering", "in_one_incarnation"]

log = logging.getLogger("eventhub.store")

READ_ONLY: Final = "SET default_transaction_read_only = on"

Args = ParamSpec("Args")
R = TypeVar("R")
Bound = TypeVar("Bound", bound="Remembering")


class AnotherIncarnation(StoreUnavailable):
    """Nothing was sent: the operation began before the database became another one."""


class HubConnection(_Connection):
    """A connection that knows which incarnation it leads to."""

    incarnation: Incarnation | None = None
    checked_at = 0.0
    """When that was looked at, by the monotonic clock."""


class Memory:
    """All that is remembered of one incarnation."""

    __slots__ = ("asked_at", "days_at", "floors", "incarnation", "known", "known_at", "marker_floor", "pairs", "routes")

    def __init__(self, incarnation: Incarnation) -> None:
        self.incarnation = incarnation
        self.routes: dict[Route, int] = {}
        """The numbers of routes that were asked for."""
        self.pairs: dict[int, tuple[int, int]] = {}
        """Those of subscribers."""
        self.known = KnownRoutes()
        self.known_at = self.asked_at = 0.0
        self.floors = Floors()
        self.marker_floor = MarkerFloor()
        self.days_at = 0.0


class Incarnations:
    """The memory that is good now, and the look at new connections that replaces it."""

    def __init__(self, url: str, changed: Callable[[], None]) -> None:
        self._url = url
        self._changed = changed
        self._current = Memory(Incarnation())
        self._foreign: WeakKeyDictionary[Any, Incarnation] = WeakKeyDictionary()
        self._is_open = False
        self.pooled = False
        """Whether a pooler stands between that keeps no sessions: then a connection leads now here, now there."""

    @property
    def current(self) -> Memory:
        return self._current

    @property
    def memory(self) -> Memory:
        """That of the operation under way, or the current one."""
        bound = _bound.get()
        return bound[1] if bound is not None and bound[0] is self else self._current

    async def check(self, connection: Any) -> None:
        """Look where a new connection leads to, before anything else is done with it."""
        if not self._is_open:
            return  # the tables may not be there yet
        self._meet(await self._identify(connection))
        if type(connection) is HubConnection:
            connection.incarnation = self._current.incarnation
            connection.checked_at = monotonic()

    async def open(self, connection: Any) -> None:
        """The tables are there: begin to look, with the one connection that there is."""
        self._current = Memory(await self._identify(connection))
        self._is_open = True
        connection.incarnation = self._current.incarnation

    async def check_foreign(self, connection: Any, look: Callable[[], Awaitable[object]]) -> None:
        """Look where the caller's own connection leads to, once; ``look`` makes us look at one of ours anew."""
        driver = getattr(connection, "_con", connection)
        found = self._foreign.get(driver)
        if found is None:
            row = await connection.fetchrow(SQL.identify)
            found = Incarnation(row[3], row[4], row[1], row[0])
            if row[2] == row[1]:
                self._foreign[driver] = found
        if found == self.memory.incarnation:
            return
        if found == self._current.incarnation:
            raise AnotherIncarnation(f"{shown(self._url)} has become another incarnation of itself. Try again.")
        await look()
        raise StoreUnavailable(
            f"The connection that was given leads to another incarnation of {shown(self._url)} than the store's own "
            f"({found.number} instead of {self._current.incarnation.number}). Connect it anew, and try again."
        )

    def allows(self, connection: Any) -> bool:
        """Whether a connection is one for the operation under way; False when it must not be used any more."""
        current = self._current
        if connection.incarnation is not current.incarnation:
            return False
        if self.memory is not current:
            raise AnotherIncarnation(f"{shown(self._url)} has become another incarnation of itself. Try again.")
        return True

    def confirm(self, connection: Any) -> None:
        """Raise when an answer came from an incarnation that is over by now: what it says may be lost."""
        if connection.incarnation is not self._current.incarnation:
            raise StoreUnavailable(
                f"{shown(self._url)} became another incarnation of itself while a statement was on its way: nobody "
                "knows whether what it did is still there. Try again."
            )

    async def _identify(self, connection: Any) -> Incarnation:
        standby, here, noted, number, began = await connection.fetchrow(SQL.identify)
        if standby:  # it may be promoted at any moment, and then it is not what it was when we looked
            if not self.pooled:  # else it would be set for whoever has this session next
                await connection.execute(READ_ONLY)
        elif here != noted:
            if await self._begin(connection, here):
                log.warning(
                    "%s is where it was not before (%s, until now %s): it was restored, or has failed over. This is "
                    "incarnation %d: ids go on far above all that were given before, and nothing that was remembered "
                    "is used any more.",
                    *(shown(self._url), here, noted, number + 1),
                )
            _, here, _, number, began = await connection.fetchrow(SQL.identify)
        return Incarnation(number, began, here, standby)

    async def _begin(self, connection: Any, here: str) -> bool:
        try:
            return bool(await connection.fetchval(SQL.begin_incarnation, here, False))
        except asyncpg.InsufficientPrivilegeError:
            return False  # who may only read writes nothing that could go wrong, and leaves it to those who may

    def _meet(self, found: Incarnation) -> None:
        known = self._current.incarnation
        if found == known:
            return
        if found.began_at < known.began_at and not found.standby:
            raise StoreUnavailable(
                f"{shown(self._url)} is incarnation {found.number} of the database, and this process has seen a later "
                f"one ({known.number}): it is a former primary, or an old copy. If it is to be used again, run "
                "`eventhub restored` with its address."
            )
        self._current = Memory(found)
        self._changed()


class Remembering(Store):
    """A store on PostgreSQL with what it remembers."""

    _incarnations: Incarnations

    @property
    def _memory(self) -> Memory:
        return self._incarnations.memory


_bound: ContextVar[tuple[Incarnations, Memory] | None] = ContextVar("memory", default=None)


def in_one_incarnation(
    operation: Callable[Concatenate[Bound, Args], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Bound, Args], Coroutine[Any, Any, R]]:
    """Let an operation use one memory from beginning to end; again, if that is over before anything was sent."""

    @wraps(operation)
    async def bound(self: Bound, *args: Args.args, **kwargs: Args.kwargs) -> R:
        incarnations = self._incarnations
        while True:
            memory = incarnations.current
            token = _bound.set((incarnations, memory))
            try:
                return await operation(self, *args, **kwargs)
            except AnotherIncarnation:
                if memory is incarnations.current:
                    raise
            finally:
                _bound.reset(token)

    return bound  # type: ignore[return-value]  # its parameters have their names, too
