"""`eventhub pipeline run` and `status`, as far as they need no Java."""

import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tests.cli.support import EVENTHUB, Command
from tests.pipeline.support import numbered, publish


def test_the_lake_is_brought_up_to_date_and_looked_at(eventhub: Command, store_url: str) -> None:
    publish(store_url, numbered(10))
    before = eventhub.json("pipeline", "status", "--db", store_url)
    assert [(one["dataset"], one["lag_rows"]) for one in before["datasets"]] == [
        ("events", 10),
        ("event_log", 10),
        ("audit", 0),
    ]
    assert (before["tables"], before["last_run_at"]) == ([], None)
    done = eventhub.json("pipeline", "run", "--db", store_url, "--only", "copy")
    assert (done["finished"], done["rows"]) == (True, 20)
    after = eventhub.json("pipeline", "status", "--db", store_url)
    assert [one["lag_rows"] for one in after["datasets"]] == [0, 0, 0]
    assert {one["table"]: one["rows"] for one in after["tables"]} == {"events": 10, "event_log": 10}
    shown = eventhub("pipeline", "status", "--db", store_url)
    assert "event_log" in shown.stdout
    assert "last run" in shown.stdout
    again = eventhub("pipeline", "run", "--db", store_url, "--only", "copy", "--only", "tidy")
    assert (again.returncode, again.stdout.startswith("Nothing new"), again.stderr) == (0, True, "")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--once", "--continuous"], "exclude each other"),
        (["--interval", "soon", "--continuous"], "such as 30m"),
        (["--partitions", "0"], "give 1 to"),
        (["--only", "everything"], "copy"),
        (["--metrics-port", "70000"], "give 1 to 65535"),
    ],
)
def test_what_cannot_be_is_said(eventhub: Command, options: list[str], said: str) -> None:
    done = eventhub("pipeline", "run", *options)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_lake_that_does_not_fit_is_an_error_with_the_remedy(eventhub: Command, sqlite_path: Path) -> None:
    publish(str(sqlite_path), numbered(3))
    run = ("pipeline", "run", "--db", str(sqlite_path), "--only", "copy", "--lake")
    assert eventhub(*run, "one").returncode == 0
    done = eventhub(*run, "another")
    assert done.returncode == 1
    assert "lacks the copies 1 to 1" in done.stderr
    assert "--rebaseline" in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_runs_on_until_it_is_told_to_stop_and_tells_its_numbers(
    eventhub: Command, sqlite_path: Path, number: signal.Signals, code: int
) -> None:
    publish(str(sqlite_path), numbered(3))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--continuous", "--interval", "1h", "--only", "copy", "--json", "--metrics-port", str(port)]
    with subprocess.Popen(
        [EVENTHUB, "pipeline", "run", "--db", str(sqlite_path), *options],
        cwd=eventhub.directory,
        env=eventhub.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert '"rows":6' in running.stdout.readline()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            assert b'eventhub_pipeline_rows_copied_total{dataset="events"} 3.0' in answer.read()
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (code, "")


def test_the_lake_is_for_its_user_alone(eventhub: Command, store_url: str) -> None:
    publish(store_url, numbered(10))
    eventhub.json("pipeline", "run", "--db", store_url, "--only", "copy")
    lake = eventhub.directory / "lake"
    found = [lake, *lake.rglob("*")]
    assert any(path.suffix == ".parquet" for path in found)
    assert {oct(path.stat().st_mode & 0o777) for path in found if path.is_dir()} == {"0o700"}
    assert {oct(path.stat().st_mode & 0o777) for path in found if path.is_file()} == {"0o600"}
