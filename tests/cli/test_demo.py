"""`eventhub demo`: it ends by itself, its numbers add up, and it fails when they do not."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from eventhub import EventQueue, open_store
from eventhub.cli.demo.stage import DemoError, Narrator, Stage
from eventhub.cli.demo.tally import count
from eventhub.store import Store
from tests.cli.support import Command


def test_the_demo_tells_its_story_and_ends_well(eventhub: Command):
    done = eventhub("demo", "--events", "3000", env={"TMPDIR": str(eventhub.directory)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "SIGKILL" in done.stdout
    assert "ABANDONED" in done.stdout
    assert "KeyError: 'currency'" in done.stdout
    assert "nothing is lost" in done.stdout
    assert re.search(r"all +3,013 +3,012 +5 +1 +0", done.stdout)
    assert list(eventhub.directory.iterdir()) == [], "it must clean up behind itself"


def test_the_numbers_of_the_demo_add_up_on_either_engine(eventhub: Command, store_url: str):
    told = eventhub.json("demo", "--events", "1500", "--db", store_url)
    assert told["ok"] is True
    assert told["published"] == told["completed"] + told["dead"] == 1513
    assert (told["dead"], told["lost"], told["retried"], told["duplicates_stopped"]) == (1, 0, 5, 1)
    queues = eventhub.json("stats", "--db", store_url)["queues"]
    assert sum(sum(queue["depth"].values()) for queue in queues) == 1513
    assert eventhub.json("dlq", "list", "--db", store_url)["total"] == 1


def test_the_demo_keeps_its_database_when_asked_and_says_where_it_is(eventhub: Command):
    # A variable must never lead the demo into somebody's real database.
    env = {"TMPDIR": str(eventhub.directory), "EVENTHUB_DB": "/nowhere/real.db"}
    done = eventhub("demo", "--events", "100", "--keep", env=env)
    assert done.returncode == 0, done.stderr
    (directory,) = eventhub.directory.iterdir()
    assert f"eventhub --db '{directory}/demo.db' dlq list" in done.stdout
    assert eventhub.json("dlq", "list", "--db", f"{directory}/demo.db")["total"] == 1


@pytest.fixture
async def store(sqlite_path: Path) -> AsyncIterator[Store]:
    async with open_store(sqlite_path) as opened:
        yield opened


async def test_an_event_that_never_ended_is_a_failure(store: Store):
    stage = Stage(store, Narrator(quiet=True), prefix="")
    queued = await EventQueue(store, queue="orders").publish("order.placed", {})
    stage.book("orders", [queued.id])
    told = await count(stage)
    assert told.lost == 1
    assert told.ok is False


async def test_an_acknowledged_event_that_is_missing_is_a_failure(store: Store):
    stage = Stage(store, Narrator(quiet=True), prefix="")
    stage.book("orders", [4242])
    told = await count(stage)
    assert any("not in the database" in problem for problem in told.problems)


async def test_a_completed_event_that_no_handler_saw_is_a_failure(store: Store):
    stage = Stage(store, Narrator(quiet=True), prefix="")
    queue = EventQueue(store, queue="orders")
    queued = await queue.publish("order.placed", {})
    await queue.finalize(queued.id, success=True)
    stage.book("orders", [queued.id])
    told = await count(stage)
    assert any("no handler saw" in problem for problem in told.problems)
    stage.handled.add(queued.id)
    assert not any("no handler saw" in problem for problem in (await count(stage)).problems)


def test_a_broken_promise_ends_the_demo():
    stage = Stage(open_store(":memory:"), Narrator(quiet=True), prefix="")
    with pytest.raises(DemoError, match="order"):
        stage.expect("Events keep their order", kept=False)
