"""A hub whose database is reached through a real PgBouncer: work, long-polls, webhooks, and what the doctor says."""

from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import pytest

from eventhub.testing.pgbouncer import PgBouncer
from tests.http.conftest import MakeHub
from tests.http.receiver import Receiver
from tests.postgres_cluster import PostgresCluster
from tests.ready_databases import ready_databases


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_hub_works_through_a_pooler(
    make_hub: MakeHub,
    hub_postgres: PostgresCluster,
    receiver: Receiver,
    tag: str,
    mode: Literal["transaction", "session"],
):
    name = ready_databases(hub_postgres).take()
    with PgBouncer(hub_postgres, mode, size=20 if mode == "transaction" else 60) as pooler:
        url = pooler.url(name) + ("" if mode == "transaction" else "?pool=session")
        hub, other = (make_hub("postgres", "--allow-private", "127.0.0.0/8", db=url) for _ in range(2))
        with ThreadPoolExecutor(4) as pool:
            waiting = [
                pool.submit(other.get, "/events/subscribe", tags=tag, worker_id=f"w{n}", wait=30) for n in range(4)
            ]
            other.until_waiting(4)
            ids = {hub.publish(tags=tag)["id"] for _ in range(4)}
            taken = [answer.result(timeout=40).json["id"] for answer in waiting]
        assert set(taken) == ids
        for place, number in enumerate(taken):
            done = [other.complete(number, f"w{n}").status for n in range(4)]
            assert sorted(done) == [200, 409, 409, 409], place
        hub.subscribe(tag, f"{receiver.url}/{tag}", event_type=f"{tag}.*")
        event_id = hub.broadcast(f"{tag}.made", ordering_key="k")
        other.until(f"/events/{event_id}", lambda event: event["status"] == "COMPLETED")
        assert hub.get("/ready").status == hub.get("/metrics").status == hub.get("/stats").status == 200
