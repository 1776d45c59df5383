"""A PostgreSQL that hangs: nothing is refused and nothing answers, until it goes on."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from eventhub.store.limits import CHECK_SECONDS
from tests.http.conftest import MakeHub
from tests.http.receiver import Receiver
from tests.http.test_database_away import until
from tests.postgres_cluster import PostgresCluster


@pytest.fixture(scope="module")
def hanging() -> Iterator[PostgresCluster]:
    """A cluster that these tests may stop in its place."""
    with PostgresCluster() as cluster:
        yield cluster


def test_ready_says_so_within_five_seconds_and_all_goes_on_afterwards(
    make_hub: MakeHub, hanging: PostgresCluster, receiver: Receiver, tag: str
):
    hub = make_hub("postgres", "--allow-private", "127.0.0.0/8", db=hanging.create_database("hanging"))
    hub.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.*")
    first = hub.publish(tags=tag)["id"]
    with ThreadPoolExecutor(4) as pool:
        hanging.pause()
        try:
            asked_at = time.monotonic()
            publishing = pool.submit(hub.post, "/events", {"tags": tag}, timeout=100)
            broadcasting = pool.submit(hub.post, "/events", {"event_type": f"{tag}.made", "payload": 1}, timeout=100)
            for _ in range(2):
                assert hub.get("/ready").status == 503
            assert time.monotonic() - asked_at >= 2 * CHECK_SECONDS
            assert CHECK_SECONDS < 5, "what is promised"
            assert hub.get("/health").status == 200
        finally:
            hanging.resume()
        until(lambda: hub.get("/ready").status == 200, "the hub does not find its database again")
        answers = [publishing.result(timeout=100), broadcasting.result(timeout=100)]
    assert {answer.status for answer in answers} <= {201, 202, 503}
    until(lambda: hub.post("/events", {"event_type": f"{tag}.made", "payload": 2}).status == 202, "no publishing")
    until(lambda: [got.json for got in receiver.at(f"/{tag}") if got.json["data"] == 2], "no webhook")
    assert hub.taken(tag, "w")["id"] == first
    assert hub.complete(first, "w").status == 200
