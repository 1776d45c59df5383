"""An application may keep its own tables in the hub's file, and reads them with the SQLite of its interpreter."""

import re
import sqlite3
from pathlib import Path
from typing import Any

import apsw
import pytest

from eventhub.store import open_store
from eventhub.store.queries import load_migrations
from tests.conformance import message_support as messages
from tests.conformance.hub_support import subscriber
from tests.conformance.support import START, complete, fail, kill, publish_one, take_one

NEWER = {
    "3.35": r"\b(NOT )?MATERIALIZED\b|\b(ceil|floor|ln|log|pow|sqrt|trunc)\(",
    "3.37": r"\)\s*(WITHOUT ROWID\s*,\s*)?STRICT\b",
    "3.38": r"->|\b(unixepoch|format)\(",
    "3.39": r"\b(RIGHT|FULL)\s+(OUTER\s+)?JOIN\b|\bIS\s+(NOT\s+)?DISTINCT\s+FROM\b",
    "3.41": r"\bunhex\(",
    "3.43": r"\b(timediff|octet_length)\(",
    "3.44": r"\b(concat|concat_ws|string_agg)\(|(?<!OVER )\((DISTINCT )?\w+(\.\w+)?\s+ORDER BY\b",
    "3.45": r"\bjsonb\w*\(",
    "3.46": r"\d_\d|\bjson_pretty\(",
}
"""What a definition must not use, by the version it came with: https://sqlite.org/changes.html."""
EXAMPLES = {
    "3.35": "WITH x AS MATERIALIZED (SELECT 1) SELECT * FROM x",
    "3.37": "CREATE TABLE t (a INTEGER PRIMARY KEY) WITHOUT ROWID, STRICT",
    "3.38": "SELECT detail ->> '$.attempt'",
    "3.39": "SELECT a IS NOT DISTINCT FROM b",
    "3.41": "SELECT unhex('00')",
    "3.43": "SELECT octet_length(payload)",
    "3.44": "SELECT json_group_array(t.error ORDER BY t.id)",
    "3.45": "SELECT jsonb_extract(detail, '$')",
    "3.46": "SELECT 1_000",
}


def needs(definition: str) -> list[str]:
    """The versions whose syntax or functions a definition uses."""
    return [version for version, pattern in NEWER.items() if re.search(pattern, definition, re.IGNORECASE)]


async def fill(path: Path) -> None:
    """Work that is open, dead and completed, and a broadcast of which one message has failed and one is dead."""
    async with open_store(path) as store:
        await kill(store)
        await publish_one(store)
        await complete(store, await take_one(store))
        await publish_one(store)
        await fail(store, await take_one(store), after=60)
        await publish_one(store)
        first, second = await subscriber(store), await subscriber(store)
        await messages.send(store, first, second)
        (claim,) = await messages.take(store, first)
        await messages.fail(store, claim, "first")
        (claim,) = await messages.take(store, second)
        await messages.bury(store, claim, "second")


def rows(connection: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, connection.execute(f'SELECT * FROM "{name}"')), key=repr)


async def test_the_interpreters_own_sqlite_reads_every_table_and_view(sqlite_path: Path) -> None:
    await fill(sqlite_path)
    ours, theirs = apsw.Connection(str(sqlite_path)), sqlite3.connect(sqlite_path)
    names = [name for (name,) in ours.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")]
    assert len(names) > 30
    read = {name: rows(theirs, name) for name in names}
    assert read == {name: rows(ours, name) for name in names}
    assert len(read["eventhub_event_states"]) == 5
    (errors,) = theirs.execute("SELECT errors FROM eventhub_event_states ORDER BY id DESC LIMIT 1").fetchone()
    assert errors == '["first","second"]'
    assert theirs.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    theirs.close()
    ours.close()


async def test_an_application_keeps_its_own_tables_in_the_hubs_file(sqlite_path: Path) -> None:
    own = sqlite3.connect(sqlite_path)
    own.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    own.commit()
    own.close()
    async with open_store(sqlite_path) as store:
        await publish_one(store)
    own = sqlite3.connect(sqlite_path)
    with own:
        own.execute("INSERT INTO orders DEFAULT VALUES")
    assert own.execute("SELECT count(*) FROM orders").fetchone() == (1,)
    own.close()


async def test_a_database_that_was_made_before_becomes_readable_and_keeps_its_rows(sqlite_path: Path) -> None:
    before = apsw.Connection(str(sqlite_path))
    for number, _, script in load_migrations("eventhub.store.sqlite"):
        if number <= 12:
            before.execute(script)
    before.execute("INSERT INTO eventhub_meta VALUES ('schema_version', '12')")
    before.execute("INSERT INTO eventhub_routes (queue, tags, priority) VALUES ('work', '', 0)")
    before.execute("INSERT INTO eventhub_events (id, route, type, payload, created_at) VALUES (1, 1, 'a', '1', 0)")
    before.execute("UPDATE eventhub_sequence SET next = 2")
    before.close()
    async with open_store(sqlite_path) as store:
        assert await publish_one(store, now=START) == 2
    theirs = sqlite3.connect(sqlite_path)
    assert theirs.execute("SELECT id, payload FROM eventhub_events ORDER BY id").fetchall() == [
        (1, "1"),
        (2, '{"n":1}'),
    ]
    assert theirs.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    theirs.close()


async def test_no_definition_needs_a_newer_sqlite_than_3_34(sqlite_path: Path) -> None:
    async with open_store(sqlite_path):
        pass
    connection = apsw.Connection(str(sqlite_path))
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    connection.close()
    assert {name: needs(sql) for name, sql in found.items() if needs(sql)} == {}


@pytest.mark.parametrize(("version", "example"), EXAMPLES.items())
def test_a_definition_that_is_too_new_is_noticed(version: str, example: str) -> None:
    assert needs(example) == [version]
