"""`eventhub events`, on both engines, for people and for programs."""

import re

from tests.cli.support import Command, Filled

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def test_list_shows_every_event_newest_first(eventhub: Command, filled: Filled):
    listed = eventhub.json("events", "list", "--db", filled.url)
    ids = [event["id"] for event in listed["events"]]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 8
    assert listed["next_before"] is None
    assert {event["status"] for event in listed["events"]} == {
        "PENDING",
        "PROCESSING",
        "COMPLETED",
        "COMPLETED_WITH_ERRORS",
        "FAILED",
    }
    assert all(RFC_3339.fullmatch(event["created_at"]) for event in listed["events"])


def test_list_for_people_is_a_plain_table_when_piped(eventhub: Command, filled: Filled):
    done = eventhub("events", "list", "--db", filled.url)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "\x1b" not in done.stdout
    assert "COMPLETED_WITH_ERRORS" in done.stdout
    assert '{"id":3}' in done.stdout


def test_every_filter_must_fit(eventhub: Command, filled: Filled):
    for options, expected in (
        (["--status", "PENDING"], 1),
        (["--status", "processing"], 1),
        (["--status", "completed-with-errors"], 1),
        (["--status", "FAILED", "--type", "bad.thing"], 3),
        (["--status", "FAILED", "--queue", "jobs"], 0),
        (["--type", "user.created"], 2),
    ):
        found = eventhub.json("events", "list", "--db", filled.url, *options)["events"]
        assert len(found) == expected, options


def test_work_is_listed_by_any_of_its_tags(eventhub: Command, store_url: str):
    assert eventhub("migrate", "--db", store_url).returncode == 0
    made = [
        eventhub.json("publish", "--db", store_url, "--tags", tags)["id"] for tags in ("email,fast", "sms", "email-old")
    ]
    for tags, expected in (("email", made[:1]), ("sms, fast", made[:2]), ("none", [])):
        found = eventhub.json("events", "list", "--db", store_url, "--tags", tags)["events"]
        assert sorted(event["id"] for event in found) == expected
    for wrong in (",", "a b"):
        done = eventhub("events", "list", "--db", store_url, "--tags", wrong)
        assert (done.returncode, done.stdout, done.stderr.startswith("eventhub: --tags")) == (2, "", True)


def test_pages_follow_each_other_without_overlap(eventhub: Command, filled: Filled):
    first = eventhub.json("events", "list", "--db", filled.url, "--limit", "5")
    rest = eventhub.json("events", "list", "--db", filled.url, "--before", str(first["next_before"]))
    seen = [event["id"] for event in first["events"] + rest["events"]]
    assert len(seen) == len(set(seen)) == 8
    done = eventhub("events", "list", "--db", filled.url, "--limit", "5")
    assert f"--before {first['next_before']}" in done.stdout


def test_show_tells_everything_about_one_event(eventhub: Command, filled: Filled):
    shown = eventhub.json("events", "show", str(filled.dead[0]), "--db", filled.url, "--log")
    assert shown["metadata"] == {"source": "test"}
    assert shown["payload"] == {"id": 1}
    assert len(shown["errors"]) == 2
    actions = [entry["action"] for entry in shown["log"]]
    assert actions[0] == "PUBLISHED"
    assert actions[-1] == "DEAD"
    assert "log" not in eventhub.json("events", "show", str(filled.dead[0]), "--db", filled.url)


def test_show_for_people_neither_obeys_nor_hides_what_came_from_outside(eventhub: Command, filled: Filled):
    done = eventhub("events", "show", str(filled.dead[0]), "--log", "--db", filled.url)
    assert done.returncode == 0
    assert "[bold]beyond[/bold]" in done.stdout
    assert "\\x1b[31m" in done.stdout
    assert "\x1b" not in done.stdout
    assert "PICKED" in done.stdout


def test_an_unknown_id_is_one_clear_line(eventhub: Command, sqlite_filled: Filled):
    for unknown in ("0", "999999", str(2**63), "-1"):
        done = eventhub("events", "show", "--db", sqlite_filled.url, "--", unknown)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"eventhub: Event not found: {unknown}\n"


def test_a_store_without_events_says_so(eventhub: Command, store_url: str):
    assert eventhub("migrate", "--db", store_url).returncode == 0
    assert eventhub("events", "list", "--db", store_url).stdout == "No events.\n"
    assert eventhub.json("events", "list", "--db", store_url) == {"events": [], "next_before": None}


def test_list_by_time_takes_a_time_or_how_long_ago(eventhub: Command, filled: Filled):
    def listed(*options: str) -> list[int]:
        return [event["id"] for event in eventhub.json("events", "list", *options, "--db", filled.url)["events"]]

    everything = eventhub.json("events", "list", "--db", filled.url)["events"]
    middle = everything[4]
    newer = [event["id"] for event in everything if event["created_at"] >= middle["created_at"]]
    older = [event["id"] for event in everything if event["created_at"] <= middle["created_at"]]
    assert listed("--since", middle["created_at"]) == newer
    assert listed("--until", middle["created_at"]) == older
    assert len(listed("--since", "1h")) == 8
    assert listed("--until", "1h") == []
    wrong = eventhub("events", "list", "--since", "soon", "--db", filled.url)
    assert (wrong.returncode, "--since is 'soon'" in wrong.stderr) == (2, True)
