"""asyncpg alone: two connections at most, as the manager has for claiming and settling, each claiming for itself."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import perf_counter
from typing import Any

from eventhub.bench.payloads import PAYLOAD_TEXT
from eventhub.bench.raw import Raw
from eventhub.bench.settings import TYPE
from eventhub.store.postgres.connection import connect
from eventhub.store.postgres.settling import array_text
from eventhub.store.queries import load_queries

__all__ = ["HeldSnapshot", "RawPostgres"]

SQL = load_queries("eventhub.bench.raw_postgres")
STORE = load_queries("eventhub.store.postgres")
"""Storing, claiming and completing are the store's own statements: the same rows, arrays and answers, without anything
around."""
LEASE = timedelta(minutes=1)
DRAINERS = 2
CHANNEL = "eventhub"
QUEUE = "default"
WORKER = "raw"


class RawPostgres(Raw):
    def __init__(self, url: str) -> None:
        self._url = url
        self._connections: list[Any] = []
        self._route: int

    async def open(self) -> None:
        (first,) = await self._open_connections(1)
        await first.execute(SQL.add_route, TYPE)
        self._route = await first.fetchval(SQL.find_route, TYPE)

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()

    async def _open_connections(self, count: int) -> list[Any]:
        while len(self._connections) < count:
            self._connections.append(await connect(self._url))
        return self._connections[:count]

    async def publish(self, count: int, *, batch: int, connections: int) -> float:
        store = self._store_one if batch == 1 else self._store
        payloads = [PAYLOAD_TEXT] * batch
        batches = iter(range(0, count, batch))

        async def publisher(connection: Any) -> None:
            for _ in batches:
                await store(connection, payloads)

        pool = await self._open_connections(connections)
        for connection in pool:
            await store(connection, payloads[:1])
        started = perf_counter()
        await asyncio.gather(*(publisher(connection) for connection in pool))
        return perf_counter() - started

    async def _store(self, connection: Any, payloads: list[str]) -> None:
        """Event, delivery and log row of each, in one statement and one commit."""
        route = [self._route]
        await connection.fetch(STORE.insert_plain, route, [TYPE], "\n".join(payloads), None, None, None, route)

    async def _store_one(self, connection: Any, payloads: list[str], *, tell: bool = False) -> None:
        """The same for one event, of which those who listen may be told with the commit."""
        told = QUEUE if tell else None
        await connection.fetch(STORE.insert_one, self._route, TYPE, payloads[0], None, None, told)

    async def drain(self, count: int, *, batch: int, seconds: float | None = None) -> tuple[int, float]:
        done = claimed = 0
        started = perf_counter()

        async def drainer(connection: Any) -> None:
            nonlocal done, claimed
            floor = 0
            while claimed < count and (seconds is None or perf_counter() - started < seconds):
                wanted = min(batch, count - claimed)
                claimed += wanted
                ids = await self._claim(connection, wanted, floor)
                claimed += len(ids) - wanted
                if not ids:
                    return
                floor = ids[-1] + 1
                await self._complete(connection, ids)
                done += len(ids)

        pool = await self._open_connections(DRAINERS)
        started = perf_counter()
        await asyncio.gather(*(drainer(connection) for connection in pool))
        return done, perf_counter() - started

    async def _claim(self, connection: Any, limit: int, floor: int) -> list[int]:
        asked = self._route, limit, [WORKER], LEASE, floor, None, None, None, 0
        ((_, ids, *_rest),) = await connection.fetch(STORE.claim_route, *asked)
        return [] if ids is None else [int(number) for number in ids[1:-1].split(",")]

    async def _complete(self, connection: Any, ids: list[int]) -> None:
        await connection.fetch(STORE.complete_alike, array_text(ids), 1, None, 0, None)

    async def latency(self, *, notified: bool) -> float:
        publisher, claimer, listener = await self._open_connections(3)
        heard = asyncio.Event()

        def hear(*_: object) -> None:
            heard.set()

        await listener.add_listener(CHANNEL, hear)
        await self._store_one(publisher, [PAYLOAD_TEXT], tell=notified)
        committed = perf_counter()
        if notified:
            await heard.wait()
        ids = await self._claim(claimer, 1, 0)
        took = perf_counter() - committed
        await self._complete(claimer, ids)
        await listener.remove_listener(CHANNEL, hear)
        return took

    async def dead_page(self, limit: int, offset: int) -> float:
        (connection,) = await self._open_connections(1)
        started = perf_counter()
        await connection.fetch(SQL.dead_page, limit, offset)
        await connection.fetch(SQL.dead_total)
        return perf_counter() - started


class HeldSnapshot:
    """Another session with an open transaction that has looked: nothing that dies from now on can be cleaned away."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: Any = None

    async def __aenter__(self) -> None:
        self._connection = await connect(self._url)
        await self._connection.execute(SQL.hold_begin)
        await self._connection.fetch(SQL.hold_look)

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()
