"""The reference of tables, from the migrations of both engines and their comments."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import eventhub.store

MIGRATIONS = {engine: Path(eventhub.store.__file__).parent / engine / "migrations" for engine in ("sqlite", "postgres")}
INTRODUCTION = """# Tables

The tables as all migrations leave them, with the comments of those. SQLite has the prefix `eventhub_`, so that they may
share a file with an application; PostgreSQL has a schema `eventhub`. You may read them; only the hub may write them,
and they may change with a version. Why they are made like this:
[why the tables look so](../explanation/why-the-tables-look-so.md).

In SQLite times are whole microseconds since 1970 in UTC, and booleans are 0 and 1.
"""
STATEMENT = re.compile(r"((?:^--[^\n]*\n)*)^(CREATE|ALTER|DROP)\b(.*?)(?:;\s*$)", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION.*?^\s*(?:END )?\$\$;", re.MULTILINE | re.DOTALL)
NOT_A_COLUMN = ("PRIMARY KEY", "UNIQUE", "CHECK", "FOREIGN KEY")


@dataclass
class Table:
    words: str
    columns: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name → type, and what was said when it was added later."""


@dataclass
class Schema:
    tables: dict[str, Table] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    indexes: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Name → what it is on, and why."""


def page() -> str:
    sqlite, postgres = read("sqlite"), read("postgres")
    parts = [INTRODUCTION]
    for name in dict.fromkeys([*postgres.tables, *sqlite.tables]):
        parts.append(f"## {name}\n")
        known = [schema.tables[name] for schema in (postgres, sqlite) if name in schema.tables]
        parts += [f"{known[0].words}\n"] if known[0].words else []
        if len(known) == 1:
            parts.append(f"Only in {'PostgreSQL' if name in postgres.tables else 'SQLite'}.\n")
        parts.append("| column | PostgreSQL | SQLite | added for |\n|---|---|---|---|")
        for column in dict.fromkeys(column for table in known for column in table.columns):
            (of_postgres, why), (of_sqlite, also) = (_column(schema, name, column) for schema in (postgres, sqlite))
            parts.append(f"| `{column}` | {of_postgres} | {of_sqlite} | {why or also} |")
        parts.append("")
        indexes = [(index, on, why) for index, (on, why) in postgres.indexes.items() if on.startswith(f"{name} ")]
        if indexes:
            parts.append("| index (PostgreSQL) | on | why |\n|---|---|---|")
            parts += [f"| `{index}` | `{on.partition(' ')[2]}` | {why} |" for index, on, why in indexes]
            parts.append("")
    parts.append("## Views\n\n| view | what it is |\n|---|---|")
    parts += [f"| `{name}` | {words} |" for name, words in sorted({**sqlite.views, **postgres.views}.items())]
    return "\n".join(parts) + "\n"


def _column(schema: Schema, table: str, column: str) -> tuple[str, str]:
    return schema.tables[table].columns.get(column, ("–", "")) if table in schema.tables else ("–", "")


def read(engine: str) -> Schema:
    """The schema after all migrations of an engine."""
    schema = Schema()
    for path in sorted(MIGRATIONS[engine].glob("*.sql")):
        text = FUNCTION.sub("", path.read_text())
        said = ""
        for comment, verb, rest in STATEMENT.findall(text):
            statement = " ".join(re.sub(r"--[^\n]*", "", rest).split())
            # A view is dropped and made again under one comment, and several may stand under one.
            said = _words(comment) or (said if statement.startswith("VIEW") else "")
            _apply(schema, verb, statement, said)
    return schema


def _apply(schema: Schema, verb: str, rest: str, words: str) -> None:
    rest = re.sub(r"\beventhub[._]", "", rest)
    if made := re.match(r"TABLE (?:IF NOT EXISTS )?(\w+) \(", rest):
        schema.tables[made[1]] = Table(words, dict(_columns(rest[made.end() :])))
    elif changed := re.match(r"TABLE (\w+) (?:DROP CONSTRAINT \w+, )?(ADD COLUMN .*)", rest):
        for added in re.split(r", (?=ADD COLUMN )", changed[2]):
            _, _, name, kind = added.split(" ", 3)
            schema.tables[changed[1]].columns[name] = (_type(kind), words)
    elif changed := re.match(r"TABLE (\w+) DROP COLUMN (\w+)", rest):
        del schema.tables[changed[1]].columns[changed[2]]
    elif view := re.match(r"VIEW (?:IF EXISTS )?(\w+)", rest):
        schema.views.pop(view[1], None)
        if verb == "CREATE":
            schema.views[view[1]] = words
    elif index := re.match(r"(UNIQUE )?INDEX (?:CONCURRENTLY )?(?:IF (?:NOT )?EXISTS )?(\w+)(?: ON (.*))?", rest):
        schema.indexes.pop(index[2], None)
        if verb == "CREATE":
            schema.indexes[index[2]] = (index[3] + (" UNIQUE" if index[1] else ""), words)
    elif dropped := re.match(r"TABLE (?:IF EXISTS )?(\w+)$", rest):
        schema.tables.pop(dropped[1], None)


def _columns(rest: str) -> list[tuple[str, tuple[str, str]]]:
    """The columns of a table, from what stands behind its opening parenthesis."""
    found, depth, begin = [], 1, 0
    for place, sign in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth == 0 or (depth == 1 and sign == ","):
            found.append(rest[begin:place].strip())
            begin = place + 1
        if depth == 0:
            break
    return [
        (name, (_type(kind), ""))
        for name, _, kind in (text.partition(" ") for text in found if not text.startswith(NOT_A_COLUMN))
    ]


def _type(declared: str) -> str:
    kind = re.split(r" (?:GENERATED|DEFAULT|REFERENCES|COLLATE|PRIMARY|NOT|UNIQUE)\b", declared)[0].lower()
    empty = "NOT NULL" not in declared and "PRIMARY KEY" not in declared and "GENERATED" not in declared
    return f"{kind}, may be empty" if empty else kind


def _words(comment: str) -> str:
    text = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
    return text.replace("``", "`").replace("|", "\\|")
