"""Nothing has become much slower: how near Event Hub comes to the bare driver, beside what is on record.

A ratio that fell for good reason is recorded anew by `make bench-guard`, on a quiet machine.
"""

import pytest

from benchmarks.guarding.ratios import fallen, held, measure, read, recorded, throughout
from benchmarks.guarding.slices import SLICES
from eventhub.queue import EventQueue

pytestmark = pytest.mark.alone
RECORD = read()


@pytest.fixture
def server(request, engine):
    if engine != "postgres":
        return ""
    cluster = request.getfixturevalue("postgres")
    cluster.start()
    return cluster.url()


@pytest.mark.parametrize(("engine", "workload"), recorded(RECORD))
async def test_a_ratio_to_the_bare_driver_is_held(engine, workload, server):
    known = RECORD.ratios[engine][workload]
    async with throughout(engine, server) as databases:
        seen = await fallen(databases, workload, known)
    shown = [f"{one.cost.median:.3f} and {one.rate.median:.3f}" for one in seen]
    assert not seen, (
        f"{workload} on {engine} comes less near to the bare driver: in cost {known.cost.median:.3f} and in rate "
        f"{known.rate.median:.3f} are on record, and {', then '.join(shown)} were seen. Find what became slower; "
        "if it must be so, record it with `make bench-guard`."
    )


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_work_that_is_done_twice_is_noticed(monkeypatch, server, engine):
    publish_many = EventQueue.publish_many

    async def twice(self, events):
        await publish_many(self, events)
        return await publish_many(self, events)

    async with throughout(engine, server) as databases:
        before = await measure(databases, "publish-batch", pairs=9)
        monkeypatch.setattr(EventQueue, "publish_many", twice)
        after = await measure(databases, "publish-batch", pairs=9)
    assert not held(after, before)


def test_every_workload_is_on_record():
    assert {(engine, workload) for engine in ("sqlite", "postgres") for workload in SLICES} == set(recorded(RECORD))
