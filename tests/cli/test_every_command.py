"""What is promised of every command holds for every command: JSON for programs, exit codes, and words on errors."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from eventhub.cli import EXIT_CODES, main
from tests.cli.hub_support import ADDRESS, Mailed, mail
from tests.cli.support import EVENTHUB, Command, fill
from tests.cli.walking import commands, flags

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli-conventions.md"
EVERY = commands()
NO_DOCUMENT = {
    "serve": "runs until it is stopped",
    "demo serve": "runs until it is stopped",
    "worker": "runs until it is stopped",
    "completion": "its output is a script",
}
ELSEWHERE = {
    "demo": "tests/cli/test_demo.py",
    "listen": "tests/cli/test_listen.py",
    "bench": "tests/bench/test_bench.py",
    "torture": "tests/torture/test_command.py",
    "torture verify": "tests/torture/test_command.py",
    "torture power-loss": "tests/torture/test_command.py",
    "pipeline run": "tests/cli/test_pipeline_run.py",
    "pipeline status": "tests/cli/test_pipeline_run.py",
    "pipeline synth": "tests/cli/test_pipeline_synth.py",
    "pipeline archive": "tests/cli/test_pipeline_archive.py",
    "pipeline restore": "tests/cli/test_pipeline_archive.py",
    "pipeline replay": "tests/cli/test_pipeline_replay.py",
    "pipeline report": "tests/cli/test_pipeline_report.py",
    "torture simulate": "tests/simulation/test_simulation.py",
}
"""Commands that need a server, a lake or time to succeed; their documents are looked at there."""
WITHOUT_DATABASE = {
    "listen",
    "bench",
    "torture",
    "torture verify",
    "torture power-loss",
    "completion",
    "serve",
    "demo",
    "demo serve",
    "worker",
    "torture simulate",
}


def calls(mailed: Mailed, key: str) -> list[tuple[str, ...]]:
    """Every command in a call that works, in an order in which each finds what it needs."""
    dead, waiting, event = str(mailed.dead), str(mailed.waiting), str(mailed.event)
    return [
        ("migrate",),
        ("doctor",),
        ("restored",),
        ("audit",),
        ("stats",),
        ("publish", "--tags", "email"),
        ("publish", "--file", "events.jsonl"),
        ("events list",),
        ("events show", event),
        ("events show", event, "--log"),
        ("subscribers list",),
        ("subscribers show", "billing"),
        ("subscribers add", "audit", "--url", ADDRESS),
        ("subscribers edit", "audit", "--timeout", "3"),
        ("subscribers pause", "audit"),
        ("subscribers resume", "audit"),
        ("subscribers disable", "audit"),
        ("subscribers enable", "audit"),
        ("subscribers rotate-secret", "audit"),
        ("subscribers test", "audit", "--wait", "0"),
        ("subscribers stats", "billing"),
        ("subscribers keys", "shipping"),
        ("subscribers retry-key", "shipping", "b"),
        ("subscribers skip-key", "shipping", "b"),
        ("subscribers unpark-key", "shipping", "a"),
        ("subscribers remove", "audit", "--yes"),
        ("messages list",),
        ("messages show", dead),
        ("messages retry", waiting),
        ("messages dead-letter", waiting),
        ("messages dead-letter", str(mailed.behind)),
        ("dlq unpark", str(mailed.behind)),
        ("messages cancel", str(mailed.pending)),
        ("dlq list",),
        ("dlq show", dead),
        ("dlq retry", dead),
        ("dlq retry", "--all"),
        ("dlq retry", "--all", "--dry-run"),
        ("dlq move", dead),
        ("dlq purge", "--older-than-days", "0", "--yes"),
        ("keys create", "mailer", "--scopes", "publish"),
        ("keys list",),
        ("keys rotate", key),
        ("keys revoke", key),
    ]


def test_every_command_that_prints_data_prints_json_too(eventhub: Command, sqlite_path: Path):
    mailed = mail(eventhub, str(sqlite_path))
    (eventhub.directory / "events.jsonl").write_text('{"type": "order.placed", "payload": 1}\n')
    environment = {"EVENTHUB_DB": mailed.url}
    key = eventhub.json("keys", "create", "first", "--scopes", "read", env=environment)["id"]
    called = set()
    for name, *arguments in calls(mailed, key):
        done = eventhub(*name.split(), *arguments, "--json", env=environment)
        assert done.returncode == 0, f"{name}: {done.stderr}"
        assert isinstance(json.loads(done.stdout), dict), name
        called.add(name)
    assert called | NO_DOCUMENT.keys() | ELSEWHERE.keys() == EVERY.keys()


@pytest.mark.parametrize("name", EVERY)
def test_json_can_be_asked_for_where_there_is_data(name: str):
    if name in ELSEWHERE:
        text = (Path(__file__).parents[2] / ELSEWHERE[name]).read_text()
        assert name.rsplit(maxsplit=1)[-1] in text
        assert "json" in text
    if name not in NO_DOCUMENT:
        assert "--json" in flags(EVERY[name])


def test_where_there_is_none_it_is_refused(eventhub: Command):
    for command in (["serve"], ["worker", "--tags", "a", "--", "true"]):
        done = eventhub(*command[:1], "--json", *command[1:])
        assert (done.returncode, done.stdout) == (2, "")
        assert "--log-format json" in done.stderr


# ------------------------------------------------------------------ exit codes


def test_the_page_has_the_codes_that_there_are():
    told = dict(re.findall(r"^\| `(\d+)` \| (.+?) \|$", PAGE.read_text(), re.MULTILINE))
    assert {int(code): meaning for code, meaning in told.items()} == EXIT_CODES


@pytest.mark.parametrize("name", EVERY)
def test_2_is_a_wrong_call_of_every_command(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    assert main([*name.split(), "--no-such-option"]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.startswith("eventhub: ")) == ("", True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", EVERY)
def test_0_is_help_for_every_command(name: str, capsys: pytest.CaptureFixture[str]):
    assert main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr()
    assert (shown.out.startswith("Usage: eventhub"), shown.err) == (True, "")


def test_1_is_a_database_that_is_not_there_for_every_command_that_needs_one(eventhub: Command, sqlite_path: Path):
    mailed = mail(eventhub, str(sqlite_path))
    (eventhub.directory / "events.jsonl").write_text('{"type": "order.placed"}\n')
    history = [
        ("pipeline synth", "--events", "10"),
        ("pipeline run", "--only", "copy"),
        ("pipeline status",),
        ("pipeline archive",),
        ("pipeline restore", "--day", "2000-01-01"),
        ("pipeline replay",),
    ]
    tried = set()
    for name, *arguments in [*calls(mailed, "none"), *history]:
        done = eventhub(*name.split(), *arguments, "--db", "/nowhere/at/all.db")
        assert done.returncode == 1, f"{name}: {done.stderr}"
        assert "Traceback" not in done.stderr
        tried.add(name)
    assert tried | WITHOUT_DATABASE | {"pipeline report"} == EVERY.keys()


def test_1_is_also_what_was_found_to_be_wrong(eventhub: Command, sqlite_path: Path):
    filled = fill(str(sqlite_path))
    for command in (
        ["events", "show", "4242"],
        ["dlq", "retry", str(filled.completed[0])],
        ["publish", "--type", "a b"],
        ["subscribers", "show", "nobody"],
        ["keys", "revoke", "nobody"],
    ):
        done = eventhub(*command, "--db", filled.url)
        assert (done.returncode, done.stdout.replace("None retried.\n", "")) == (1, ""), command
        assert done.stderr.startswith("eventhub: ")


def test_130_is_an_interruption(eventhub: Command, sqlite_path: Path):
    assert eventhub("migrate", "--db", str(sqlite_path)).returncode == 0
    reading, writing = os.pipe()
    with subprocess.Popen(
        [EVENTHUB, "publish", "--file", "-", "--db", str(sqlite_path)],
        cwd=eventhub.directory,
        env=eventhub.environment,
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        os.close(reading)
        os.write(writing, b'{"type": "a", "payload": "' + b"x" * 60_000 + b'"}\n' * 2)
        os.write(writing, b" " * 60_000)  # more than a pipe holds: it has begun to read
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60)
        os.close(writing)
    assert (running.returncode, errors) == (130, "eventhub: interrupted\n")
