"""Colour and progress are for terminals alone: files, pipes and programs get plain text."""

import json
import re

import pytest

from tests.cli.support import Command, Filled
from tests.cli.terminal import seen

COLOUR = re.compile(r"\x1b\[[\d;]*m")
PAINTED = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-7]|9[0-7]|38;[\d;]+)m")
ESCAPE = "\x1b"


@pytest.fixture
def events(eventhub: Command) -> str:
    """A file of many events, and a database to put them into."""
    assert eventhub("migrate").returncode == 0
    lines = [json.dumps({"type": "order.placed", "payload": {"id": number}}) for number in range(1500)]
    (eventhub.directory / "events.jsonl").write_text("\n".join(lines))
    return "events.jsonl"


def test_a_terminal_gets_colour(eventhub: Command, sqlite_filled: Filled):
    shown = seen(eventhub, "events", "list", "--db", sqlite_filled.url)
    assert shown.returncode == 0
    assert PAINTED.search(shown.stdout)
    assert "COMPLETED" in shown.stdout
    assert COLOUR.search(seen(eventhub, "dlq", "list", "--db", sqlite_filled.url).stdout)


@pytest.mark.parametrize(
    "command", [["events", "list"], ["doctor"], ["stats"], ["--help"], ["events", "list", "--help"]]
)
def test_a_pipe_gets_none_even_when_errors_go_to_a_terminal(
    eventhub: Command, sqlite_filled: Filled, command: list[str]
):
    shown = seen(eventhub, *command, stdout=False, env={"EVENTHUB_DB": sqlite_filled.url})
    assert shown.stdout
    assert ESCAPE not in shown.stdout


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_whoever_wants_no_colour_gets_none(eventhub: Command, sqlite_filled: Filled, env: dict[str, str]):
    for command in (["events", "list"], ["stats"], ["doctor"], ["events", "list", "--log-level", "debug"]):
        shown = seen(eventhub, *command, "--db", sqlite_filled.url, env=env)
        assert shown.returncode == 0
        assert not PAINTED.search(shown.stdout + shown.stderr), command
    if "TERM" in env:
        assert ESCAPE not in shown.stdout + shown.stderr


def test_json_is_the_same_on_a_terminal(eventhub: Command, sqlite_filled: Filled):
    shown = seen(eventhub, "dlq", "list", "--json", "--db", sqlite_filled.url)
    assert json.loads(shown.stdout)["total"] == 4
    assert ESCAPE not in shown.stdout + shown.stderr


def test_a_long_command_shows_how_far_it_is(eventhub: Command, events: str):
    shown = seen(eventhub, "publish", "--file", events, "--db", "eventhub.db", stdout=False)
    assert shown.stdout == "1,500 events published.\n"
    assert "1500/1500" in COLOUR.sub("", shown.stderr)


def test_progress_is_for_terminals(eventhub: Command, events: str):
    command = ("publish", "--file", events, "--db", "eventhub.db")
    piped = seen(eventhub, *command, stderr=False)
    assert (piped.returncode, piped.stderr) == (0, "")
    dumb = seen(eventhub, *command, env={"TERM": "dumb"})
    assert (dumb.returncode, dumb.stderr) == (0, "")
    for_programs = seen(eventhub, *command, "--json")
    assert for_programs.stderr == ""
    assert json.loads(for_programs.stdout)["published"] == 1500


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["migrate"], "Bringing the tables up to date …"),
        (["dlq", "retry", "--all", "--yes"], "dead letters"),
        (["dlq", "retry", "--all", "--limit", "2", "--yes"], "2/2"),
        (["dlq", "purge", "--older-than-days", "0", "--yes"], "4/4"),
        (["dlq", "purge", "--older-than-days", "0", "--by", "created_at", "--yes"], "Deleting dead letters …"),
        (["dlq", "retry", "1", "2"], "0/2"),
        (["dlq", "move", "77"], "1/1"),
        (["pipeline", "synth", "--events", "100", "--yes"], "100/100"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_commands_that_may_take_long_say_what_they_do(
    eventhub: Command, sqlite_filled: Filled, command: list[str], words: str
):
    shown = seen(eventhub, *command, "--db", sqlite_filled.url)
    assert words in COLOUR.sub("", shown.stderr)
    quiet = eventhub(*command, "--db", sqlite_filled.url)
    assert words not in quiet.stdout + quiet.stderr
