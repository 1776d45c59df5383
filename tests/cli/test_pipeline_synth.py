"""``eventhub pipeline synth``: a hub with a past, made at once, and wishes that cannot be fulfilled are refused."""

import pytest

from tests.cli.support import Command


def test_a_history_is_made_and_the_hub_knows_it(eventhub: Command) -> None:
    made = eventhub.json("pipeline", "synth", "--events", "2e3", "--fail", "0.3", "--until", "2026-03-01T00:00Z")
    assert made["events"] == 2000
    assert made["entries"] > 3 * 2000
    known = eventhub.json("events", "list", "--limit", "10000")["events"]
    assert len(known) == 2000
    assert {event["status"] for event in known} == {"COMPLETED", "COMPLETED_WITH_ERRORS", "FAILED"}


def test_a_hub_that_is_used_is_not_mixed_with_made_up_events_unless_it_is_meant(eventhub: Command) -> None:
    few = ("pipeline", "synth", "--events", "10", "--until", "2026-03-01T00:00Z")
    eventhub.json(*few)
    eventhub.json(*few)  # what is made up may become more
    eventhub.json("publish", "--type", "my.own", "--data", "1")
    refused = eventhub(*few)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert len(eventhub.json("events", "list")["events"]) == 21
    eventhub.json(*few, "--yes")
    assert len(eventhub.json("events", "list")["events"]) == 31


@pytest.mark.parametrize(
    "wish", ["--events=0", "--events=1.5", "--days=0", "--subscribers=101", "--fail=0.6", "--seed=-1", "--until=soon"]
)
def test_what_cannot_be_made_is_said(wish: str, capsys: pytest.CaptureFixture[str]) -> None:
    from eventhub.cli import main

    assert main(["pipeline", "synth", wish, "--db", ":memory:"]) == 2
    assert wish.partition("=")[0] in capsys.readouterr().err
