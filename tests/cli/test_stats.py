"""`eventhub stats` and `eventhub migrate`, on both engines."""

from tests.cli.support import Command, Filled


def test_stats_count_every_queue(eventhub: Command, filled: Filled):
    bus, jobs = eventhub.json("stats", "--db", filled.url)["queues"]
    assert (bus["queue"], jobs["queue"]) == ("bus", "jobs")
    assert bus["depth"] == {
        "PENDING": 0,
        "PROCESSING": 0,
        "COMPLETED": 2,
        "COMPLETED_WITH_ERRORS": 0,
        "FAILED": 3,
    }
    assert jobs["depth"]["PENDING"] == jobs["depth"]["PROCESSING"] == jobs["depth"]["COMPLETED_WITH_ERRORS"] == 1
    assert bus["failure_rate"] == 0.75


def test_stats_for_people(eventhub: Command, filled: Filled):
    done = eventhub("stats", "--db", filled.url)
    assert done.returncode == 0
    assert "75.0%" in done.stdout
    assert "open work by age" not in done.stdout
    detailed = eventhub("stats", "--queue", "jobs", "--db", filled.url)
    assert "open work by age" in detailed.stdout
    assert "bus" not in detailed.stdout


def test_stats_of_an_empty_store(eventhub: Command, store_url: str):
    eventhub("migrate", "--db", store_url)
    assert eventhub("stats", "--db", store_url).stdout == "No events yet.\n"
    assert eventhub.json("stats", "--db", store_url) == {"queues": []}


def test_a_queue_without_events_is_told_with_those_that_have_some(eventhub: Command, filled: Filled):
    done = eventhub("stats", "--queue", "nope", "--db", filled.url)
    assert (done.returncode, done.stdout) == (0, "No events in the queue nope. There are some in: bus, jobs.\n")
    (nope,) = eventhub.json("stats", "--queue", "nope", "--db", filled.url)["queues"]
    assert (nope["queue"], set(nope["depth"].values())) == ("nope", {0})


def test_migrate_creates_the_tables_and_may_be_repeated(eventhub: Command, store_url: str):
    made = eventhub.json("migrate", "--db", store_url)
    assert made["engine"] in ("SQLite", "PostgreSQL")
    assert made["schema"] >= 1
    assert eventhub.json("migrate", "--db", store_url) == made
    assert f"version {made['schema']}" in eventhub("migrate", "--db", store_url).stdout
