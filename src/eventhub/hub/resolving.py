"""Names to addresses: each name is looked up once for all who ask at the same time, and refused if any answer is bad.

The lookups run in threads of their own, because the system's resolver blocks, and a name whose servers do not answer
must not hold up the others.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final

import msgspec

from eventhub.errors import BlockedDestination
from eventhub.handling.threads import DaemonThreads
from eventhub.hub.destinations import Address, AddressInfo, Destinations

__all__ = ["Lookup", "Resolver"]

Lookup = Callable[..., list[Any]]

REMEMBERED: Final = 10.0
"""Seconds for which the addresses of a name are used again."""
MOST_REMEMBERED: Final = 10_000
MOST_LOOKUPS: Final = 64
"""At the same time; each has a thread."""


HANGS_AFTER: Final = 3.0
"""Seconds after which a lookup is taken for one that hangs: it keeps its thread, but no turn of the others."""


class _Known(msgspec.Struct):
    addresses: list[AddressInfo]
    until: float


class Resolver:
    """Looks names up; ``lookup`` is that of the system unless another is given."""

    def __init__(self, destinations: Destinations, *, lookup: Lookup = socket.getaddrinfo) -> None:
        self._destinations = destinations
        self._lookup = lookup
        self._threads = DaemonThreads()
        self._turns = asyncio.Semaphore(MOST_LOOKUPS)
        self._known: dict[tuple[str, int], _Known] = {}
        self._asked: dict[tuple[str, int], asyncio.Future[list[AddressInfo]]] = {}

    def close(self) -> None:
        for asked in list(self._asked.values()):
            asked.cancel()

    async def resolve(self, host: str, port: int) -> list[AddressInfo]:
        """Addresses that may all be dialled. Raises BlockedDestination if one may not, OSError if there are none."""
        addresses = self._destinations.check(host, port)
        if addresses:
            return [_info(address, port) for address in addresses]
        key = (host, port)
        known = self._known.get(key)
        if known is not None and known.until > asyncio.get_running_loop().time():
            return known.addresses
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = asyncio.ensure_future(self._look_up(key))
            asked.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(asked)

    async def _look_up(self, key: tuple[str, int]) -> list[AddressInfo]:
        async with self._turns:
            looking = asyncio.ensure_future(self._threads.run(self._ask, key))
            await asyncio.wait([looking], timeout=HANGS_AFTER)
        found: list[AddressInfo] = await looking
        host, _ = key
        if not found:
            raise OSError(f"{host} has no address")
        for _, _, _, _, place in found:
            try:
                self._destinations.vet(place[0])
            except BlockedDestination as error:
                raise BlockedDestination(f"{host} leads to a blocked address. {error}") from None
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = _Known(found, asyncio.get_running_loop().time() + REMEMBERED)
        return found

    def _ask(self, key: tuple[str, int]) -> list[AddressInfo]:
        host, port = key
        return self._lookup(host, port, type=socket.SOCK_STREAM)

    def _answered(self, key: tuple[str, int], done: asyncio.Future[list[AddressInfo]]) -> None:
        del self._asked[key]
        if not done.cancelled():
            done.exception()  # all who asked may have given up meanwhile


def _info(address: Address, port: int) -> AddressInfo:
    if address.version == 4:  # noqa: PLR2004
        return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port)
    return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (str(address), port, 0, 0)
