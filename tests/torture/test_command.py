"""`eventhub torture`: a short run on each engine is clean, can be judged again, and a planted lie is found."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from eventhub.blocking import EventQueue
from eventhub.cli import main
from eventhub.testing.torture import run as running
from eventhub.testing.torture.checker import Judgement, Verdict
from eventhub.testing.torture.evidence import gather
from eventhub.testing.torture.history import History
from eventhub.testing.torture.run import Result

SEED = os.environ.get("EVENTHUB_SEED", "20260115")
KILLS = 45
SECONDS = 14


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main(["torture", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


def examples(document: dict[str, Any]) -> list[str]:
    return [example for judgement in document["judgements"] for example in judgement["examples"]]


@pytest.mark.alone
@pytest.mark.timeout(300)
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_short_run_is_clean_and_its_evidence_can_be_judged_again(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    wanted = ("--engine", engine, "--minutes", str(SECONDS / 60), "--kills", str(KILLS), "--seed", SEED)
    code, told = run(capsys, *wanted, "--directory", str(tmp_path / "run"))
    assert (examples(told), told["incomplete"]) == ([], None)
    assert (code, told["clean"]) == (0, True)
    figures = told["figures"]
    assert KILLS >= figures["kills"] >= 40
    assert figures["acknowledged"] > 500
    assert figures["messages"] > 100
    assert figures["events in the lake"] == figures["events"]
    assert figures["log rows in the lake"] > figures["events"]
    assert figures["duplicates"] == figures["duplicates explained"]

    evidence = tmp_path / "run" / "evidence.db"
    code, again = run(capsys, "verify", str(evidence))
    assert (code, again["figures"]) == (0, figures)
    lose_one(evidence)
    code, lie = run(capsys, "verify", str(evidence))
    assert code == 1
    assert (lie["clean"], lie["figures"]["lost"]) == (False, 1)


def lose_one(evidence: Path) -> None:
    """As if the last event that was acknowledged were not there, nor anything of the store that tells of it."""
    connection = apsw.Connection(str(evidence))
    ((event,),) = connection.execute("SELECT max(id) FROM records WHERE op = 'publish' AND kind = 'ok'")
    for statement in (
        "DELETE FROM events WHERE id = ?",
        "DELETE FROM log WHERE event_id = ?",
        "DELETE FROM dead_letters WHERE event_id = ?",
    ):
        connection.execute(statement, (event,))
    connection.close()


def test_power_is_lost_at_full_without_a_loss_and_at_normal_with_one(capsys: pytest.CaptureFixture[str]):
    code, told = run(capsys, "power-loss", "--images", "60", "--calls", "60")
    assert (code, told["clean"]) == (0, True)
    assert told["FULL"]["lost"] == 0 < told["NORMAL"]["lost"]


def test_nothing_is_begun_that_cannot_be_done(capsys: pytest.CaptureFixture[str]):
    assert main(["torture", "--faults", "postgres-crash"]) == 2
    assert "Cannot do postgres-crash here" in capsys.readouterr().err
    assert main(["torture", "--db", "app.db"]) == 2
    assert main(["torture", "--minutes", "0"]) == 2
    assert main(["torture", "verify", "nowhere.db"]) == 2


def test_a_database_that_is_in_use_is_left_alone(postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with EventQueue(postgres_url) as queue:
        queue.publish("order.placed", {"id": 7})
    assert main(["torture", "--db", postgres_url, "--directory", str(tmp_path / "run")]) == 2
    assert "is in use: there is something in events" in capsys.readouterr().err


@pytest.mark.parametrize(("interrupted", "expected"), [(False, 1), (True, 130)])
def test_a_run_that_broke_off_ends_neither_clean_nor_as_a_violation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, interrupted: bool, expected: int
):
    judged = Judgement(number=14, name="", words="", violations=2, rules={"broken_off": 1, "unsettled": 1})
    verdict = Verdict(judgements=[judged], figures={}, facts={"incomplete": "LookupError: x"}, seconds=0)

    async def broken_off(*_: object) -> Result:
        return Result(verdict=verdict, evidence="", incomplete="LookupError: x", interrupted=interrupted)

    monkeypatch.setattr(running, "torture", broken_off)
    assert main(["torture"]) == expected
    told = capsys.readouterr()
    assert "NOT PROVED" in told.out
    assert "VIOLATED" not in told.out
    assert ("interrupted" if interrupted else "The run broke off: LookupError: x") in told.err
    assert main(["torture", "--json"]) == expected
    document = json.loads(capsys.readouterr().out)
    assert (document["clean"], document["incomplete"]) == (False, "LookupError: x")


def test_whoever_died_or_wrote_errors_is_in_the_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """What a run says of itself is what is said when its evidence is judged again."""
    evidence = tmp_path / "evidence.db"
    with History(tmp_path, "orders") as orders:
        orders.note("died", worker="worker-a.1")
        orders.note("stuck", worker="server-a.1", error="not within 45 s")
    asyncio.run(gather(tmp_path, str(tmp_path / "hub.db"), evidence, facts={"errors": "Traceback"}))
    code, told = run(capsys, "verify", str(evidence))
    assert (code, told["clean"]) == (1, False)
    assert told["judgements"][13]["examples"] == [
        "died_alone: worker-a.1 ended by itself",
        "stuck: server-a.1 did not end: not within 45 s",
        "wrote_errors: processes wrote errors, the last of them: Traceback",
    ]
    assert main(["torture", "verify", str(evidence)]) == 1
    assert "VIOLATED" in capsys.readouterr().out


def test_the_matrix_can_be_seen(capsys: pytest.CaptureFixture[str]):
    code, rows = run(capsys, "--faults", "list")
    assert (code, [row["number"] for row in rows]) == (0, [*range(1, 31), 33])
