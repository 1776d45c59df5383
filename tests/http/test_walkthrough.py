"""Seed 003, "Process A publishes, Process B consumes": the whole example, and what it says about states."""

from concurrent.futures import ThreadPoolExecutor

from tests.http.conftest import Hub


def test_process_a_publishes_and_process_b_consumes(hub: Hub, tag: str):
    published = hub.post(
        "/events",
        {
            "title": "Batch Report Generation",
            "tags": f"reporting-{tag},batch",
            "payload": {"report_type": "sales", "month": "2025-12"},
        },
    )
    assert published.status == 201
    event_id = published.json["id"]

    picked = hub.get("/events/subscribe", tags=f"reporting-{tag}", worker_id="worker-03:9100")
    assert (picked.status, picked.json["id"], picked.json["status"]) == (200, event_id, "PROCESSING")

    payments = f"payment-{tag}"
    assert hub.get("/events/subscribe", tags=payments, worker_id="worker-04:9101").status == 204

    done = hub.post(
        f"/events/{event_id}/complete",
        {"worker_id": "worker-03:9100", "execution_time_ms": 15000, "status_code": 200},
    )
    assert done.status == 200
    assert hub.event(event_id)["status"] == "COMPLETED"

    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(hub.taken, payments, "worker-04:9101")
        payment = hub.publish(tags=payments)["id"]
        assert polling.result()["id"] == payment


def test_the_states_of_an_event_that_fails_once_and_then_succeeds(quick: Hub, tag: str):
    event_id = quick.publish(tags=tag)["id"]
    seen = [quick.event(event_id)["status"]]
    quick.taken(tag, "w1")
    seen.append(quick.event(event_id)["status"])
    quick.fail(event_id, "w1")
    seen.append(quick.event(event_id)["status"])
    quick.taken(tag, "w2")
    seen.append(quick.event(event_id)["status"])
    quick.complete(event_id, "w2")
    seen.append(quick.event(event_id)["status"])
    assert seen == ["PENDING", "PROCESSING", "PENDING", "PROCESSING", "COMPLETED"]
    assert quick.event(event_id)["retry_count"] == 1


def test_ten_workers_drain_a_hundred_jobs_exactly_once(hub: Hub, tag: str):
    made = hub.post("/events/batch", {"events": [{"tags": tag, "payload": n} for n in range(100)]}).json["events"]

    def drain(worker: str) -> list[int]:
        done = []
        while (event := hub.take(tag, worker)) is not None:
            assert hub.complete(event["id"], worker, fence=event["fence"]).status == 200
            done.append(event["id"])
        return done

    with ThreadPoolExecutor(10) as pool:
        done = [event_id for ids in pool.map(drain, [f"w{n}" for n in range(10)]) for event_id in ids]
    assert sorted(done) == [event["id"] for event in made]
    assert hub.get("/events", tags=tag, status="COMPLETED", limit=1).json["total"] == 100
