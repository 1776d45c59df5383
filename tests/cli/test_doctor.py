"""`eventhub doctor` on databases that are well, and on those that are not."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from eventhub.cli.checks import Level, check_clock, check_disk, check_durability, check_upkeep
from tests.cli.support import Command, Filled
from tests.postgres_cluster import PostgresCluster

NOBODY = 65534


def levels(report: Any) -> dict[str, str]:
    """The worst level by check."""
    order = ["ok", "warning", "problem"]
    found: dict[str, str] = {}
    for check in report["checks"]:
        name, level = check["name"], check["level"]
        found[name] = max(found.get(name, "ok"), level, key=order.index)
    return found


def test_a_healthy_sqlite_file_is_well(eventhub: Command, sqlite_path: Path):
    eventhub("migrate", "--db", str(sqlite_path))
    report = eventhub.json("doctor", "--db", str(sqlite_path))
    assert report["ok"] is True
    assert (report["problems"], report["warnings"]) == (0, 0)
    assert {"eventhub", "python", "database", "driver", "tables", "writing", "clock", "durability", "disk"} <= set(
        levels(report)
    )
    assert {"name": "db", "value": str(sqlite_path), "source": "flag --db"} in report["settings"]
    done = eventhub("doctor", "--db", str(sqlite_path))
    assert done.returncode == 0
    assert "All is well." in done.stdout


@pytest.mark.alone
def test_a_healthy_server_is_well(eventhub: Command):
    with PostgresCluster(fsync=True) as cluster:
        report = eventhub.json("doctor", "--db", cluster.create_database("healthy"))
    assert report["ok"] is True
    assert set(levels(report).values()) == {"ok"}
    assert {"autovacuum", "connections", "clock", "durability"} <= set(levels(report))


def test_a_server_without_fsync_is_a_problem_with_its_remedy(eventhub: Command, postgres_url: str):
    report = eventhub.json("doctor", "--db", postgres_url, code=1)
    assert report["ok"] is False
    assert levels(report)["durability"] == "problem"
    done = eventhub("doctor", "--db", postgres_url)
    assert done.returncode == 1
    assert "Set fsync = on" in done.stdout


def test_the_trial_event_leaves_nothing(eventhub: Command, filled: Filled):
    before = eventhub.json("events", "list", "--db", filled.url)
    eventhub("doctor", "--db", filled.url)
    assert eventhub.json("events", "list", "--db", filled.url) == before


def test_dead_letters_are_a_warning_only(eventhub: Command, sqlite_filled: Filled):
    report = eventhub.json("doctor", "--db", sqlite_filled.url)
    assert report["ok"] is True
    assert levels(report)["dead letters"] == "warning"
    assert levels(report)["claims"] == "ok"


def test_a_server_that_is_down_is_a_problem_and_the_password_stays_hidden(eventhub: Command):
    done = eventhub("doctor", "--db", "postgresql://me:hunter2@127.0.0.1:1/db")
    assert done.returncode == 1
    assert "PROBLEM" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    assert "me:***@127.0.0.1" in done.stdout


def test_a_bad_setting_is_a_problem_that_names_its_source(eventhub: Command):
    report = eventhub.json("doctor", code=1, env={"EVENTHUB_POOL_SIZE": "many"})
    (problem,) = [check for check in report["checks"] if check["level"] == "problem"]
    assert "EVENTHUB_POOL_SIZE" in problem["detail"]


def test_a_misspelt_variable_is_found(eventhub: Command, sqlite_filled: Filled):
    report = eventhub.json("doctor", "--db", sqlite_filled.url, env={"EVENTHUB_POOLSIZE": "3"})
    (check,) = [check for check in report["checks"] if check["name"] == "variables"]
    assert check["remedy"] == "Did you mean EVENTHUB_POOL_SIZE?"


def test_settings_say_where_they_come_from(eventhub: Command, sqlite_filled: Filled):
    (eventhub.directory / "eventhub.toml").write_text('synchronous = "NORMAL"\nwork_queue = "mail"\n')
    env = {"EVENTHUB_WORK_QUEUE": "orders", "EVENTHUB_DB": sqlite_filled.url}
    report = eventhub.json("doctor", env=env)
    sources = {setting["name"]: setting["source"] for setting in report["settings"]}
    assert sources["db"] == "variable EVENTHUB_DB"
    assert sources["work_queue"] == "variable EVENTHUB_WORK_QUEUE"
    assert sources["synchronous"] == "file eventhub.toml"
    assert sources["pool_size"] == "default"
    assert levels(report)["durability"] == "warning"


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that an unprivileged user can enter."""
    directory = Path(tempfile.mkdtemp(prefix="eventhub-test-", dir="/tmp"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_a_file_that_cannot_be_written_is_a_problem(eventhub: Command, reachable: Path):
    path = reachable / "hub.db"
    assert eventhub("migrate", "--db", str(path)).returncode == 0
    path.chmod(0o444)
    reachable.chmod(0o555)
    # Root may write anything, so the command runs as nobody; what it needs is imported while it still may.
    script = f"""
        import os, sys
        import apsw, rich.table, eventhub.cli.doctor, eventhub.observe.logging, eventhub.store.sqlite
        if os.geteuid() == 0:
            os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
        os.chdir("/")
        sys.exit(eventhub.cli.main(["doctor", "--db", {str(path)!r}]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env=eventhub.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    reachable.chmod(0o755)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "PROBLEM" in done.stdout
    assert "cannot be written" in done.stdout
    assert "Traceback" not in done.stderr


def test_clocks_that_differ_are_told_apart_by_how_much():
    assert check_clock(timedelta(seconds=0.2), own_clock=True).level is Level.OK
    assert check_clock(timedelta(seconds=-5), own_clock=True).level is Level.WARNING
    assert "behind" in check_clock(timedelta(seconds=-5), own_clock=True).detail
    assert check_clock(timedelta(minutes=5), own_clock=True).level is Level.PROBLEM


def test_a_server_whose_upkeep_is_off_is_a_problem():
    checks = {check.name: check for check in check_upkeep({"autovacuum": "off", "max_connections": "15"}, 10, 1)}
    assert checks["autovacuum"].level is Level.PROBLEM
    assert checks["connections"].level is Level.WARNING


@pytest.mark.parametrize(
    ("most", "pool_size", "workers", "room", "level"),
    [
        (22, 10, 1, 2, Level.OK),
        (21, 10, 1, 1, Level.WARNING),  # two pools, and not both of the connections to listen on
        (100, 10, 9, 9, Level.OK),
        (100, 10, 10, 9, Level.WARNING),
    ],
)
def test_connections_are_added_up_with_the_one_to_listen_on(
    most: int, pool_size: int, workers: int, room: int, level: Level
):
    (check,) = check_upkeep({"max_connections": str(most)}, pool_size, workers)
    assert (check.level, check.detail.endswith(f": enough for {room}")) == (level, True)


def test_a_server_that_answers_before_it_has_written_is_a_problem():
    facts = {"engine": "PostgreSQL", "fsync": "on", "synchronous_commit": "off"}
    (check,) = check_durability(facts)
    assert check.level is Level.PROBLEM


def test_a_full_disk_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def usage(_: object) -> Any:
        return shutil._ntuple_diskusage(100, 99, 1)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert next(check_disk(tmp_path / "hub.db")).level is Level.PROBLEM


def test_a_write_ahead_log_that_never_shrinks_is_a_warning(tmp_path: Path):
    wal = tmp_path / "hub.db-wal"
    wal.touch()
    os.truncate(wal, 300 << 20)
    assert [check.level for check in check_disk(tmp_path / "hub.db")][-1] is Level.WARNING


BUS = """
import asyncio, sys
from eventhub import EventBus

async def main():
    async with EventBus(sys.argv[1], shutdown_timeout=0) as bus:
        hung = asyncio.Event()

        async def ship(event):
            hung.set()
            await asyncio.sleep(3600)

        bus.subscribe("order.*", ship, name="shop.ship")
        await bus.publish("order.paid", 1, wait=False)
        await hung.wait()

asyncio.run(main())
"""


def test_a_handler_that_no_running_bus_has_is_named(eventhub: Command, store_url: str):
    subprocess.run([sys.executable, "-c", BUS, store_url], check=True, timeout=60)
    fsync_is_off = store_url.startswith("postgresql:")  # which is a problem of the test's own cluster
    report = eventhub.json("doctor", "--db", store_url, code=int(fsync_is_off))
    (found,) = [check for check in report["checks"] if check["name"] == "handlers"]
    assert found["level"] == "warning"
    assert found["detail"] == "bus bus: 1 pending without shop.ship; event 1"
