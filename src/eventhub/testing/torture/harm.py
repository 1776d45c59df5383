"""What is done to a run, each by a chance of its own from the seed; whatever is harmed is whole again afterwards."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final

import apsw
import msgspec

from eventhub.errors import StoreError
from eventhub.queue import EventQueue
from eventhub.store import Store
from eventhub.testing.postgres_cluster import PostgresCluster
from eventhub.testing.torture.children import Child
from eventhub.testing.torture.crew import ENDING_SECONDS, Crew
from eventhub.testing.torture.history import History, hash_of
from eventhub.testing.torture.proxy import FAIR, Proxy, Weather
from eventhub.testing.torture.roles.publisher import QUEUE

__all__ = ["WAYS", "Harm", "background"]

LONGEST_OUTAGE: Final = 1.0
STORM_SECONDS: Final = 2.0
STORM_STEP: Final = 0.2
LIVES_OF_POISON: Final = 3
SLOWNESS: Final = 0.05
COMMIT: Final = b"COMMIT"
POST: Final = b"POST /events"


class Harm:
    """The hand that harms. ``now`` names what is being harmed at the moment."""

    def __init__(
        self,
        crew: Crew,
        store: Store,
        *,
        seed: int,
        proxies: list[tuple[Proxy, bytes]],
        cluster: PostgresCluster | None,
        database: str,
    ) -> None:
        self._crew, self._store, self._seed = crew, store, seed
        self._proxies, self._cluster, self._database = proxies, cluster, database
        self._history = History(crew.nursery.directory, "poisoner.1")
        self._poisoned = 0
        self.now: list[str] = []
        self.done: dict[str, int] = {}

    async def again_and_again(self, name: str) -> None:
        chance = random.Random(f"{self._seed}/{name}")
        while True:
            await asyncio.sleep(WAYS[name].pause * chance.uniform(0.3, 1.7))
            await WAYS[name].do(self, chance)

    async def kill(self, times: int, seconds: float, roles: tuple[str, ...]) -> None:
        """So many kills, spread over so many seconds; more if there is time left."""
        chance = random.Random(f"{self._seed}/kill")
        clock = asyncio.get_running_loop().time
        began, pending = clock(), set[asyncio.Task[None]]()
        try:
            for number in range(1, times + 1):
                moment = began + seconds * (number - chance.random()) / times
                await asyncio.sleep(max(0.0, moment - clock()))
                names = self._crew.free(*roles)
                if names:
                    pending.add(asyncio.create_task(self._crew.kill(chance.choice(names))))
                pending = {task for task in pending if not task.done()}
        finally:
            await asyncio.gather(*pending)

    @contextmanager
    def _under_way(self, name: str, whom: str) -> Iterator[None]:
        words = f"{name} {whom}"
        self._crew.nursery.orders.note("fault", worker=whom, outcome=name)
        self.now.append(words)
        self.done[name] = self.done.get(name, 0) + 1
        try:
            yield
        finally:
            self.now.remove(words)

    # ------------------------------------------------------------- processes

    async def stop_worker(self, chance: random.Random) -> None:
        """Still for twice its lease, then on, with claims that are others' by now."""
        names = self._crew.free("worker")
        if names:
            name = chance.choice(names)
            await self._stop(name, 2 * self._crew.slots[name].lease)

    async def stop_server(self, chance: random.Random) -> None:
        names = self._crew.free("server")
        if names:
            await self._stop(chance.choice(names), chance.uniform(0.5, 4.0))

    async def _stop(self, name: str, seconds: float) -> None:
        with self._under_way("stop", name), self._crew.mine(name) as child:
            child.stop()
            try:
                await self._let_go_of_lock(child)
                await asyncio.sleep(seconds)
            finally:
                child.resume()

    async def _let_go_of_lock(self, child: Child) -> None:
        """Who stands still with SQLite's write lock stops everybody: that is no fault that a hub can outlast."""
        while self._store.engine == "sqlite" and child.alive:
            if await asyncio.to_thread(_can_write, self._store.url):
                return
            child.send(signal.SIGCONT)
            await asyncio.sleep(0.005)
            child.send(signal.SIGSTOP)

    async def terminate(self, chance: random.Random) -> None:
        await self._terminate(chance, "terminate", 1)

    async def terminate_twice(self, chance: random.Random) -> None:
        await self._terminate(chance, "terminate-twice", 2)

    async def _terminate(self, chance: random.Random, fault: str, times: int) -> None:
        names = self._crew.free("worker", "server", "publisher")
        if not names:
            return
        name = chance.choice(names)
        with self._under_way(fault, name), self._crew.mine(name) as child:
            for _ in range(times):
                child.terminate()
                await asyncio.sleep(chance.uniform(0.01, 0.1))
            try:
                await child.ended(ENDING_SECONDS)
            except AssertionError as error:
                self._crew.deaths.append(f"{error} after {times} × SIGTERM")
                child.kill()
                await child.ended()

    async def poison(self, _: random.Random) -> None:
        """An event whose handler aborts its process, until it is out of attempts."""
        self._poisoned += 1
        token = f"poison-{self._poisoned}"
        payload = {"token": token, "key": None, "n": self._poisoned, "abort": True}
        facts = {"token": token, "hash": hash_of(payload), "batch": token, "size": 1, "limit": LIVES_OF_POISON}
        queue = EventQueue(self._store, queue=QUEUE, max_attempts=LIVES_OF_POISON)
        self._crew.poison += 1
        with self._under_way("poison", token):
            call = self._history.invoke("publish", [facts])
            try:
                event = await queue.publish("torture.test", payload)
            except StoreError as error:
                call.info(error)
            else:
                call.ok([{**facts, "id": event.id}])

    # ------------------------------------------------------------- database

    async def crash_postgres(self, chance: random.Random) -> None:
        if self._cluster is None:
            return
        with self._under_way("crash", "postgres"):
            try:
                await _surely(asyncio.to_thread(self._cluster.stop, "immediate"))
                await asyncio.sleep(chance.uniform(0, LONGEST_OUTAGE))
            finally:
                await _surely(asyncio.to_thread(self._cluster.start))

    async def terminate_backends(self, _: random.Random) -> None:
        if self._cluster is None:
            return
        clock = asyncio.get_running_loop().time
        with self._under_way("terminate-backends", "postgres"):
            end = clock() + STORM_SECONDS
            while clock() < end and self._cluster.running:
                with suppress(Exception):  # it may be crashed in this very moment
                    await asyncio.to_thread(self._cluster.terminate_backends, self._database)
                await asyncio.sleep(STORM_STEP)

    # -------------------------------------------------------------- network

    async def lose_reply(self, chance: random.Random) -> None:
        """The next commit, or request, is done and its answer lost."""
        proxy, marker = chance.choice(self._proxies)
        with self._under_way("reply-lost", marker.decode()):
            proxy.cut(marker)

    async def reset(self, chance: random.Random) -> None:
        proxy, _ = chance.choice(self._proxies)
        with self._under_way("reset", "connections"):
            proxy.reset()

    async def delay(self, chance: random.Random) -> None:
        await self._weather(chance, "latency", Weather(latency=SLOWNESS), 3.0)

    async def swallow(self, chance: random.Random) -> None:
        await self._weather(chance, "blackhole", Weather(hole=True), chance.uniform(1.0, 5.0))

    async def slow_down(self, chance: random.Random) -> None:
        await self._weather(chance, "slow-bytes", Weather(slow=True), 2.0)

    async def _weather(self, chance: random.Random, name: str, weather: Weather, seconds: float) -> None:
        proxy, _ = chance.choice(self._proxies)
        if proxy.weather != FAIR:
            return
        with self._under_way(name, "network"):
            proxy.weather = weather
            try:
                await asyncio.sleep(seconds)
            finally:
                proxy.weather = FAIR

    def close(self) -> None:
        self._history.close()


class Way(msgspec.Struct, frozen=True):
    """A way to harm, and the seconds between two times, on average."""

    do: Callable[[Harm, random.Random], Awaitable[None]]
    pause: float


WAYS: Final = {
    "stop-worker": Way(Harm.stop_worker, 5.0),
    "stop-server": Way(Harm.stop_server, 20.0),
    "poison": Way(Harm.poison, 15.0),
    "terminate": Way(Harm.terminate, 8.0),
    "terminate-twice": Way(Harm.terminate_twice, 12.0),
    "postgres-crash": Way(Harm.crash_postgres, 35.0),
    "postgres-terminate": Way(Harm.terminate_backends, 25.0),
    "reply-lost": Way(Harm.lose_reply, 3.0),
    "latency": Way(Harm.delay, 15.0),
    "reset": Way(Harm.reset, 10.0),
    "blackhole": Way(Harm.swallow, 20.0),
    "slow-bytes": Way(Harm.slow_down, 20.0),
}


@asynccontextmanager
async def background(*work: Awaitable[None]) -> AsyncIterator[None]:
    """Until the end of the block; what goes wrong there is raised."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


async def _surely(work: Awaitable[None]) -> None:
    """To its end, also when whoever waits for it is told to stop meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _can_write(path: str) -> bool:
    connection = apsw.Connection(path)
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return False
    else:
        return True
    finally:
        connection.close()
