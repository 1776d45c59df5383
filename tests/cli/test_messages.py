"""`eventhub messages`, and the dead letters of subscribers, on both engines."""

from pathlib import Path
from typing import Any, get_args

import pytest

from eventhub.cli.dead_filters import ReasonName
from eventhub.core.lifecycle import Reason
from tests.cli.hub_support import ADDRESS, Mailed, mail
from tests.cli.support import Command


@pytest.fixture
def mailed(eventhub: Command, store_url: str) -> Mailed:
    return mail(eventhub, store_url)


@pytest.fixture
def sqlite_mailed(eventhub: Command, sqlite_path: Path) -> Mailed:
    """The same on SQLite alone, where the engine makes no difference."""
    return mail(eventhub, str(sqlite_path))


def listed(eventhub: Command, mailed: Mailed, *arguments: str) -> list[int]:
    return [each["id"] for each in eventhub.json("messages", "list", *arguments, "--db", mailed.url)["messages"]]


def shown(eventhub: Command, mailed: Mailed, message_id: int) -> Any:
    return eventhub.json("messages", "show", str(message_id), "--db", mailed.url)


def test_list_has_every_message_newest_first(eventhub: Command, mailed: Mailed):
    of_billing = [mailed.pending, mailed.waiting, mailed.dead, mailed.delivered]
    of_shipping = [mailed.held, mailed.behind, mailed.parked]
    assert listed(eventhub, mailed) == of_shipping + of_billing
    assert listed(eventhub, mailed, "--subscriber", "billing") == of_billing
    assert listed(eventhub, mailed, "--subscriber", str(mailed.shipping)) == of_shipping
    assert listed(eventhub, mailed, "--status", "failed") == [mailed.parked, mailed.dead]
    assert listed(eventhub, mailed, "--status", "COMPLETED") == [mailed.delivered]
    event = shown(eventhub, mailed, mailed.waiting)["event_id"]
    assert listed(eventhub, mailed, "--event", str(event)) == [mailed.waiting]


def test_pages_follow_each_other(eventhub: Command, mailed: Mailed):
    everything = listed(eventhub, mailed)
    first = eventhub.json("messages", "list", "--limit", "3", "--db", mailed.url)
    assert [each["id"] for each in first["messages"]] == everything[:3]
    assert listed(eventhub, mailed, "--before", str(first["next_before"])) == everything[3:]


def test_list_for_people_names_the_subscriber(eventhub: Command, mailed: Mailed):
    output = eventhub("messages", "list", "--db", mailed.url, "--limit", "4").stdout
    assert "shipping" in output
    assert "behind another" in output
    assert f"There may be more: --before {mailed.pending}" in output


def test_show_has_every_attempt(eventhub: Command, mailed: Mailed):
    found = shown(eventhub, mailed, mailed.waiting)
    assert (found["status"], found["attempts"][0]["action"]) == ("PENDING", "FAILED")
    assert found["attempts"][0]["detail"]["url"] == ADDRESS
    assert found["next_retry_at"] is not None
    done = eventhub("messages", "show", str(mailed.dead), "--db", mailed.url)
    assert "billing" in done.stdout
    assert "[red]not here[/red]" in done.stdout
    assert "\x1b" not in done.stdout
    assert "12.5 ms" in done.stdout


def test_retry_cancel_and_dead_letter(eventhub: Command, mailed: Mailed):
    assert eventhub("messages", "retry", str(mailed.waiting), "--by", "ada", "--db", mailed.url).returncode == 0
    assert shown(eventhub, mailed, mailed.waiting)["next_retry_at"] is None
    revived = eventhub.json("messages", "retry", str(mailed.dead), "--db", mailed.url)
    assert revived == {"id": mailed.dead, "status": "PENDING"}
    cancelled = eventhub.json("messages", "cancel", str(mailed.waiting), "--by", "ada", "--db", mailed.url)
    assert cancelled == {"id": mailed.waiting, "status": "FAILED"}
    assert shown(eventhub, mailed, mailed.waiting)["status"] == "FAILED"
    assert eventhub.json("dlq", "show", str(mailed.waiting), "--db", mailed.url)["reason"] == "cancelled"
    done = eventhub("messages", "dead-letter", str(mailed.pending), "--by", "ada", "--db", mailed.url)
    assert f"eventhub dlq retry {mailed.pending}" in done.stdout
    letter = eventhub.json("dlq", "show", str(mailed.pending), "--db", mailed.url)
    assert letter["reason"] == "manual"


def test_what_cannot_be_done_says_why(eventhub: Command, mailed: Mailed):
    for command, why in (
        ("retry", "it neither waits for a retry nor is it dead"),
        ("cancel", "there is nothing left to cancel"),
        ("dead-letter", "there is nothing left to give up"),
    ):
        done = eventhub("messages", command, str(mailed.delivered), "--db", mailed.url)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"eventhub: Message {mailed.delivered} is COMPLETED: {why}.\n"
        for unknown in ("4242", "0", str(2**70)):
            missing = eventhub("messages", command, unknown, "--db", mailed.url)
            assert (missing.returncode, missing.stderr) == (1, f"eventhub: Message not found: {unknown}\n")


class TestDeadLetters:
    def count(self, eventhub: Command, mailed: Mailed, *arguments: str) -> list[int]:
        page = eventhub.json("dlq", "list", *arguments, "--db", mailed.url)
        assert page["total"] == len(page["events"])
        return [each["delivery_id"] for each in page["events"]]

    def test_filters_must_all_fit(self, eventhub: Command, mailed: Mailed):
        def count(*arguments: str) -> list[int]:
            return self.count(eventhub, mailed, *arguments)

        assert count() == [mailed.parked, mailed.dead]
        assert count("--queue", "hub") == [mailed.parked, mailed.dead]
        assert count("--subscriber", "billing") == [mailed.dead]
        assert count("--type", "order.placed") == [mailed.parked]
        assert count("--reason", "rejected") == [mailed.dead]
        assert count("--reason", "rejected", "--subscriber", "shipping") == []
        assert count("--error", "not here") == [mailed.dead]
        assert count("--since", "1h") == [mailed.parked, mailed.dead]
        assert count("--since", "2999-01-01T00:00Z") == []
        assert count("--until", "1h") == []

    def test_show_has_the_subscriber_as_it_was(self, eventhub: Command, mailed: Mailed):
        edit = ("subscribers", "edit", "billing", "--timeout", "1", "--db", mailed.url)
        assert eventhub(*edit).returncode == 0
        letter = eventhub.json("dlq", "show", str(mailed.dead), "--db", mailed.url)
        assert letter["consumer"]["timeout_seconds"] == 10
        assert letter["consumer"]["headers"] == {"authorization": "***"}
        assert (letter["subscriber"], letter["delivery_id"]) == (mailed.billing, mailed.dead)
        done = eventhub("dlq", "show", str(mailed.dead), "--db", mailed.url).stdout
        assert f"billing ({mailed.billing})" in done
        assert f"eventhub messages show {mailed.dead}" in done

    def test_show_of_the_event_names_its_dead_messages(self, eventhub: Command, mailed: Mailed):
        event = shown(eventhub, mailed, mailed.dead)["event_id"]
        done = eventhub("dlq", "show", str(event), "--db", mailed.url)
        assert done.returncode == 1
        assert f"its messages are dead: {mailed.dead}." in done.stderr
        alive = eventhub("dlq", "show", str(mailed.pending), "--db", mailed.url)
        assert alive.stderr == f"eventhub: Message {mailed.pending} is not in DLQ (status: PENDING)\n"

    def test_retry_by_id_tells_what_it_cannot_do(self, eventhub: Command, mailed: Mailed):
        ids = (str(mailed.dead), str(mailed.pending), "4242")
        answer = eventhub.json("dlq", "retry", *ids, "--db", mailed.url, code=1)
        assert answer["retried"] == [mailed.dead]
        assert [each["id"] for each in answer["refused"]] == [mailed.pending, 4242]
        again = eventhub("dlq", "retry", str(mailed.dead), "--db", mailed.url)
        assert again.returncode == 1
        assert "retried already" in again.stderr

    def test_retry_by_filter_can_be_tried_dry(self, eventhub: Command, mailed: Mailed):
        retry = ("dlq", "retry", "--subscriber", "shipping", "--by", "ada", "--db", mailed.url)
        assert eventhub.json(*retry, "--dry-run") == {"count": 1, "dry_run": True}
        assert len(self.count(eventhub, mailed)) == 2
        assert eventhub.json(*retry) == {"count": 1, "dry_run": False}
        assert self.count(eventhub, mailed) == [mailed.dead]
        assert eventhub.json("dlq", "show", str(mailed.parked), "--db", mailed.url)["retried_by"] == "ada"
        assert eventhub("dlq", "retry", "--all", "--limit", "5", "--db", mailed.url).stdout == "Due again: 1.\n"

    def test_purge_by_filter_keeps_what_holds_a_key(self, eventhub: Command, mailed: Mailed):
        purge = ("dlq", "purge", "--older-than-days", "0", "--db", mailed.url)
        assert eventhub.json(*purge, "--reason", "rejected", "--dry-run") == {"count": 1, "dry_run": True}
        assert eventhub.json(*purge, "--reason", "rejected", "--yes") == {"purged": 1}
        assert eventhub.json(*purge, "--yes") == {"purged": 0}
        assert self.count(eventhub, mailed) == [mailed.parked]

    def test_move_gives_messages_up_by_hand(self, eventhub: Command, mailed: Mailed):
        ids = (str(mailed.waiting), str(mailed.pending), str(mailed.delivered), "4242")
        answer = eventhub.json("dlq", "move", *ids, "--db", mailed.url, code=1)
        assert answer["moved"] == [mailed.waiting, mailed.pending]
        assert [each["error"] for each in answer["refused"]] == [
            f"Message {mailed.delivered} is COMPLETED",
            "Message not found: 4242",
        ]
        assert set(self.count(eventhub, mailed, "--reason", "manual")) == {mailed.waiting, mailed.pending}


def test_a_letter_whose_subscriber_is_gone_can_be_seen_but_not_retried(eventhub: Command, mailed: Mailed):
    assert eventhub("subscribers", "remove", "billing", "--yes", "--db", mailed.url).returncode == 0
    letter = eventhub.json("dlq", "show", str(mailed.dead), "--db", mailed.url)
    assert letter["consumer"]["name"] == "billing"
    assert eventhub.json("dlq", "retry", "--type", "invoice.paid", "--db", mailed.url)["count"] == 0
    done = eventhub("dlq", "retry", str(mailed.dead), "--db", mailed.url)
    assert done.returncode == 1
    assert "its subscriber is gone" in done.stderr


def test_every_reason_can_be_asked_for():
    assert set(get_args(ReasonName)) == {str(reason) for reason in Reason}


@pytest.mark.parametrize(
    "arguments",
    [
        ["messages", "list", "--limit", "0"],
        ["messages", "list", "--before", "0"],
        ["messages", "list", "--event", "-1"],
        ["messages", "list", "--status", "asleep"],
        ["messages", "show"],
        ["messages", "show", "first"],
        ["dlq", "list", "--since", "yesterday"],
        ["dlq", "list", "--since", "999999999w"],
        ["dlq", "list", "--reason", "bad luck"],
        ["dlq", "move"],
        ["dlq", "retry", "1", "--reason", "gone"],
        ["dlq", "retry", "1", "--dry-run"],
        ["dlq", "retry", "--all", "--limit", "0"],
        ["dlq", "purge", "--older-than-days", "0", "--by", "created_at", "--reason", "gone", "--yes"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_usage_error(eventhub: Command, sqlite_mailed: Mailed, arguments: list[str]):
    done = eventhub(*arguments, "--db", sqlite_mailed.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("eventhub: ")
    assert "Traceback" not in done.stderr
