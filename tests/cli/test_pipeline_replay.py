"""`eventhub pipeline replay`: what is wrong with the options is said before any Spark is started."""

import json
from pathlib import Path

import pytest

from eventhub.cli.pipeline.replay import _print_counts, _print_done
from eventhub.pipeline.replaying import Replayed
from tests.cli.support import Command


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rate", "0"), "--rate is 0.0"),
        (("--rate", "nan"), "--rate is nan"),
        (("--name", "a b"), "The name 'a b' cannot be used"),
        (("--ids", "1,x"), "--ids is '1,x'"),
        (("--since", "soon"), "--since is 'soon'"),
        (("--to-subscriber", "nobody"), "there is no such subscriber. There are: none."),
        (("--conf", "spark.executor.memory"), "--conf is 'spark.executor.memory'"),
        (("--db", ":memory:"), "cannot be shared with Spark's tasks"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_wrong_options_are_refused(eventhub: Command, sqlite_path: Path, options: tuple[str, ...], words: str) -> None:
    db = () if "--db" in options else ("--db", str(sqlite_path))
    assert eventhub("migrate", "--db", str(sqlite_path)).returncode == 0
    done = eventhub("pipeline", "replay", *options, *db)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert "Spark" not in done.stderr.partition("eventhub:")[0]


def test_what_was_done_is_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    _print_counts({"a": 2, "b": 1}, "again", json=True)
    expected = {"name": "again", "dry_run": True, "events": 3, "types": {"a": 2, "b": 1}}
    assert json.loads(capsys.readouterr().out) == expected
    _print_done(Replayed(events=3, duplicates=1), "again", 0.5, json=True)
    assert json.loads(capsys.readouterr().out) == {"name": "again", "events": 3, "duplicates": 1, "seconds": 0.5}
