"""Small courtesies on the wire that clients and proxies rely on."""

import pytest

from tests.http.api import Wire, head
from tests.http.conftest import Hub, MakeHub
from tests.postgres_cluster import PostgresCluster


@pytest.mark.parametrize("size", [8_000_000, 30_000_000])
def test_a_client_that_sends_everything_before_it_reads_still_sees_that_it_was_too_much(sqlite_hub: Hub, size: int):
    answer = sqlite_hub.post("/events", raw=b"x" * size, headers={"Content-Type": "application/json"})
    assert answer.status == 413


def test_a_connection_goes_on_after_a_body_that_was_too_much(sqlite_hub: Hub):
    with Wire(sqlite_hub.port) as wire:
        lines = ("Content-Type: application/json", "Content-Length: 8000000")
        wire.send(head("POST", "/events", wire.port, *lines) + b"x" * 8_000_000)
        assert wire.answer().status == 413
        wire.send(head("GET", "/health", wire.port))
        assert wire.answer().status == 200


def test_an_answer_without_a_body_says_nothing_about_its_length(sqlite_hub: Hub, tag: str):
    answer = sqlite_hub.get("/events/subscribe", tags=tag, worker_id="w")
    assert answer.status == 204
    assert "content-length" not in answer.headers


def test_metrics_are_told_also_while_the_database_is_away(make_hub: MakeHub, tag: str):
    with PostgresCluster() as cluster:
        hub = make_hub(db=cluster.create_database("metrics"))
        hub.publish(tags=tag)
        cluster.stop()
        answer = hub.get("/metrics")
    assert answer.status == 200
    assert 'eventhub_events_received_total{duplicate="false"} 1.0' in answer.raw.decode()
