"""Events that have left the database: the server reads them from the lake, and they can be replayed."""

import asyncio
from datetime import timedelta
from pathlib import Path

from eventhub.lake.place import Lake
from eventhub.pipeline.archiving import archive
from eventhub.store import open_store
from tests.http.conftest import MakeHub
from tests.pipeline.lake_support import copy


def archive_everything(url: str, lake: Lake) -> int:
    async def work() -> int:
        async with open_store(url) as store:
            await copy(store, lake)
            before = await store.now() + timedelta(days=1)
            return sum([day.gone async for day in archive(store, url, lake, before=before) if day.dataset == "events"])

    return asyncio.run(work())


def test_an_archived_event_is_read_from_the_lake(make_hub: MakeHub, engine: str, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    hub = make_hub(engine, "--lake", lake.url, "--retry-seconds", "0")
    details = {"title": "T", "description": "D", "ordering_key": "k", "metadata": {"a": "b"}, "idempotency_key": "i"}
    first = hub.publish(tags="b, a", payload={"ü": [1.5, None]}, **details)["id"]
    hub.fail(hub.take("a")["id"], error_message="not yet")
    hub.complete(hub.take("a")["id"])
    broadcast = hub.post("/events", {"event_type": "order.placed", "payload": 7}).json["id"]
    hub.until(f"/events/{broadcast}", lambda event: event["status"] == "COMPLETED")
    waiting = hub.publish(tags="a", payload=1)["id"]
    before = {number: hub.get(f"/events/{number}", include_logs="true").json for number in (first, broadcast, waiting)}
    assert hub.get("/events/999999").status == 404
    assert archive_everything(hub.server.db, lake) == 2
    for number in (first, broadcast):
        assert hub.get(f"/events/{number}", include_logs="true").json == {**before[number], "archived": True}
        assert "logs" not in hub.get(f"/events/{number}").json
    assert hub.get(f"/events/{waiting}", include_logs="true").json == before[waiting]
    assert [event["id"] for event in hub.get("/events").json["events"]] == [waiting]
    assert hub.get("/events/999999").status == 404
    again = hub.post(f"/events/{first}/replay").json
    assert (again["payload"], again["metadata"]) == ({"ü": [1.5, None]}, {"a": "b", "replay_of": str(first)})
    assert hub.post(f"/events/{first}/complete", {"worker_id": "w"}).status in (404, 409)


def test_a_lake_that_cannot_be_read_is_no_missing_event(make_hub: MakeHub, tmp_path: Path) -> None:
    (tmp_path / "lake" / "events" / "_delta_log").mkdir(parents=True)
    (tmp_path / "lake" / "events" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    answer = make_hub("sqlite", "--lake", str(tmp_path / "lake")).get("/events/7")
    assert (answer.status, answer.kind) == (503, "store-unavailable")
