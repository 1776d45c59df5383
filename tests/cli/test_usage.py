"""What holds for every command: exit codes, clear errors, where options may stand, what a start costs."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from eventhub import __version__
from eventhub.cli import GROUPS, build_app
from tests.cli.support import EVENTHUB, Command, Filled
from tests.postgres_cluster import PostgresCluster

NOWHERE = "postgresql://someone:secret@127.0.0.1:1/nothing"


@pytest.fixture
def eventhub(tmp_path: Path) -> Command:
    """The program that was installed, started as a shell would."""
    directory = tmp_path / "work"
    directory.mkdir()
    return Command(directory, afresh=True)


def test_version_and_help(eventhub: Command):
    assert eventhub("--version").stdout == f"{__version__}\n"
    done = eventhub("--help")
    assert done.returncode == 0
    for group, purpose in GROUPS.items():
        if group in build_app():
            assert group in done.stdout
            assert purpose in done.stdout
    assert "--older-than-days" in eventhub("dlq", "purge", "--help").stdout


def test_help_needs_neither_a_database_driver_nor_a_command_module():
    script = """
        import sys
        from eventhub.cli import main
        assert main(["--help"]) == 0
        heavy = {"apsw", "asyncpg", "eventhub.cli.demo", "eventhub.cli.doctor", "eventhub.bench"}
        sys.exit(", ".join(sorted(heavy & sys.modules.keys())) or 0)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["evnts"],
        ["events", "lst"],
        ["events", "list", "--nope"],
        ["events", "list", "--status", "SLEEPING"],
        ["events", "list", "--limit", "0"],
        ["events", "list", "--limit", "many"],
        ["events", "list", "--before", "0"],
        ["events", "show"],
        ["events", "show", "first"],
        ["stats", "--pool-size", "0"],
        ["stats", "--synchronous", "off"],
        ["stats", "--db", "mysql://host/db"],
        ["demo", "--events", "0"],
    ],
)
def test_a_wrong_call_says_what_is_wrong_and_exits_with_2(eventhub: Command, arguments: list[str]):
    done = eventhub(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("eventhub: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["evnts"], "eventhub"),
        (["events", "lst"], "eventhub events"),
        (["events", "list", "--nope"], "eventhub events list"),
        (["--db", "a.db", "events", "show"], "eventhub events show"),
        (["demo", "serv"], "eventhub demo"),
    ],
)
def test_a_wrong_call_names_help_that_there_is(eventhub: Command, arguments: list[str], command: str):
    assert eventhub(*arguments).stderr.splitlines()[1:] == [f"Try: {command} --help"]
    assert eventhub(*command.split()[1:], "--help").returncode == 0


def test_looking_creates_no_database(eventhub: Command):
    for arguments in (["events", "list"], ["dlq", "list"], ["stats"], ["doctor"]):
        done = eventhub(*arguments)
        assert done.returncode == 1, arguments
        assert "There is no database at eventhub.db" in done.stderr + done.stdout
    assert list(eventhub.directory.iterdir()) == []


def test_common_options_may_stand_before_the_command(eventhub: Command, sqlite_filled: Filled):
    before = eventhub("--db", sqlite_filled.url, "--json", "stats", "--queue", "bus")
    after = eventhub("stats", "--queue", "bus", "--json", f"--db={sqlite_filled.url}")
    assert before.returncode == after.returncode == 0
    assert before.stdout.splitlines()[:3] == after.stdout.splitlines()[:3]


def test_the_database_comes_from_the_variable_too(eventhub: Command, sqlite_filled: Filled):
    assert eventhub.json("dlq", "list", env={"EVENTHUB_DB": sqlite_filled.url})["total"] == 4


def test_a_database_that_is_down_is_one_line_without_the_password(eventhub: Command):
    for command in (["events", "list"], ["dlq", "list"], ["stats"], ["migrate"], ["demo"]):
        named = ["--db", NOWHERE] if command == ["demo"] else []
        done = eventhub(*command, *named, env={"EVENTHUB_DB": NOWHERE})
        assert (done.returncode, done.stdout.count("✓")) == (1, 0), command
        assert done.stderr.count("\n") == 1 + bool(named), "with --db a warning comes first"
        assert "secret" not in done.stderr + done.stdout
        assert "Traceback" not in done.stderr


def test_debug_shows_where_an_error_came_from(eventhub: Command):
    done = eventhub("stats", "--debug", "--db", NOWHERE)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "StoreUnavailable" in done.stderr


def test_without_the_driver_the_error_names_the_package(eventhub: Command, tmp_path: Path):
    (tmp_path / "asyncpg.py").write_text("raise ImportError('not installed')")
    done = eventhub("stats", "--db", NOWHERE, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 1
    assert "pip install 'eventhub[postgres]'" in done.stderr


def test_a_file_that_is_no_database_is_not_touched(eventhub: Command):
    path = eventhub.directory / "notes.txt"
    path.write_text("not a database, but long enough to be looked at by anyone who opens it" * 20)
    content = path.read_bytes()
    done = eventhub("stats", "--db", "notes.txt")
    assert done.returncode == 1
    assert "notes.txt is not an SQLite database" in done.stderr
    assert path.read_bytes() == content


def test_a_directory_is_no_database(eventhub: Command):
    for command in ("stats", "migrate"):
        done = eventhub(command, "--db", ".")
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("eventhub: Cannot open .: it is a directory. Give the path of a file, such as")


def test_processes_that_share_no_port_are_started_one_by_one(eventhub: Command):
    done = eventhub("serve", "--roles", "dispatcher", "--workers", "4")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("eventhub: workers is 4, but")
    assert "role api" in done.stderr
    assert list(eventhub.directory.iterdir()) == []


def test_a_directory_that_is_missing_is_named(eventhub: Command):
    done = eventhub("migrate", "--db", "nowhere/hub.db")
    assert done.returncode == 1
    assert "nowhere" in done.stderr


def test_a_read_only_server_cannot_be_migrated(eventhub: Command, postgres: PostgresCluster, bare_postgres_url: str):
    name = bare_postgres_url.partition("@/")[2].partition("?")[0]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    done = eventhub("migrate", "--db", bare_postgres_url)
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_newer_database_is_left_alone(eventhub: Command, postgres: PostgresCluster, bare_postgres_url: str):
    name = bare_postgres_url.partition("@/")[2].partition("?")[0]
    assert eventhub("migrate", "--db", bare_postgres_url).returncode == 0
    postgres.execute("UPDATE eventhub.meta SET value = '999' WHERE key = 'schema_version'", database=name)
    done = eventhub("stats", "--db", bare_postgres_url)
    assert done.returncode == 1
    assert "version 999" in done.stderr
    assert "Upgrade eventhub" in done.stderr


def test_a_reader_that_leaves_early_is_no_error(eventhub: Command, sqlite_filled: Filled):
    for form in ([], ["--json"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [EVENTHUB, "events", "list", "--db", sqlite_filled.url, *form],
            cwd=eventhub.directory,
            env=eventhub.environment,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_password_on_the_command_line_is_warned_of_and_not_repeated(eventhub: Command):
    done = eventhub("stats", "--db", "postgresql://u:hunter2@127.0.0.1:1/none")
    assert "visible_to_others" in done.stderr
    assert "EVENTHUB_DB or a password file (PGPASSFILE)" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    quiet = eventhub("stats", env={"EVENTHUB_DB": "postgresql://u:hunter2@127.0.0.1:1/none"})
    assert "visible_to_others" not in quiet.stderr
