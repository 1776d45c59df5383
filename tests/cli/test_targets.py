"""What commands work on: a database or a hub, named once and the same for all of them."""

from pathlib import Path

import pytest

from tests.cli.support import Command, fill
from tests.cli.terminal import seen

HUB = {"EVENTHUB_URL": "http://127.0.0.1:9"}
ON_A_DATABASE = [
    ("events", "list"),
    ("dlq", "list"),
    ("subscribers", "list"),
    ("messages", "list"),
    ("keys", "list"),
    ("stats",),
    ("migrate",),
    ("doctor",),
    ("pipeline", "status"),
]


@pytest.mark.parametrize("arguments", ON_A_DATABASE, ids=" ".join)
def test_a_command_on_a_database_does_not_fall_back_to_the_default_beside_a_hub(
    eventhub: Command, arguments: tuple[str, ...]
) -> None:
    fill(str(eventhub.directory / "eventhub.db"))  # the wrong one
    done = eventhub(*arguments, env=HUB)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert "http://127.0.0.1:9 (from variable EVENTHUB_URL)" in said
    assert "--db or EVENTHUB_DB" in said


def test_a_database_that_is_named_is_used_beside_a_hub(eventhub: Command, sqlite_path: Path) -> None:
    fill(str(sqlite_path))
    for named in ((("--db", str(sqlite_path)), HUB), ((), {**HUB, "EVENTHUB_DB": str(sqlite_path)})):
        arguments, env = named
        assert eventhub.json("events", "list", *arguments, env=env)["events"]


def test_people_are_told_which_database_it_is_unless_they_said_so(eventhub: Command, sqlite_path: Path) -> None:
    fill(str(sqlite_path))
    env = {"EVENTHUB_DB": str(sqlite_path)}
    shown = seen(eventhub, "events", "list", stdout=False, env=env)
    assert "(variable EVENTHUB_DB)" in " ".join(shown.stderr.split())
    assert "database:" not in shown.stdout
    assert "database:" not in seen(eventhub, "events", "list", "--db", str(sqlite_path)).stderr
    assert "database:" not in eventhub("events", "list", env=env).stderr
