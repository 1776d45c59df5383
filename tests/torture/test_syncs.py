"""A process dies at each sync of its disk, or the sync fails: nothing acknowledged is missing, no call is halved."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import apsw
import pytest

from eventhub.core.events import Status
from eventhub.store import open_store
from eventhub.store.values import EventFilter
from eventhub.testing.torture.children import Nursery
from eventhub.testing.torture.history import Record

SYNCS = 10
"""A commit syncs once; these are publishing, claiming and reporting in turn."""


@pytest.fixture
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(tmp_path_factory.mktemp("histories"), packages=["tests.torture"]) as made:
        yield made


async def judge(records: list[Record], path: Path) -> None:
    async with open_store(str(path)) as store:
        events = await store.events(EventFilter(queue="crash", limit=100_000))
    stored = {event.payload["token"]: event for event in events}
    assert len(stored) == len(events), "no event is there twice"
    acknowledged = {r.token for r in records if (r.op, r.kind) == ("publish", "ok")}
    assert acknowledged <= stored.keys()
    reported = {r.id for r in records if (r.op, r.kind) == ("report", "ok")}
    assert {event.id for event in events if event.status is Status.COMPLETED} >= reported
    calls = defaultdict(set)
    for record in records:
        if (record.op, record.kind) == ("publish", "invoke"):
            calls[record.process, record.call].add(record.token in stored)
    assert all(len(there) == 1 for there in calls.values()), "a call is there whole, or not at all"
    connection = apsw.Connection(str(path))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


async def test_killed_at_each_sync_it_keeps_what_it_acknowledged(sqlite_path: Path, nursery: Nursery) -> None:
    for at, fate in product(range(1, SYNCS + 1), ("killed before", "killed after")):
        child = nursery.spawn("syncing", "life", url=str(sqlite_path), at=at, fate=fate)
        await child.ended()
        await judge(nursery.records(), sqlite_path)
    assert "end" not in {record.op for record in nursery.records()}, "somebody lived"
    assert nursery.errors() == ""


async def test_a_sync_that_fails_is_no_acknowledgement_and_work_goes_on(sqlite_path: Path, nursery: Nursery) -> None:
    for at in range(1, SYNCS + 1):
        child = nursery.spawn("syncing", "life", url=str(sqlite_path), at=at, fate="failed", calls=6)
        await child.ended()
        await judge(nursery.records(), sqlite_path)
    records = nursery.records()
    assert sum(record.op == "end" for record in records) == SYNCS
    assert [record for record in records if (record.op, record.kind) == ("publish", "fail")]
    assert nursery.errors() == ""
