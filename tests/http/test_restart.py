"""The server dies in the middle of the work and comes back: whatever it acknowledged is done in the end."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from tests.http.conftest import Hub, MakeHub

JOBS = 400
PUBLISHERS = 4
WORKERS = 6
KILLS = 3
AWAY = (aiohttp.ClientError, ConnectionError, asyncio.TimeoutError)

Request = Callable[..., Awaitable[tuple[int, Any]]]


class Load:
    """Publishers and workers that know what was acknowledged, and go on when the server is away."""

    def __init__(self, hub: Hub, session: aiohttp.ClientSession, tag: str) -> None:
        self.hub, self.session, self.tag = hub, session, tag
        self.acknowledged: dict[str, int] = {}
        self.completed: set[int] = set()
        self.refused: list[tuple[int, Any]] = []
        self.progress = asyncio.Event()

    async def send(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """An answer; while the server is away, the same request again."""
        while True:
            with suppress(*AWAY):
                async with self.session.request(method, self.hub.server.url + path, **more) as answer:
                    body = await answer.json(content_type=None) if answer.status != 204 else None
                    if answer.status < 500:
                        return answer.status, body
                    assert answer.status == 503, body
            await asyncio.sleep(0.02)  # there is nobody to tell when the port is open again

    async def publish(self, names: list[str]) -> None:
        for name in names:
            body = {"tags": self.tag, "payload": name, "idempotency_key": f"{self.tag}/{name}"}
            status, event = await self.send("POST", "/events", json=body)
            assert status in (200, 201), event
            self.acknowledged[name] = event["id"]

    async def work(self, worker: str, published: asyncio.Event) -> None:
        query = {"tags": self.tag, "worker_id": worker, "wait": "1", "limit": "5", "lease_seconds": "2"}
        while not (published.is_set() and self.completed.issuperset(self.acknowledged.values())):
            status, body = await self.send("GET", "/events/subscribe", params=query)
            assert status == 200, body
            for event in body["events"]:
                report = {"worker_id": worker, "fence": event["fence"]}
                status, body = await self.send("POST", f"/events/{event['id']}/complete", json=report)
                if status == 200:
                    self.completed.add(event["id"])
                    self.progress.set()
                else:
                    self.refused.append((status, body))

    async def done(self, number: int) -> None:
        """Until so many are completed."""
        while len(self.completed) < number:
            self.progress.clear()
            await self.progress.wait()


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], scope="function")
async def test_nothing_acknowledged_is_lost_when_the_server_is_killed_three_times(
    make_hub: MakeHub, engine: str, tag: str
):
    hub = await asyncio.to_thread(make_hub, engine, "--max-retries", "50")
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.timeout(100):
        load = Load(hub, session, tag)
        published = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(load.work(f"w{n}:1", published)) for n in range(WORKERS)]
            shares = [[f"{n}" for n in range(first, JOBS, PUBLISHERS)] for first in range(PUBLISHERS)]
            publishers = [group.create_task(load.publish(share)) for share in shares]
            for kill in range(1, KILLS + 1):
                await load.done(kill * JOBS // (KILLS + 1))
                await asyncio.to_thread(hub.server.kill)
                await asyncio.to_thread(hub.server.start)
            await asyncio.gather(*publishers)
            published.set()
            await asyncio.gather(*workers)
    assert len(load.acknowledged) == JOBS
    assert len(set(load.acknowledged.values())) == JOBS
    listed = hub.get("/events", tags=tag, limit=1000).json
    assert listed["total"] == JOBS
    assert {event["id"]: event["status"] for event in listed["events"]} == dict.fromkeys(
        load.acknowledged.values(), "COMPLETED"
    )
    assert {status for status, _ in load.refused} <= {409}  # a lease ended while the server was away


@pytest.mark.parametrize("engine", ["sqlite", "postgres"], scope="function")
def test_claims_and_reports_outlive_the_process(make_hub: MakeHub, engine: str, tag: str):
    hub = make_hub(engine)
    done, failed, held, waiting = (hub.publish(tags=tag, payload=n)["id"] for n in range(4))
    claims = {event["id"]: event for event in (hub.take(tag, "w") for _ in range(3))}
    first = hub.complete(done, "w", execution_time_ms=5).json
    retried = hub.fail(failed, "w", error_message="no").json
    hub.server.kill()
    hub.server.start()
    assert hub.complete(done, "w", execution_time_ms=5).json == first
    assert hub.fail(failed, "w", error_message="no").json == retried
    assert hub.fail(done, "w").status == 409
    assert hub.post(f"/events/{held}/heartbeat", {"worker_id": "w"}).json["fence"] == claims[held]["fence"]
    assert hub.complete(held, "other").status == 409
    assert hub.complete(held, "w", fence=claims[held]["fence"]).status == 200
    assert hub.take(tag, "w")["id"] == waiting
