"""The hand that harms: what hits nothing is no fault, and what goes wrong with it ends a run at once."""

import asyncio
import contextlib
import json
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eventhub.testing.torture import run as running
from eventhub.testing.torture.children import Nursery, until
from eventhub.testing.torture.crew import Crew, Slot, Stage, cast, free_ports
from eventhub.testing.torture.evidence import open_evidence
from eventhub.testing.torture.harm import ANY, POST, WAYS, Harm, Line, Way, background
from eventhub.testing.torture.history import History, read_all
from eventhub.testing.torture.proxy import Proxy, Weather
from eventhub.testing.torture.run import Result, RunSettings, torture


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer to every request, whatever it is."""
    with contextlib.suppress(ConnectionError):
        while await reader.read(1000):
            writer.write(b"answer")
            await writer.drain()
    writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[Proxy]:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, Proxy(server.sockets[0].getsockname()[1]) as made:
        yield made


async def ask(proxy: Proxy, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(request)
        return await reader.read(1000)
    finally:
        writer.close()


def test_of_each_kind_of_process_that_uses_the_database_one_is_on_the_bad_line(tmp_path: Path):
    stage = Stage(
        engine="postgres",
        url="postgresql://direct/x",
        lossy_url="postgresql://lossy/x",
        seed=1,
        secret=tmp_path / "secret",
        server_ports=(1, 2),
        lossy_servers=("http://a", "http://b"),
        receiver_port=3,
        lake=tmp_path / "lake",
        evil=True,
    )
    lossy = {slot.name for slot in cast(stage) if slot.arguments.get("url") == stage.lossy_url}
    assert lossy == {"publisher-b", "worker-b", "worker-d", "hub-b", "pipeline-a"}


# ------------------------------------------------------------------- hits


async def test_who_is_reset_before_the_other_side_is_reached_finds_the_connection_closed(proxy: Proxy):
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        while not proxy.reset():  # noqa: ASYNC110 - as soon as it is accepted, not later
            await asyncio.sleep(0)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
    finally:
        writer.close()


async def test_a_cut_that_waits_in_vain_is_none(proxy: Proxy):
    assert await proxy.cut_within(POST, 0.05) == 0
    assert await ask(proxy, b"POST /events") == b"answer"


@pytest.mark.parametrize(("marker", "hits"), [(POST, 0), (ANY, 1)])
async def test_an_answer_is_lost_once(proxy: Proxy, marker: bytes, hits: int):
    cutting = asyncio.create_task(proxy.cut_within(marker, 0.5))
    await asyncio.sleep(0)
    assert await ask(proxy, b"GET /events") == (b"" if hits else b"answer")
    assert await cutting == hits
    assert await ask(proxy, b"POST /events") == b"answer"


@pytest.fixture
def harm(proxy: Proxy, tmp_path: Path) -> Iterator[Harm]:
    with History(tmp_path, "orders") as orders:
        crew: Any = SimpleNamespace(nursery=SimpleNamespace(directory=tmp_path, orders=orders))
        store: Any = SimpleNamespace(engine="sqlite")
        lines = [Line(proxy, "servers", (ANY,))]
        made = Harm(crew, store, seed=1, lines=lines, cluster=None, database="")
        yield made
        made.close()


@pytest.mark.parametrize(("fault", "name"), [(Harm.lose_reply, "reply-lost"), (Harm.reset, "reset")])
async def test_a_fault_without_anybody_to_hit_counts_nothing(
    harm: Harm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any], name: str
):
    monkeypatch.setattr("eventhub.testing.torture.harm.AIM_SECONDS", 0.05)
    await fault(harm, random.Random(1))
    assert harm.done == {}
    told = [(record.kind, record.outcome, record.size) for record in read_all(tmp_path, "orders")]
    assert told == [("invoke", name, None), ("ok", name, 0)]


async def test_connections_that_are_reset_are_counted(harm: Harm, proxy: Proxy):
    kept = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(3)]
    for reader, writer in kept:
        writer.write(b"x")
        await reader.read(10)
    await harm.reset(random.Random(1))
    assert harm.done == {"reset": 3}
    for _, writer in kept:
        writer.close()


async def test_weather_that_nobody_meets_is_none(harm: Harm, proxy: Proxy):
    await harm._weather(random.Random(1), "latency", Weather(latency=0.001), 0.01)
    assert harm.done == {}
    struck = asyncio.create_task(harm._weather(random.Random(1), "latency", Weather(latency=0.001), 0.2))
    await asyncio.sleep(0)
    assert await ask(proxy, b"x") == b"answer"
    await struck
    assert harm.done == {"latency": 1}


class Victims:
    """A crew that is killed on paper; some were dead already."""

    def __init__(self, directory: Path, orders: History, dead: str = "") -> None:
        self.nursery = SimpleNamespace(directory=directory, orders=orders)
        self.slots = {f"{role}-{letter}": Slot(f"{role}-{letter}", role, {}) for role in ROLES for letter in "abc"}
        self.killed: list[str] = []
        self._dead = dead

    def free(self, *roles: str) -> list[str]:
        return [name for name, slot in self.slots.items() if slot.role in roles]

    async def kill(self, name: str) -> bool:
        self.killed.append(name)
        return name != self._dead


ROLES = ("worker", "server", "pipeline")


@pytest.mark.parametrize("dead", ["", "pipeline-a"])
async def test_of_each_role_somebody_is_killed_before_chance_decides(tmp_path: Path, dead: str):
    with History(tmp_path, "orders") as orders:
        crew: Any = Victims(tmp_path, orders, dead)
        harm = Harm(crew, crew, seed=1, lines=[], cluster=None, database="")
        await harm.kill(12, 0.2, ROLES)
        harm.close()
    alive = [name for name in crew.killed if name != dead]
    assert set(harm.done) == {"kill-worker", "kill-server", "kill-pipeline"}
    assert sum(harm.done.values()) == len(alive)
    assert len(crew.killed) == 12
    assert dead in ("", *crew.killed)


# ------------------------------------------------------------------- processes


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    with Nursery(tmp_path) as made:
        yield made


def receiver(port: int) -> Slot:
    return Slot("receiver-a", "receiver", {"port": port, "seed": 1, "evil": True})


def post(port: int, number: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    body = json.dumps({"token": str(number), "key": None})
    with contextlib.suppress(OSError):  # it may hang or reset
        connection.request("POST", "/a", body, {"webhook-id": f"msg_x_{number}"})
        connection.getresponse().read(100)
    connection.close()


async def test_a_receiver_that_is_just_starting_hears_that_it_is_to_behave(nursery: Nursery):
    (port,) = free_ports(1)
    crew = Crew(nursery, [receiver(port)], seed=1)
    crew.start("receiver-a")
    await crew.behave()
    child = crew.children["receiver-a"]
    await until(lambda: not child.alive or nursery.records("receiver*"), 30.0, "a receiver at work")
    assert child.alive
    for number in range(80):
        await asyncio.to_thread(post, port, number)
    assert {record.outcome for record in nursery.records("receiver*") if record.op == "arrive"} == {"200"}
    assert child.kill()
    await child.ended()
    crew.start("receiver-a")
    await until(lambda: nursery.records("receiver-a.2"), 30.0, "its successor at work")
    for number in range(80):
        await asyncio.to_thread(post, port, number)
    assert {record.outcome for record in nursery.records("receiver-a.2") if record.op == "arrive"} == {"200"}


async def test_nothing_is_done_to_one_who_has_ended_by_himself(nursery: Nursery):
    crew = Crew(nursery, [Slot("receiver-a", "receiver", {"port": -1, "seed": 1})], seed=1)
    crew.start("receiver-a")
    child = crew.children["receiver-a"]
    await child.ended()
    assert not any((child.kill(), child.stop(), child.resume(), child.terminate(), child.send(signal.SIGUSR2)))
    assert not await crew.kill("receiver-a")
    assert (crew.kills, child.told_to_end) == (0, False)
    assert [(record.op, record.worker) for record in nursery.records("orders")] == [("died", "receiver-a.1")]


# ------------------------------------------------------------------- errors


async def test_what_goes_wrong_in_the_background_ends_the_block_at_once():
    async def fails() -> None:
        await asyncio.sleep(0.01)
        raise LookupError("of a fault")

    began = time.monotonic()
    with pytest.raises(ExceptionGroup) as caught:
        async with background(fails(), asyncio.sleep(100)):
            await asyncio.sleep(100)
    assert [str(error) for error in caught.value.exceptions] == ["of a fault"]
    assert time.monotonic() - began < 10


async def test_the_background_ends_with_its_block():
    ended = []

    async def goes_on() -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append(True)

    async with background(goes_on()):
        await asyncio.sleep(0)
    assert ended == [True]


def few(stage: Any) -> list[Slot]:
    """Who is enough for a run that is broken off: one who publishes and one who works."""
    work = {"seed": 1, "url": stage.url}
    return [
        Slot("publisher-a", "publisher", {**work, "pause": 0.05}),
        Slot("worker-a", "worker", {**work, "style": "bare"}, 1.0),
    ]


async def broken_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way) -> Result:
    monkeypatch.setattr(running, "cast", few)
    monkeypatch.setitem(WAYS, "poison", way)
    settings = RunSettings(
        engine="sqlite", directory=tmp_path / "run", seconds=600, kills=0, faults=frozenset({"poison"})
    )
    return await torture(settings)


def facts_of(result: Result) -> dict[str, Any]:
    with contextlib.closing(open_evidence(Path(result.evidence))) as connection:
        return dict(connection.execute("SELECT key, value FROM facts"))


async def test_a_fault_that_fails_ends_the_run_with_a_verdict_on_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def fails(*_: Any) -> None:
        raise LookupError("nobody to harm")

    began = time.monotonic()
    result = await broken_off(tmp_path, monkeypatch, Way(fails, 1.0))
    assert time.monotonic() - began < 60
    assert (result.clean, result.interrupted, result.incomplete) == (False, False, "LookupError: nobody to harm")
    assert "broken_off" in result.verdict.broken
    assert facts_of(result)["incomplete"] == "LookupError: nobody to harm"


async def test_a_run_that_is_interrupted_is_judged_and_never_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def rests(*_: Any) -> None:
        await asyncio.sleep(1)

    task = asyncio.create_task(broken_off(tmp_path, monkeypatch, Way(rests, 1.0)))
    directory = tmp_path / "run"
    await until(lambda: any(directory.glob("worker-a*")) and len(read_all(directory, "publisher*")) > 5, 30, "work")
    task.cancel()
    result = await task
    assert (result.clean, result.interrupted, result.incomplete) == (False, True, "it was interrupted")
    assert result.verdict.figures["acknowledged"] > 0
    assert "broken_off" in result.verdict.broken
    assert not result.verdict.violated, "what is open is open for that reason"


async def test_a_run_in_which_nobody_takes_part_is_whole_and_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def told(_: Any) -> dict[str, int]:
        return {"metric.eventhub_dlq_size": 0, "metric.eventhub_pending_messages": 0}

    monkeypatch.setattr(running, "cast", lambda _: [])
    monkeypatch.setattr(running._Run, "_metrics", told)
    phases = []
    settings = RunSettings(engine="sqlite", directory=tmp_path / "run", seconds=0.1, kills=0, faults=frozenset())
    result = await torture(settings, lambda progress: phases.append(progress.phase))
    assert (result.clean, result.incomplete, result.verdict.violated) == (False, None, False)
    assert result.verdict.broken == {"idle"}
    assert result.verdict.examples == [
        "13. exercised: idle: nothing was acknowledged",
        "13. exercised: idle: nothing was handled",
        "13. exercised: idle: nothing was received",
    ]
    assert phases[-1] == "judging"
    assert facts_of(result)["drain.seconds"] < 60
