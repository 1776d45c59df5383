"""What is done to a run, each by a chance of its own from the seed; whatever is harmed is whole again afterwards."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from eventhub.errors import StoreError
from eventhub.queue import EventQueue
from eventhub.store import Store
from eventhub.testing.postgres_cluster import PostgresCluster, PostgresError
from eventhub.testing.torture.children import Child
from eventhub.testing.torture.crew import Crew
from eventhub.testing.torture.history import History, hash_of
from eventhub.testing.torture.proxy import FAIR, Proxy, Weather
from eventhub.testing.torture.roles.publisher import QUEUE

__all__ = ["WAYS", "Harm", "Line", "background"]

SOON: Final = 1.0
LONGEST_OUTAGE: Final = 1.0
LONGEST_HANG: Final = 8.0
STORM_SECONDS: Final = 2.0
STORM_STEP: Final = 0.2
LIVES_OF_POISON: Final = 3
SLOWNESS: Final = 0.05
AIM_SECONDS: Final = 2.0
"""So long a request is waited for whose answer is to be lost."""
LONG_HOLE: Final = 15.0
LONG_HOLES: Final = 0.2
COMMIT: Final = b"COMMIT"
POST: Final = b"POST /events"
ANY: Final = b""
DATABASE: Final = "database"
SERVERS: Final = "servers"
POISON: Final = "poison-"
"""So the tokens of events begin that end the process of whoever handles them."""


class Line(NamedTuple):
    """A line that may be bad: the proxy in it, whom it leads to, and requests whose answers are worth losing."""

    proxy: Proxy
    whom: str
    markers: tuple[bytes, ...]


class Strike:
    """A fault under way, and how often it has hit something so far."""

    hits = 0


class Harm:
    """The hand that harms. ``now`` names what is being harmed at the moment, ``done`` counts what was hit."""

    def __init__(
        self,
        crew: Crew,
        store: Store,
        *,
        seed: int,
        lines: Sequence[Line],
        cluster: PostgresCluster | None,
        database: str,
    ) -> None:
        self._crew, self._store, self._seed = crew, store, seed
        self._lines, self._cluster, self._database = lines, cluster, database
        self._history = History(crew.nursery.directory, "poisoner.1")
        self._poisoned = 0
        self._alone = asyncio.Lock()
        """One thing at a time is done to the server as a whole."""
        self.now: list[str] = []
        self.done: dict[str, int] = {}

    async def again_and_again(self, name: str) -> None:
        """By chance; soon again when nothing was hit, for then it was no fault."""
        chance = random.Random(f"{self._seed}/{name}")
        pause = WAYS[name].pause
        await asyncio.sleep(pause * chance.uniform(0.1, 0.9))
        while True:
            before = self.done.get(name, 0)
            await WAYS[name].do(self, chance)
            hit = self.done.get(name, 0) > before
            await asyncio.sleep((pause if hit else min(pause, SOON)) * chance.uniform(0.3, 1.7))

    async def kill(self, times: int, seconds: float, roles: tuple[str, ...]) -> None:
        """So many kills, spread over so many seconds; roles of which nobody was killed yet come first."""
        chance = random.Random(f"{self._seed}/kill")
        clock = asyncio.get_running_loop().time
        began, pending = clock(), set[asyncio.Task[None]]()
        try:
            for number in range(1, times + 1):
                moment = began + seconds * (number - chance.random()) / times
                await asyncio.sleep(max(0.0, moment - clock()))
                spared = [role for role in roles if f"kill-{role}" not in self.done]
                names = (spared and self._crew.free(*spared)) or self._crew.free(*roles)
                if names:
                    pending.add(asyncio.create_task(self._kill(chance.choice(names))))
                for task in [task for task in pending if task.done()]:
                    pending.discard(task)
                    task.result()
        finally:
            await asyncio.gather(*pending)

    async def _kill(self, name: str) -> None:
        with self._under_way(f"kill-{self._crew.slots[name].role}", name) as strike:
            strike.hits += await self._crew.kill(name)

    @contextmanager
    def _under_way(self, name: str, whom: str) -> Iterator[Strike]:
        """Written down when it begins, and with its hits when it is over."""
        words, strike = f"{name} {whom}", Strike()
        call = self._crew.nursery.orders.invoke("fault", [{"worker": whom, "outcome": name}])
        self.now.append(words)
        try:
            yield strike
        finally:
            self.now.remove(words)
            if strike.hits:
                self.done[name] = self.done.get(name, 0) + strike.hits
            call.ok([{"worker": whom, "outcome": name, "size": strike.hits}])

    # ------------------------------------------------------------- processes

    async def stop_worker(self, chance: random.Random) -> None:
        """Still for twice its lease, then on, with claims that are others' by now."""
        names = self._crew.free("worker")
        if names:
            name = chance.choice(names)
            await self._stop("stop-worker", name, 2 * self._crew.slots[name].lease)

    async def stop_server(self, chance: random.Random) -> None:
        names = self._crew.free("server")
        if names:
            await self._stop("stop-server", chance.choice(names), chance.uniform(0.5, 4.0))

    async def _stop(self, fault: str, name: str, seconds: float) -> None:
        with self._under_way(fault, name) as strike, self._crew.mine(name) as child:
            strike.hits += child.stop()
            try:
                await self._let_go_of_lock(child)
                await asyncio.sleep(seconds if strike.hits else 0)
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
        with self._under_way(fault, name) as strike, self._crew.mine(name) as child:
            told = 0
            for _ in range(times):
                told += child.terminate()
                await asyncio.sleep(chance.uniform(0.01, 0.1))
            strike.hits += told == times
            await self._crew.see_off(child)

    async def poison(self, _: random.Random) -> None:
        """An event whose handler aborts its process, until it is out of attempts."""
        self._poisoned += 1
        token = f"{POISON}{self._poisoned}"
        payload = {"token": token, "key": None, "n": self._poisoned, "abort": True}
        facts = {"token": token, "hash": hash_of(payload), "batch": token, "size": 1, "limit": LIVES_OF_POISON}
        queue = EventQueue(self._store, queue=QUEUE, max_attempts=LIVES_OF_POISON)
        self._crew.poison += 1
        with self._under_way("poison", token) as strike:
            call = self._history.invoke("publish", [facts])
            try:
                event = await queue.publish("torture.test", payload)
            except StoreError as error:
                call.info(error)
            else:
                call.ok([{**facts, "id": event.id}])
                strike.hits += 1

    # ------------------------------------------------------------- database

    async def crash_postgres(self, chance: random.Random) -> None:
        if self._cluster is None or not self._cluster.running:
            return
        async with self._alone:
            await self._crash(self._cluster, chance)

    async def _crash(self, cluster: PostgresCluster, chance: random.Random) -> None:
        with self._under_way("postgres-crash", DATABASE) as strike:
            try:
                await _surely(asyncio.to_thread(cluster.stop, "immediate"))
                strike.hits += 1
                await asyncio.sleep(chance.uniform(0, LONGEST_OUTAGE))
            finally:
                await _surely(asyncio.to_thread(cluster.start))

    async def hang_postgres(self, chance: random.Random) -> None:
        """Its processes stand still: connections stay open, and nothing answers."""
        if self._cluster is None or not self._cluster.running:
            return
        async with self._alone:
            with self._under_way("postgres-hang", DATABASE) as strike:
                try:
                    self._cluster.pause()
                    strike.hits += 1
                    await asyncio.sleep(chance.uniform(1.0, LONGEST_HANG))
                finally:
                    self._cluster.resume()

    async def terminate_backends(self, _: random.Random) -> None:
        if self._cluster is None:
            return
        clock = asyncio.get_running_loop().time
        with self._under_way("postgres-terminate", DATABASE) as strike:
            end = clock() + STORM_SECONDS
            while clock() < end and self._cluster.running:
                with suppress(PostgresError):  # it may be crashed in this very moment
                    strike.hits += await asyncio.to_thread(self._cluster.terminate_backends, self._database)
                await asyncio.sleep(STORM_STEP)

    # -------------------------------------------------------------- network

    async def lose_reply(self, chance: random.Random) -> None:
        """The next commit, or request of any kind, is done and its answer lost."""
        line = chance.choice(self._lines)
        with self._under_way("reply-lost", line.whom) as strike:
            strike.hits += await line.proxy.cut_within(chance.choice(line.markers), AIM_SECONDS)

    async def reset(self, chance: random.Random) -> None:
        line = chance.choice(self._lines)
        with self._under_way("reset", line.whom) as strike:
            strike.hits += line.proxy.reset()

    async def delay(self, chance: random.Random) -> None:
        await self._weather(chance, "latency", Weather(latency=SLOWNESS), 3.0)

    async def swallow(self, chance: random.Random) -> None:
        """Mostly short, now and then longer than clients wait for an answer."""
        seconds = LONG_HOLE if chance.random() < LONG_HOLES else chance.uniform(1.0, 5.0)
        await self._weather(chance, "blackhole", Weather(hole=True), seconds)

    async def slow_down(self, chance: random.Random) -> None:
        await self._weather(chance, "slow-bytes", Weather(slow=True), 2.0)

    async def _weather(self, chance: random.Random, name: str, weather: Weather, seconds: float) -> None:
        fair = [line for line in self._lines if line.proxy.weather == FAIR]
        if not fair:
            return
        line = chance.choice(fair)
        with self._under_way(name, line.whom) as strike:
            before = line.proxy.weathered
            line.proxy.weather = weather
            try:
                await asyncio.sleep(seconds)
            finally:
                line.proxy.weather = FAIR
                strike.hits += line.proxy.weathered > before

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
    "postgres-hang": Way(Harm.hang_postgres, 30.0),
    "postgres-terminate": Way(Harm.terminate_backends, 25.0),
    "reply-lost": Way(Harm.lose_reply, 3.0),
    "latency": Way(Harm.delay, 15.0),
    "reset": Way(Harm.reset, 10.0),
    "blackhole": Way(Harm.swallow, 20.0),
    "slow-bytes": Way(Harm.slow_down, 20.0),
}


@asynccontextmanager
async def background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Until the end of the block; what goes wrong there ends the block at once, and is raised."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one) for one in work]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


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
    connection.set_busy_timeout(0)
    try:
        connection.execute("BEGIN IMMEDIATE; ROLLBACK")
    except apsw.BusyError:
        return False
    else:
        return True
    finally:
        connection.close()
