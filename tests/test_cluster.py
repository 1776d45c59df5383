"""The private PostgreSQL that the other tests stand on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from tests.postgres_cluster import PostgresCluster, PostgresError, _processes_of

ROOT = Path(__file__).parents[1]
OWNER = """
import sys, time
from tests.postgres_cluster import PostgresCluster
cluster = PostgresCluster()
cluster.start()
print(cluster.directory, flush=True)
sys.stdin.readline()
"""


def wait_until(condition: Callable[[], bool], *, seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


async def test_answers_over_its_socket(postgres_url):
    connection = await asyncpg.connect(postgres_url)
    try:
        assert await connection.fetchval("SELECT 1") == 1
    finally:
        await connection.close()


async def test_answers_over_tcp_only_with_its_password():
    with PostgresCluster(tcp=True) as cluster:
        connection = await asyncpg.connect(cluster.tcp_url())
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
        assert cluster.execute("SELECT 2") == "2"
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(cluster.tcp_url().replace(cluster.password, "guess"))


def test_each_database_is_fresh_and_a_template_is_copied(postgres):
    postgres.create_database("pattern")
    postgres.execute("CREATE TABLE kept AS SELECT 7 AS value", database="pattern")
    postgres.create_database("copy", template="pattern")
    assert postgres.execute("SELECT value FROM kept", database="copy") == "7"
    postgres.drop_database("pattern")
    postgres.drop_database("copy")
    assert postgres.execute("SELECT count(*) FROM pg_database WHERE datname IN ('pattern', 'copy')") == "0"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_stop_and_start_keep_data_and_settings(mode):
    with PostgresCluster(fsync=True, work_mem="7MB") as cluster:
        cluster.execute("CREATE TABLE kept AS SELECT 7 AS value")
        cluster.restart(mode)
        assert cluster.execute("SELECT value FROM kept") == "7"
        settings = "fsync", "full_page_writes", "work_mem"
        assert [cluster.execute(f"SHOW {name}") for name in settings] == ["on", "on", "7MB"]


async def test_terminated_backends_are_gone(postgres, postgres_url):
    connection = await asyncpg.connect(postgres_url)
    database = await connection.fetchval("SELECT current_database()")
    assert postgres.terminate_backends(database) == 1
    with pytest.raises((asyncpg.PostgresConnectionError, asyncpg.AdminShutdownError)):
        await connection.fetchval("SELECT 1")
    await connection.close()


@pytest.mark.parametrize("name", ["", "Upper", "a;b", 'a"b', "a b"])
def test_a_name_that_would_need_quotes_is_refused(postgres, name):
    with pytest.raises(PostgresError, match="no plain database name"):
        postgres.create_database(name)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing():
    cluster = PostgresCluster(shared_buffers="much")
    with pytest.raises(PostgresError, match="shared_buffers"), cluster:
        pass
    assert not cluster.running


def test_close_leaves_no_process_and_no_directory():
    with PostgresCluster() as cluster:
        directory = cluster.directory
        assert _processes_of(str(directory))
    assert not _processes_of(str(directory))
    assert not directory.exists()


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, None])
def test_an_owner_that_ends_leaves_no_process_and_no_directory(signal_number):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    with owner, owner.stdout, owner.stdin:
        directory = owner.stdout.readline().strip()
        assert _processes_of(directory)
        if signal_number is None:
            owner.stdin.write("\n")
            owner.stdin.flush()
        else:
            owner.send_signal(signal_number)
        owner.wait()
        wait_until(lambda: not _processes_of(directory))
        wait_until(lambda: not Path(directory).exists())


def test_binaries_out_of_reach_are_copied(monkeypatch):
    monkeypatch.setattr(PostgresCluster, "_can_execute", lambda self: False)
    with PostgresCluster() as cluster:
        assert cluster.execute("SELECT 1") == "1"
        if os.geteuid() == 0:
            assert cluster._programs.is_relative_to(cluster.directory)
