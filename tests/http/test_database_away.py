"""The database goes away and comes back: 503 and Retry-After meanwhile, never a trace, and nothing is lost."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from eventhub.config import Settings
from eventhub.http.server import listen, serve_one
from tests.http.api import Answer
from tests.http.conftest import Hub, MakeHub
from tests.postgres_cluster import PostgresCluster


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresCluster]:
    """A cluster that these tests may stop."""
    with PostgresCluster() as cluster:
        yield cluster


def until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what


WRITES = {"publish", "batch", "subscribe", "complete", "start", "reset"}
"""Whoever asks to write must be told that nobody knows whether it was; a reader would only wonder."""


def requests(hub: Hub, tag: str, event_id: int) -> dict[str, Answer]:
    """One request of each kind."""
    return {
        "publish": hub.post("/events", {"tags": tag}),
        "batch": hub.post("/events/batch", [{"tags": tag}]),
        "subscribe": hub.get("/events/subscribe", tags=tag, worker_id="w"),
        "show": hub.get(f"/events/{event_id}", include_logs="true"),
        "list": hub.get("/events", tags=tag),
        "complete": hub.complete(event_id, "w"),
        "start": hub.post(f"/events/{event_id}/start", {"worker_id": "w"}),
        "reset": hub.post(f"/events/{event_id}/reset"),
        "workers": hub.get("/workers"),
        "orphans": hub.get("/orphans"),
        "stats": hub.get("/stats"),
        "keys": hub.get("/api-keys"),
        "ready": hub.get("/ready"),
    }


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_postgres_stops_and_starts_again(make_hub: MakeHub, mortal: PostgresCluster, tag: str, mode: str):
    mortal.start()
    hub = make_hub("postgres", db=mortal.create_database(f"away_{mode}"))
    event_id = hub.publish(tags=tag)["id"]
    waiting = hub.publish(tags=tag)["id"]
    assert hub.take(tag, "w")["id"] == event_id

    mortal.stop("fast" if mode == "fast" else "immediate")
    for name, answer in requests(hub, tag, event_id).items():
        assert answer.status == 503, name
        assert int(answer.headers["retry-after"]) >= 1, name
        assert ("stored" in answer.json["detail"]) is (name in WRITES), name
    assert hub.get("/health").status == 200

    mortal.start()
    until(lambda: hub.get("/ready").status == 200, "the hub does not find its database again")
    until(lambda: hub.complete(event_id, "w").status == 200, "the report does not go through")
    assert hub.event(event_id)["status"] == "COMPLETED"
    assert hub.taken(tag, "w")["id"] == waiting
    assert hub.get("/events", tags=tag).json["total"] == 2


def test_workers_that_wait_outlast_a_restart_of_the_database(make_hub: MakeHub, mortal: PostgresCluster, tag: str):
    mortal.start()
    hub = make_hub("postgres", db=mortal.create_database("away_waiting"))

    def take(worker: str) -> int:
        """As a worker does it: what was refused is asked again."""
        while (answer := hub.get("/events/subscribe", tags=tag, worker_id=worker, wait=30)).status != 200:
            assert answer.status in (204, 503), answer
        return int(answer.json["id"])

    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(take, f"w{n}") for n in range(5)]
        hub.until_waiting(5)
        mortal.restart("immediate")
        until(lambda: hub.get("/ready").status == 200, "the hub does not find its database again")
        ids: set[int] = set()
        while len(ids) < 5:
            answer = hub.post("/events", {"tags": tag})
            if answer.status == 201:
                ids.add(answer.json["id"])
        assert {one.result(timeout=40) for one in waiting} == ids


def test_sqlite_is_locked_by_somebody_else_and_freed_again(make_hub: MakeHub, tag: str):
    hub = make_hub("sqlite")
    event_id = hub.publish(tags=tag)["id"]
    other = apsw.Connection(hub.server.db)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(hub.post, "/events", {"tags": tag})
        assert hub.event(event_id)["status"] == "PENDING"  # reading goes on
        answer = asked.result(timeout=40)
    other.execute("ROLLBACK")
    other.close()
    assert answer.status == 503
    assert int(answer.headers["retry-after"]) >= 1
    until(lambda: hub.post("/events", {"tags": tag}).status == 201, "it stays locked")
    assert hub.taken(tag, "w")["id"] == event_id


def test_a_server_whose_database_goes_away_as_it_starts_ends_with_1(tmp_path: Path):
    """It was there when the command looked; uvicorn by itself would end with a code that means nothing here."""
    settings = Settings(db="postgresql://nobody@127.0.0.1:1/nowhere", port=0)
    with listen(settings) as listening:
        assert serve_one(settings, tmp_path / "secret", listening) == 1
