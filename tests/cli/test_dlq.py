"""`eventhub dlq`, on both engines."""

import asyncio

from eventhub import EventQueue
from tests.cli.support import Command, Filled


def test_list_pages_the_dead_newest_first(eventhub: Command, filled: Filled):
    page = eventhub.json("dlq", "list", "--db", filled.url, "--queue", "bus", "--limit", "2")
    assert [event["id"] for event in page["events"]] == filled.dead[:0:-1]
    assert (page["total"], page["offset"], page["limit"]) == (3, 0, 2)
    rest = eventhub.json("dlq", "list", "--db", filled.url, "--queue", "bus", "--offset", "2")
    assert [event["id"] for event in rest["events"]] == filled.dead[:1]
    assert eventhub.json("dlq", "list", "--db", filled.url)["total"] == 4


def test_list_for_people_says_where_it_stands(eventhub: Command, filled: Filled):
    done = eventhub("dlq", "list", "--db", filled.url, "--limit", "2")
    assert done.returncode == 0
    assert "1 to 2 of 4. Next: --offset 2" in done.stdout
    assert "No dead letters.\n" in eventhub("dlq", "list", "--db", filled.url, "--queue", "none").stdout


def test_show_has_the_error_of_every_attempt(eventhub: Command, filled: Filled):
    shown = eventhub.json("dlq", "show", str(filled.dead[1]), "--db", filled.url)
    assert shown["id"] == filled.dead[1]
    assert shown["reason"] == "retries_exhausted"
    assert len(shown["errors"]) == shown["retry_count"] == 2
    assert shown["dead_at"].endswith("Z")
    done = eventhub("dlq", "show", str(filled.dead[1]), "--db", filled.url)
    assert done.stdout.count("[bold]beyond[/bold]") == 2
    assert f"eventhub dlq retry {filled.dead[1]}" in done.stdout


def test_show_of_an_event_that_lives_says_how_it_is(eventhub: Command, filled: Filled):
    done = eventhub("dlq", "show", str(filled.completed[0]), "--db", filled.url)
    assert done.returncode == 1
    assert done.stderr == f"eventhub: Event {filled.completed[0]} is not in DLQ (status: COMPLETED)\n"
    assert eventhub("dlq", "show", "4242", "--db", filled.url).stderr == "eventhub: Event not found: 4242\n"


def test_retry_makes_events_due_and_keeps_who_did_it(eventhub: Command, filled: Filled):
    chosen = filled.dead[0]
    answer = eventhub.json("dlq", "retry", str(chosen), "--by", "ada", "--db", filled.url)
    assert answer == {"retried": [chosen], "refused": []}
    event = eventhub.json("events", "show", str(chosen), "--db", filled.url)
    assert (event["status"], event["retry_count"], event["errors"]) == ("PENDING", 0, [])
    assert eventhub.json("dlq", "show", str(chosen), "--db", filled.url)["retried_by"] == "ada"


def test_retry_does_what_it_can_and_fails_for_the_rest(eventhub: Command, filled: Filled):
    dead, alive = filled.dead[0], filled.completed[0]
    answer = eventhub.json("dlq", "retry", "4242", str(dead), str(alive), "--db", filled.url, code=1)
    assert answer["retried"] == [dead]
    assert answer["refused"] == [
        {"id": 4242, "error": "Event not found: 4242"},
        {"id": alive, "error": f"Event {alive} is not in DLQ (status: COMPLETED)"},
    ]
    again = eventhub("dlq", "retry", str(dead), "--db", filled.url)
    assert again.returncode == 1
    assert "is not in DLQ (status: PENDING)" in again.stderr


def test_retry_all_may_keep_to_one_queue(eventhub: Command, filled: Filled):
    answer = eventhub.json("dlq", "retry", "--all", "--queue", "bus", "--db", filled.url)
    assert answer == {"count": 3, "dry_run": False}
    assert eventhub.json("dlq", "list", "--db", filled.url)["total"] == 1
    done = eventhub("dlq", "retry", "--all", "--db", filled.url)
    assert (done.returncode, done.stdout) == (0, "Due again: 1.\n")


def test_a_parked_key_of_a_queue_is_seen_and_freed(eventhub: Command, store_url: str):
    first, second = asyncio.run(_park(store_url))
    letter = eventhub.json("dlq", "list", "--db", store_url)["events"][0]
    assert (letter["delivery_id"], letter["queue"], letter["parked"]) == (first, "accounts", True)
    assert "(parked)" in eventhub("dlq", "list", "--db", store_url, env={"COLUMNS": "200"}).stdout
    assert f"eventhub dlq unpark {first}" in eventhub("dlq", "show", str(first), "--db", store_url).stdout
    assert asyncio.run(_poll(store_url)) is None
    done = eventhub("dlq", "unpark", str(first), "--db", store_url)
    assert (done.returncode, done.stdout) == (0, f"The key 'account-7' goes on; the dead letter {first} stays.\n")
    assert asyncio.run(_poll(store_url)) == second
    again = eventhub("dlq", "unpark", str(first), "--db", store_url)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith(f"eventhub: Dead letter {first} holds no ordering key")
    assert eventhub.json("dlq", "list", "--db", store_url)["total"] == 1


def test_a_parked_key_of_a_queue_waits_for_a_retry_of_its_head(eventhub: Command, store_url: str):
    first, _ = asyncio.run(_park(store_url))
    assert eventhub("dlq", "retry", str(first), "--db", store_url).returncode == 0
    assert asyncio.run(_poll(store_url)) == first


async def _park(url: str) -> list[int]:
    """Two events of one key, of which the first is dead and holds it."""
    async with EventQueue(url, queue="accounts", on_dead="park") as queue:
        numbers = [(await queue.publish("account.changed", n, ordering_key="account-7")).id for n in (1, 2)]
        await queue.poll()
        await queue.finalize(numbers[0], success=False)
    return numbers


async def _poll(url: str) -> int | None:
    async with EventQueue(url, queue="accounts", on_dead="park") as queue:
        event = await queue.poll()
    return None if event is None else event.id


def test_purge_deletes_by_age(eventhub: Command, filled: Filled):
    assert eventhub.json("dlq", "purge", "--older-than-days", "1", "--yes", "--db", filled.url) == {"purged": 0}
    by_queue = ("dlq", "purge", "--older-than-days", "0", "--queue", "jobs", "--by", "created_at", "--yes")
    assert eventhub.json(*by_queue, "--db", filled.url) == {"purged": 1}
    done = eventhub("dlq", "purge", "--older-than-days", "0", "--yes", "--db", filled.url)
    assert done.stdout == "3 dead letters deleted.\n"
    assert eventhub.json("dlq", "list", "--db", filled.url)["total"] == 0


def test_purge_asks_first(eventhub: Command, filled: Filled):
    done = eventhub("dlq", "purge", "--older-than-days", "0", "--db", filled.url, stdin="y\n")
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert eventhub.json("dlq", "list", "--db", filled.url)["total"] == 4


def test_what_makes_no_sense_is_a_usage_error(eventhub: Command, sqlite_filled: Filled):
    for arguments in (
        ["retry"],
        ["retry", "1", "--all"],
        ["retry", "1", "--queue", "bus"],
        ["retry", "one"],
        ["list", "--limit", "0"],
        ["list", "--offset", "-1"],
        ["purge", "--yes"],
        ["purge", "--older-than-days", "-1", "--yes"],
        ["purge", "--older-than-days", "nan", "--yes"],
        ["purge", "--older-than-days", "0", "--by", "birth", "--yes"],
    ):
        done = eventhub("dlq", *arguments, "--db", sqlite_filled.url)
        assert (done.returncode, done.stdout) == (2, ""), arguments
        assert done.stderr.startswith("eventhub: ")
        assert "Traceback" not in done.stderr
    assert eventhub.json("dlq", "list", "--db", sqlite_filled.url)["total"] == 4
