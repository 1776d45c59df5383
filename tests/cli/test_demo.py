"""`eventhub demo`: it ends by itself, its numbers add up, it fails when they do not, and it leaves nothing running."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import IO, Any

import pytest

from eventhub import EventQueue, open_store
from eventhub.cli.demo.history_part import _compared
from eventhub.cli.demo.place import MARK, fresh
from eventhub.cli.demo.stage import DemoError, Narrator, Stage
from eventhub.cli.demo.tally import Sum, count
from eventhub.cli.demo.tour import Tour
from eventhub.config import Settings
from eventhub.errors import SettingsError
from eventhub.store import Store
from tests.cli.support import EVENTHUB, Command

# ------------------------------------------------------------------- the tour


@pytest.mark.starts_spark
@pytest.mark.timeout(300)
def test_the_demo_tells_its_story_and_ends_well(eventhub: Command):
    # A variable must never lead the demo into somebody's real database.
    with _started(eventhub, "demo", "--events", "1000", env={"EVENTHUB_DB": "/nowhere/real.db"}) as running:
        told, errors = running.communicate(timeout=240)
    assert (running.returncode, errors) == (0, ""), errors + told[-2000:]
    for words in (
        "SIGKILL",
        "ABANDONED",
        "KeyError: 'currency'",
        "nothing is lost",
        "HTTP 422",
        "All of it is as it must",
    ):
        assert words in told
    assert re.search(r"all +1,104 +1,103 +11 +1 +0", told)
    assert "The report has 1,105 events" in told
    assert "1 of these events is the hub's own" in told
    assert "31 of 31 webhooks arrived" in told
    place = eventhub.directory / "eventhub-demo" / "tour"
    assert (place / "report.html").as_uri() in told
    assert "<svg" in (place / "report.html").read_text()
    assert eventhub.json("dlq", "list", "--db", str(place / "demo.db"))["total"] == 1


def test_the_numbers_of_the_demo_add_up_on_postgres(eventhub: Command, postgres_url: str):
    arguments = ("demo", "--events", "1500", "--db", postgres_url, "--no-spark")
    told = eventhub.json(*arguments)
    assert told["ok"] is True
    assert told["published"] == told["completed"] + told["dead"] == 1604
    assert (told["dead"], told["lost"], told["retried"]) == (1, 0, 11)
    assert (told["duplicates_stopped"], told["came_back"], told["taken_over"]) == (1, 2, 1)
    assert told["webhooks"] == {"made": 31, "delivered": 31, "requests": told["webhooks"]["requests"]}
    assert told["history"] is None
    again = eventhub(*arguments)
    assert (again.returncode, "has events" in again.stderr) == (2, True)


def test_a_demo_that_is_ended_leaves_no_hub_behind(eventhub: Command):
    with _started(eventhub, "demo", "--no-spark") as running:
        hub = int(_read_until(running.stdout, r"is process (\d+) at")[1])
        assert Path(f"/proc/{hub}").exists()
        running.terminate()
        _, errors = running.communicate(timeout=30)
    assert (running.returncode, errors) == (130, "")
    assert not Path(f"/proc/{hub}").exists()


async def test_without_spark_it_says_how_to_get_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    tour = Tour(Settings(), tmp_path, events=1, spark=True, json=False)
    stage = Stage(store, Narrator(quiet=False))
    assert await tour._history(stage, await count(stage)) is None
    assert "pip install 'eventhub[spark]'" in capsys.readouterr().out


# ------------------------------------------------------------- the served hub


def test_the_served_demo_has_something_to_see_and_ends_with_ctrl_c(eventhub: Command):
    with _started(eventhub, "demo", "serve", "--port", "0", "--events", "2000") as running:
        url = _read_until(running.stdout, r"(http://127\.0\.0\.1:\d+)/")[1]
        _until(lambda: any(letter["parked"] for letter in _asked(url, "/dlq")["dead_letters"]))
        _until(lambda: {row["worker_id"] for row in _asked(url, "/workers")["workers"]} >= {"mailer-1", "night-worker"})
        found = {row["name"]: row for row in _asked(url, "/subscribers")["subscribers"]}
        keys = _asked(url, f"/subscribers/{found['audit']['id']}/keys")["keys"]
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert found.keys() >= {"shipping", "billing", "audit", "legacy", "news", "oncall"}
    assert found["news"]["status"] == "paused"
    assert [key["key"] for key in keys] == ["carla"]
    assert (running.returncode, errors) == (0, "")
    with pytest.raises(OSError, match="refused"):
        _asked(url, "/subscribers")
    named = str(eventhub.directory / "eventhub-demo" / "hub").encode()
    _until(lambda: not any(named in _content(process) for process in Path("/proc").glob("[0-9]*/environ")))


def test_a_port_that_is_taken_is_said(eventhub: Command):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = eventhub("demo", "serve", "--port", port)
    assert done.returncode == 2
    assert port in done.stderr
    assert done.stderr.count("eventhub:") == 1
    assert not (eventhub.directory / "eventhub-demo").exists(), "what another demo has left there stays"


def test_its_help_speaks_of_no_database_that_is_somebodys(eventhub: Command):
    for arguments in ((), ("serve",)):
        told = eventhub("demo", *arguments, "--help").stdout
        assert "a database of its own" in " ".join(told.split())
        assert "EVENTHUB_DB" not in told


# ------------------------------------------------------------- the directory


def test_the_directory_is_replaced_but_never_somebody_elses(tmp_path: Path):
    with fresh(tmp_path / "demo") as place:
        (place / "old").touch()
        with pytest.raises(SettingsError, match="is running"), fresh(tmp_path / "demo"):
            pass
    with fresh(tmp_path / "demo") as place:
        assert [file.name for file in place.iterdir()] == [MARK]
    own = tmp_path / "own"
    own.mkdir()
    (own / "thesis.txt").touch()
    with pytest.raises(SettingsError, match="no demo made"), fresh(own):
        pass
    (tmp_path / "link").symlink_to(own)
    with pytest.raises(SettingsError, match="no directory"), fresh(tmp_path / "link"):
        pass
    assert (own / "thesis.txt").exists()


# ------------------------------------------------------------------- the sums


@pytest.fixture
async def store(sqlite_path: Path) -> AsyncIterator[Store]:
    async with open_store(sqlite_path) as opened:
        yield opened


async def test_an_event_that_never_ended_is_a_failure(store: Store):
    stage = Stage(store, Narrator(quiet=True))
    queued = await EventQueue(store, queue="orders").publish("order.placed", {})
    stage.book("orders", [queued.id])
    told = await count(stage)
    assert told.lost == 1
    assert told.ok is False


async def test_an_acknowledged_event_that_is_missing_is_a_failure(store: Store):
    stage = Stage(store, Narrator(quiet=True))
    stage.book("orders", [4242])
    told = await count(stage)
    assert any("not in the database" in problem for problem in told.problems)


async def test_a_completed_event_that_no_handler_saw_is_a_failure(store: Store):
    stage = Stage(store, Narrator(quiet=True))
    queue = EventQueue(store, queue="orders")
    queued = await queue.publish("order.placed", {})
    await queue.finalize(queued.id, success=True)
    stage.book("orders", [queued.id])
    told = await count(stage)
    assert any("no handler saw" in problem for problem in told.problems)
    stage.handled.add(queued.id)
    assert not any("no handler saw" in problem for problem in (await count(stage)).problems)


async def test_a_lake_that_knows_other_numbers_is_a_failure(store: Store):
    stage = Stage(store, Narrator(quiet=True))
    sum_: Sum = await count(stage)
    assert _compared({"published": 0, "dead": 0}, sum_) == []
    assert _compared({"published": 1, "dead": 0}, sum_) == ["The report has 1 published, the database 0."]


def test_a_broken_promise_ends_the_demo():
    stage = Stage(open_store(":memory:"), Narrator(quiet=True))
    with pytest.raises(DemoError, match="order"):
        stage.expect("Events keep their order", kept=False)


# ------------------------------------------------------------------- looking on


def _started(eventhub: Command, *arguments: str, env: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [EVENTHUB, *arguments],
        cwd=eventhub.directory,
        env={**eventhub.environment, "PYTHONUNBUFFERED": "1", **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _read_until(lines: IO[str] | None, pattern: str) -> re.Match[str]:
    assert lines is not None
    for line in lines:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"It ended without a word like {pattern}.")


def _until(reached: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.05)


def _asked(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=30) as answer:
        return json.load(answer)


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # it has ended meanwhile
        return os.devnull.encode()


LEAVES_SOMEBODY_BEHIND = """
import asyncio, gc, sys
from eventhub.cli.demo.commands import ended

WAITS = "import sys; sys.stdin.read()"
LEAVES = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {WAITS!r}])"

async def main():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", LEAVES, stdout=asyncio.subprocess.PIPE)
    while process.returncode is None:
        await asyncio.sleep(0.01)
    await ended(process)
    return process

kept = asyncio.run(main())
del kept
gc.collect()
"""


def test_a_process_that_leaves_its_pipe_to_another_ends_without_a_word():
    command = [sys.executable, "-c", LEAVES_SOMEBODY_BEHIND]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.wait(60) == 0
        assert running.stdin is not None
        running.stdin.close()  # now the one that was left behind ends, too
        assert running.stderr is not None
        assert running.stderr.read() == ""
