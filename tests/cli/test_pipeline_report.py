"""``eventhub pipeline report``: a file for people and one for programs, from the lake alone if need be."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventhub.cli import main
from eventhub.lake.place import Lake
from tests.pipeline.test_report import HOSTILE, LAST, counted, put


@pytest.fixture
def lake(tmp_path: Path) -> str:
    made = Lake(str(tmp_path / "lake"))
    numbers = {"published": 5, "attempts": 4, "succeeded": 3, "failed": 1}
    rows = [counted(dimension, name, LAST.date(), **numbers) for dimension, name in (("all", ""), ("type", HOSTILE[0]))]
    put(made, "marts/daily", rows)
    return made.url


def report(lake: str, tmp_path: Path, *more: str) -> int:
    return main(["pipeline", "report", "--lake", lake, "--db", str(tmp_path / "none.db"), *more])


def test_both_files_are_written_without_a_database(lake: str, tmp_path: Path, capsys: Any) -> None:
    assert report(lake, tmp_path, "--out", str(tmp_path / "r.html"), "--json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == json.loads((tmp_path / "r.json").read_text())
    assert json.loads(shown.out)["types"][0]["failure_rate"] == 0.25
    assert "told by their ids" in shown.err
    assert HOSTILE[0] not in (tmp_path / "r.html").read_text()
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        (["--out", "report.txt"], "ends in .html"),
        (["--out", "nowhere/report.html"], "no directory"),
        (["--days", "0"], "--days is 0"),
        (["--stale", "soon"], "--stale is 'soon'"),
    ],
)
def test_what_cannot_be_is_said(wish: list[str], words: str, lake: str, tmp_path: Path, capsys: Any) -> None:
    assert report(lake, tmp_path, *wish) == 2
    assert words in capsys.readouterr().err


def test_an_empty_lake_is_named(tmp_path: Path, capsys: Any) -> None:
    assert report(str(tmp_path / "empty"), tmp_path, "--out", str(tmp_path / "r.html")) == 1
    assert "eventhub pipeline run" in capsys.readouterr().err
