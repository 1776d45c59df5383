"""Somebody's database is never touched, and whatever stands between a run and its database is told."""

import asyncio
import time
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from eventhub.errors import SettingsError
from eventhub.store import open_store
from eventhub.testing.torture import place
from eventhub.testing.torture.harm import Line
from eventhub.testing.torture.history import History
from eventhub.testing.torture.place import database_at, file_of, look, through_proxy, why_not
from eventhub.testing.torture.recording import RecordedPostgres, recorded
from tests.postgres_cluster import PostgresCluster

BOOKKEEPING = {"meta", "locks", "audit", "buses", "ended_sessions"}
"""What is there also where nobody has used the tables, or has nothing to do with what becomes of events."""
TABLES = """SELECT tablename FROM pg_tables WHERE schemaname = 'eventhub' AND tablename NOT LIKE 'event\\_log\\_%'"""
SUBSCRIBER = """INSERT INTO eventhub.subscribers (id, name, document, status, created_at, updated_at)
    VALUES (1, 'a', '{}', 'active', now(), now())"""
LOG = "INSERT INTO eventhub.event_log (event_id, action, created_at) VALUES (1, 'PUBLISHED', now())"


def name_of(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


async def test_looking_at_an_empty_database_changes_nothing(bare_postgres_url: str, postgres: PostgresCluster):
    assert await look(bare_postgres_url) < 1.0
    assert not postgres.execute(TABLES, database=name_of(bare_postgres_url))


async def test_tables_that_nobody_has_used_are_no_obstacle(postgres_url: str):
    await look(postgres_url)


@pytest.mark.parametrize(("statement", "words"), [(SUBSCRIBER, "subscribers"), (LOG, "event_log")])
async def test_a_database_without_events_may_be_in_use(
    postgres_url: str, postgres: PostgresCluster, statement: str, words: str
):
    postgres.execute(statement, database=name_of(postgres_url))
    with pytest.raises(SettingsError, match=f"is in use: there is something in {words}"):
        await look(postgres_url)


@pytest.mark.parametrize("version", ["1", "999"])
async def test_tables_of_another_version_are_left_alone(postgres_url: str, postgres: PostgresCluster, version: str):
    change = f"UPDATE eventhub.meta SET value = '{version}' WHERE key = 'schema_version'"
    postgres.execute(change, database=name_of(postgres_url))
    with pytest.raises(SettingsError, match=f"has tables of version {version}"):
        await look(postgres_url)
    kept = postgres.execute(
        "SELECT value FROM eventhub.meta WHERE key = 'schema_version'", database=name_of(postgres_url)
    )
    assert kept == version


async def test_a_schema_of_somebody_else_is_left_alone(bare_postgres_url: str, postgres: PostgresCluster):
    postgres.execute("CREATE SCHEMA eventhub", database=name_of(bare_postgres_url))
    with pytest.raises(SettingsError, match="with other tables than ours"):
        await look(bare_postgres_url)


def test_every_table_of_the_hub_is_looked_at(postgres_url: str, postgres: PostgresCluster):
    tables = set(postgres.execute(TABLES, database=name_of(postgres_url)).split())
    assert {name for name in tables if f"'{name}'" not in place.SQL.kept_there} == BOOKKEEPING


async def test_clocks_that_are_far_apart_are_found(bare_postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(place, "time", SimpleNamespace(time=lambda: time.time() - 60))
    with pytest.raises(SettingsError, match=r"is 60\.\d s away"):
        await look(bare_postgres_url)


def test_an_sqlite_database_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "hub.db").touch()
    with pytest.raises(SettingsError, match="is there already"):
        file_of(tmp_path)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_both_names_of_postgresql_are_known(scheme: str, tmp_path):
    with History(tmp_path, "server-a.1") as history:
        assert isinstance(recorded(f"{scheme}://me@db/x", history), RecordedPostgres)


# ------------------------------------------------------------------- lines


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:a:5432@db:5432/x", "postgresql://me:a:5432@127.0.0.1:7/x?sslmode=disable"),
        ("postgresql://me@localhost/x", "postgresql://me@127.0.0.1:7/x?sslmode=disable"),
        ("postgresql://db/x?sslmode=prefer&port=9", "postgresql://127.0.0.1:7/x?sslmode=disable"),
        ("postgresql:///x?host=db&user=me", "postgresql://127.0.0.1:7/x?user=me&sslmode=disable"),
    ],
)
def test_only_the_place_of_a_url_is_replaced(url: str, expected: str):
    assert through_proxy(url, 7) == expected
    assert why_not(url) == ""


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql:///x?host=/tmp", "a socket"),
        ("postgresql:///x", "a socket"),
        ("postgresql://a,b/x", "several hosts"),
        ("postgresql://db/x?sslmode=verify-full", "hides from a proxy what is a commit"),
    ],
)
def test_where_no_proxy_can_stand_that_is_told(url: str, words: str):
    assert words in why_not(url)


async def test_a_database_behind_a_socket_has_no_bad_line_and_that_is_told(bare_postgres_url: str):
    lines: list[Line] = []
    async with AsyncExitStack() as stack:
        found = await database_at(bare_postgres_url, bare_postgres_url, lines, stack)
    assert (found.lossy_url, lines) == (bare_postgres_url, [])
    assert found.network == "to the servers, not to the database: it is reached by a socket"


async def test_a_database_without_a_port_in_its_url_has_a_bad_line(monkeypatch: pytest.MonkeyPatch):
    with PostgresCluster(tcp=True) as cluster:
        await asyncio.to_thread(cluster.create_database, "lossy")
        monkeypatch.setattr(place, "USUAL_PORT", cluster.port)
        url = cluster.tcp_url("lossy").replace(f":{cluster.port}/", "/")
        lines: list[Line] = []
        async with AsyncExitStack() as stack:
            found = await database_at(cluster.url("lossy"), url, lines, stack)
            assert [line.whom for line in lines] == ["database"]
            async with open_store(found.lossy_url) as store:
                assert await store.last_event() == 0
