"""Rows between PostgreSQL and Arrow: whatever they hold arrives, and a line that is lost is told, not died of."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventhub.errors import SettingsError, StoreError, StoreReadOnly, StoreUnavailable
from eventhub.pipeline.source.conditions import Condition
from eventhub.pipeline.source.database import Slice, Visible, open_database
from eventhub.pipeline.source.postgres import connection as connections
from eventhub.pipeline.source.postgres.connection import connected
from eventhub.pipeline.source.tables import chosen
from eventhub.testing.torture.proxy import Proxy, Weather
from tests.pipeline.support import numbered, publish
from tests.postgres_cluster import PostgresCluster

KINDS = pa.schema(
    [
        ("first", pa.string()),
        ("n", pa.int64()),
        ("small", pa.int32()),
        ("text", pa.string()),
        ("more", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
TABLE = "CREATE TEMPORARY TABLE kinds (first text, n bigint, small integer, text text, more text, at timestamptz)"
ODD = [
    "",
    "\\N",
    "\\",
    "\\.",
    "\t",
    "\r\n",
    "\n\\.\n",
    "\\\\n",
    "\b\f\v",
    '"',
    "a,b",
    "\x01",
    "NULL",
    " ",
    "\ufeff",
    "ü\u2028😀",
]
LOST = 20.0
ASLEEP = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
READ_ON = """
import pyarrow as pa
from eventhub.pipeline.ahead import fetched_ahead
from eventhub.pipeline.source.postgres.connection import connected

def rows():
    text = pa.schema([("text", pa.string())])
    with connected({url!r}) as connection:
        yield from connection.read("SELECT repeat('x', 1000) FROM generate_series(1, 50000)", text)

def main():
    coming = {way}(rows())
    for batch in coming:
        print("reading", flush=True)
        raise ValueError("of the program itself")

main()
"""


def texts() -> st.SearchStrategy[str]:
    plain = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
    return st.lists(st.sampled_from(ODD) | plain, max_size=3).map("".join)


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - given one
    row = {
        "first": texts(),
        "n": st.integers(-(2**63), 2**63 - 1),
        "small": st.integers(-(2**31), 2**31 - 1),
        "text": texts(),
        "more": texts(),
        "at": moments,
    }
    return st.lists(
        st.fixed_dictionaries({name: st.none() | kind for name, kind in row.items()}), min_size=1, max_size=12
    )


def test_whatever_rows_hold_they_arrive(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(postgres_url) as connection:
        connection.run(TABLE)

        @given(rows(), st.sampled_from([1, 200, 1 << 20]))
        @settings(max_examples=300, deadline=None)
        def holds(given_rows: list[dict[str, Any]], size: int) -> None:
            monkeypatch.setattr(connections, "BATCH_BYTES", size)
            sent = pa.RecordBatch.from_pylist(given_rows, schema=KINDS)
            connection.run("TRUNCATE kinds")
            connection.write(sent, "kinds")
            found = list(connection.read("SELECT first, n, small, text, more, at FROM kinds ORDER BY ctid", KINDS))
            assert pa.Table.from_batches(found) == pa.Table.from_batches([sent])

        holds()


def test_a_single_column_may_be_empty_in_every_row(postgres_url: str) -> None:
    schema = pa.schema([("text", pa.string())])
    with connected(postgres_url) as connection:
        (found,) = connection.read("SELECT * FROM (VALUES (''), (NULL), (''), ('\\.')) AS few(text)", schema)
        assert found.column(0).to_pylist() == ["", None, "", "\\."]
        assert list(connection.read("SELECT '' AS text WHERE false", schema)) == []


def test_how_a_database_writes_times_does_not_matter(postgres_url: str) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    with connected(postgres_url) as connection:
        name = connection.value("SELECT current_database()")
        connection.run(f"ALTER DATABASE {name} SET timezone = 'Asia/Kathmandu'")
        connection.run(f"ALTER DATABASE {name} SET datestyle = 'SQL, DMY'")
    with connected(postgres_url) as connection:
        (found,) = connection.read("SELECT '2026-02-03 04:05:06.5Z'::timestamptz AS at", schema)
        connection.run("CREATE TEMPORARY TABLE times (at timestamptz)")
        connection.write(found, "times")
        assert connection.value("SELECT extract(epoch FROM at) FROM times") == found.column(0)[0].as_py().timestamp()


def test_times_that_nobody_else_knows_are_told(postgres_url: str) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC"))])
    with connected(postgres_url) as connection:
        for odd in ("infinity", "10000-01-01", "0044-03-15 BC"):
            with pytest.raises(StoreError, match="Times must lie in the years 1 to 9999"):
                list(connection.read(f"SELECT '{odd}'::timestamptz AS at", schema))


def test_what_no_text_can_be_is_found_nowhere(postgres_url: str) -> None:
    publish(postgres_url, numbered(1))
    (kind,) = chosen("events", ["type"])
    for values, found in ((("a\0b",), 0), (("\ud800",), 0), (("kind.0", "a\0b"), 1)):
        part = Slice("events", Visible(), (Condition(kind, "IN", values),))
        assert sum(batch.num_rows for batch in open_database(postgres_url).read(part, (kind,))) == found


@pytest.mark.parametrize("way", ["iter", "fetched_ahead"])
def test_a_program_that_ends_while_it_reads_does_end(postgres_url: str, way: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", READ_ON.format(url=postgres_url, way=way)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (1, "reading\n")
    assert ended.stderr.endswith("ValueError: of the program itself\n")


def test_who_is_interrupted_leaves_nothing_running_on_the_server(postgres_url: str) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    watching = threading.Thread(
        target=when_asleep,
        args=(postgres_url, lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)),
    )
    try:
        with connected(postgres_url) as connection:
            watching.start()
            with pytest.raises(KeyboardInterrupt):
                connection.run("SELECT pg_sleep(60)")
    finally:
        signal.signal(signal.SIGUSR1, before)
        watching.join()
    with connected(postgres_url) as other:
        assert other.value(ASLEEP) == 0


def test_rows_come_in_batches_and_who_has_enough_may_stop(postgres_url: str) -> None:
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    with connected(postgres_url) as connection:
        coming = connection.read("SELECT n, repeat('x', 1000) FROM generate_series(1, 300000) n", schema)
        assert next(coming).column(0)[0].as_py() == 1
        coming.close()
    with connected(postgres_url) as connection:
        sizes = [
            batch.num_rows
            for batch in connection.read("SELECT n, repeat('x', 1000) FROM generate_series(1, 10000) n", schema)
        ]
    assert sum(sizes) == 10_000
    assert len(sizes) > 1


def test_what_a_query_does_wrong_is_told_and_the_connection_can_go_on(postgres_url: str) -> None:
    schema = pa.schema([("n", pa.int64())])
    with connected(postgres_url) as connection:
        connection.run("CREATE ROLE nobody_at_all")
        try:
            connection.run("SET ROLE nobody_at_all")
            with pytest.raises(StoreReadOnly, match="Grant the user the right"):
                list(connection.read("SELECT oid FROM pg_catalog.pg_authid", schema))
            connection.run("RESET ROLE")
        finally:
            connection.run("RESET ROLE")
            connection.run("DROP ROLE nobody_at_all")
        assert connection.value("SELECT 7") == 7


@pytest.mark.parametrize("when", ["asking", "beginning to read", "reading", "writing"])
async def test_a_lost_connection_is_told(when: str) -> None:
    """Some drivers end the whole process instead."""
    schema = pa.schema([("n", pa.int64()), ("text", pa.string())])
    with PostgresCluster(tcp=True) as cluster:
        async with Proxy(cluster.port or 0) as proxy:
            url = cluster.tcp_url().replace(f":{cluster.port}/", f":{proxy.port}/")
            loop = asyncio.get_running_loop()

            def cut() -> None:
                asyncio.run_coroutine_threadsafe(_reset(proxy), loop).result(LOST)

            def work() -> None:
                with connected(url) as connection:
                    if when == "reading":
                        coming = connection.read(
                            "SELECT n, repeat('x', 1000) FROM generate_series(1, 300000) n", schema
                        )
                        next(coming)
                        cut()
                        list(coming)
                    elif when == "writing":
                        connection.run("CREATE TEMPORARY TABLE few (n bigint, text text)")
                        cut()
                        connection.write(pa.RecordBatch.from_pylist([{"n": 1, "text": "x"}], schema=schema), "few")
                    else:
                        threading.Thread(target=when_asleep, args=(cluster.url(), cut)).start()
                        if when == "asking":
                            connection.value("SELECT pg_sleep(60)")
                        else:
                            list(connection.read("SELECT 1 AS n, pg_sleep(60)::text AS text", schema))

            with pytest.raises(StoreUnavailable, match="cannot be reached"):
                await asyncio.to_thread(work)


async def _reset(proxy: Proxy) -> None:
    proxy.reset()


def when_asleep(url: str, act: Callable[[], None]) -> None:
    with connected(url) as other:
        while not other.value(ASLEEP):
            pass
    act()


async def test_a_server_that_falls_silent_at_the_end_spoils_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSE_SECONDS", 0.2)
    with PostgresCluster(tcp=True) as cluster:
        async with Proxy(cluster.port or 0) as proxy:
            url = cluster.tcp_url().replace(f":{cluster.port}/", f":{proxy.port}/")
            loop = asyncio.get_running_loop()

            def work() -> int:
                with connected(url) as connection:
                    found: int = connection.value("SELECT 7")
                    asyncio.run_coroutine_threadsafe(_silence(proxy), loop).result(LOST)
                    return found

            assert await asyncio.to_thread(work) == 7


async def _silence(proxy: Proxy) -> None:
    proxy.weather = Weather(hole=True)


def test_a_parameter_that_only_another_driver_knows_is_named(postgres_url: str) -> None:
    with pytest.raises(SettingsError, match=r'"keepalives".*Take the parameter out of the URL'):
        open_database(f"{postgres_url}&keepalives=1").origin()
