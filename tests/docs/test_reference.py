"""The reference that is made from code says what the code does: nothing is missing, nothing is made up."""

import asyncio
import re
from pathlib import Path

import apsw
import asyncpg
import pytest

import eventhub
from eventhub.cli import GROUPS
from eventhub.config import Settings, describe
from eventhub.http.routes import OPERATIONS
from eventhub.store import open_store
from scripts.docs import (
    reference_cli,
    reference_http,
    reference_metrics,
    reference_python,
    reference_settings,
    reference_tables,
)
from tests.docs.pages import ROOT

COLUMNS = """
SELECT table_name, column_name FROM information_schema.columns c JOIN information_schema.tables t
USING (table_schema, table_name) WHERE table_schema = 'eventhub' AND table_type = 'BASE TABLE'
"""


def columns(engine: str) -> set[tuple[str, str]]:
    tables = reference_tables.read(engine).tables
    return {(name, column) for name, table in tables.items() for column in table.columns}


def test_every_route_is_told():
    page = reference_http.page()
    assert [operation.path for operation in OPERATIONS if f"`{operation.method} {operation.path}`" not in page] == []


def test_every_command_is_told_once():
    page = reference_cli.page()
    assert [group for group in GROUPS if f"## `eventhub {group}`" not in page] == []
    assert page.count("`--debug`") == 1
    assert "### `eventhub dlq retry`" in page


def test_every_setting_is_told_with_its_meaning():
    page = reference_settings.page()
    for name in Settings.__struct_fields__:
        assert f"`EVENTHUB_{name.upper()}`" in page
        assert describe(name) in page


def test_a_setting_without_a_flag_is_told_so():
    rows = dict(re.findall(r"</a>`(\w+)` \| (\S+) \|", reference_settings.page()))
    assert rows.keys() == set(Settings.__struct_fields__)
    assert (rows["db"], rows["host"], rows["url"], rows["lake"]) == ("`--db`", "`--host`", "`--url`", "`--lake`")
    assert {name for name, flag in rows.items() if flag == "none"} == {
        "forget_workers_days",
        "webhook_concurrency",
        "circuit_failures",
        "circuit_seconds",
        "keep_attempts_days",
        "keep_audit_days",
        "keep_dead_days",
        "keep_idempotency_keys_days",
    }


def test_every_public_name_is_told():
    page = reference_python.page()
    assert [name for name in eventhub.__all__ if name != "__version__" and f"### `{name}`" not in page] == []


def test_blocking_classes_are_told_with_the_methods_of_those_they_stand_for():
    told = reference_python.page().partition("## eventhub.blocking")[2].partition("\n## eventhub.errors")[0]
    queue = told.partition("### `EventQueue`")[2].partition("\n### ")[0]
    assert "(#eventhub.EventQueue)" in queue
    assert re.search(r"^finalize\(event: int \| Event, success: bool", queue, re.MULTILINE), queue
    assert "async " not in told


def test_every_metric_of_the_alerts_is_told():
    page = reference_metrics.page()
    rules = (ROOT / "deploy" / "prometheus" / "eventhub.rules.yml").read_text()
    named = {name.removesuffix("_bucket") for name in re.findall(r"eventhub_[a-z_]+", rules)}
    assert {name for name in named if f"`{name}`" not in page} == set()


def test_the_tables_of_sqlite_are_those_that_migrations_leave(sqlite_path: Path):
    async def make() -> None:
        async with open_store(str(sqlite_path)):
            pass

    asyncio.run(make())
    with apsw.Connection(str(sqlite_path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        found = {
            (name.removeprefix("eventhub_"), row[1])
            for name in names
            if name.startswith("eventhub_")
            for row in connection.execute(f'PRAGMA table_info("{name}")')
        }
    assert columns("sqlite") == found
    assert reference_tables.page().count("\n## ") > 10


async def test_the_tables_of_postgresql_are_those_that_migrations_leave(postgres_url: str):
    connection = await asyncpg.connect(postgres_url)
    found = {tuple(row) for row in await connection.fetch(COLUMNS)}
    await connection.close()
    assert columns("postgres") == {(table, column) for table, column in found if not table.startswith("event_log_")}


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_tables_and_views_have_words(engine: str):
    schema = reference_tables.read(engine)
    assert [name for name, words in schema.views.items() if not words] == []
    assert sum(bool(table.words) for table in schema.tables.values()) > len(schema.tables) / 2
