"""`eventhub subscribers`, on both engines."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from eventhub.store import open_store
from tests.cli.hub_support import ADDRESS, Mailed, mail
from tests.cli.support import Command

SECRET = re.compile(r"^whsec_[A-Za-z0-9+/]{43}=$", re.MULTILINE)


@pytest.fixture
def mailed(eventhub: Command, store_url: str) -> Mailed:
    return mail(eventhub, store_url)


@pytest.fixture
def sqlite_mailed(eventhub: Command, sqlite_path: Path) -> Mailed:
    """The same on SQLite alone, where the engine makes no difference."""
    return mail(eventhub, str(sqlite_path))


def statuses(eventhub: Command, url: str) -> dict[str, str]:
    return {each["name"]: each["status"] for each in eventhub.json("subscribers", "list", "--db", url)["subscribers"]}


def test_add_makes_the_database_and_shows_the_secret_once(eventhub: Command):
    made = eventhub.json("subscribers", "add", "billing", "--url", ADDRESS, "--db", "app.db")
    assert SECRET.match(made["secret"])
    assert (made["name"], made["url"], made["status"], made["secrets"]) == ("billing", ADDRESS, "active", 1)
    assert (made["event_type"], made["format"], made["retry_backoff_seconds"]) == ("*", "standard", [5, 30, 300])
    assert (eventhub.directory / "eventhub.secret").exists()
    done = eventhub("subscribers", "add", "shipping", "--url", ADDRESS, "--db", "app.db")
    (secret,) = SECRET.findall(done.stdout)
    assert "shown this one time" in done.stdout
    for command in (["list"], ["show", "billing"], ["show", "shipping"]):
        for form in ([], ["--json"]):
            output = eventhub("subscribers", *command, *form, "--db", "app.db").stdout
            assert made["secret"] not in output
            assert secret not in output


def test_every_part_can_be_given(eventhub: Command, store_url: str):
    (eventhub.directory / "token").write_text("Bearer of-the-file\n")
    (eventhub.directory / "filter.json").write_text('{"payload.total": {"gte": 100}}')
    made = eventhub.json(
        *("subscribers", "add", "everything", "--db", store_url, "--url", ADDRESS, "--event-type", "order.*"),
        *("--filter", "@filter.json", "--header", "authorization=@token", "--header", "x-team=a=b"),
        *("--format", "ce-binary", "--ordering-key", "payload.customer.id", "--on-dead", "park"),
        *("--retry-backoff", "1, 2.5", "--retry-on", "409,5xx", "--connect-timeout", "2", "--timeout", "3.5"),
        *("--rate", "7", "--max-in-flight", "4", "--guarantee", "at_least_once", "--description", "All of it"),
    )
    assert {name: made[name] for name in ("filter", "headers", "format", "ordering_key", "on_dead")} == {
        "filter": {"payload.total": {"gte": 100}},
        "headers": {"authorization": "***", "x-team": "a=b"},
        "format": "ce-binary",
        "ordering_key": "payload.customer.id",
        "on_dead": "park",
    }
    assert (made["retry_backoff_seconds"], made["retry_on"]) == ([1, 2.5], ["409", "5xx"])
    assert (made["connect_timeout_seconds"], made["timeout_seconds"]) == (2, 3.5)
    assert (made["rate_per_second"], made["max_in_flight"], made["description"]) == (7, 4, "All of it")
    shown = eventhub("subscribers", "show", "everything", "--db", store_url).stdout
    assert "of-the-file" not in shown
    assert "by payload.customer.id; a dead message: park" in shown


def test_edit_changes_what_is_named_and_keeps_the_rest(eventhub: Command, mailed: Mailed):
    edit = ("subscribers", "edit", "billing", "--db", mailed.url)
    changed = eventhub.json(*edit, "--timeout", "3", "--header", "x-team=a", "--retry-backoff", "none")
    assert (changed["timeout_seconds"], changed["retry_backoff_seconds"], changed["event_type"]) == (3, [], "invoice.*")
    assert changed["headers"] == {"authorization": "***", "x-team": "a"}
    back = eventhub.json(*edit, "--clear", "retry-backoff", "--clear", "event-type", "--remove-header", "Authorization")
    assert (back["retry_backoff_seconds"], back["event_type"], back["headers"]) == ([5, 30, 300], "*", {"x-team": "a"})
    assert back["version"] == changed["version"] + 1
    assert eventhub.json(*edit, "--clear", "headers", "--name", "invoices")["headers"] == {}
    assert eventhub.json("subscribers", "show", str(mailed.billing), "--db", mailed.url)["name"] == "invoices"


def test_the_name_is_unique(eventhub: Command, mailed: Mailed):
    done = eventhub("subscribers", "add", "billing", "--url", ADDRESS, "--db", mailed.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "named 'billing' already" in done.stderr


def test_lists_tell_how_each_stands(eventhub: Command, mailed: Mailed):
    assert (
        eventhub.json("subscribers", "pause", "billing", "--reason", "night", "--db", mailed.url)["reason"] == "night"
    )
    assert eventhub("subscribers", "disable", "shipping", "--db", mailed.url).stdout == "shipping is disabled\n"
    assert statuses(eventhub, mailed.url) == {"billing": "paused", "shipping": "disabled"}
    only = eventhub.json("subscribers", "list", "--status", "paused", "--db", mailed.url)["subscribers"]
    assert [each["name"] for each in only] == ["billing"]
    refused = eventhub("subscribers", "resume", "shipping", "--db", mailed.url)
    assert refused.returncode == 1
    assert "before it is enabled" in refused.stderr
    assert eventhub("subscribers", "resume", "billing", "--db", mailed.url).stdout == "billing is active\n"
    assert eventhub("subscribers", "enable", str(mailed.shipping), "--db", mailed.url).returncode == 0
    assert statuses(eventhub, mailed.url) == {"billing": "active", "shipping": "active"}


def test_an_open_circuit_is_told_apart(eventhub: Command, mailed: Mailed):
    async def trip() -> None:
        from datetime import timedelta

        async with open_store(mailed.url) as store:
            assert await store.open_circuit(mailed.billing, timedelta(minutes=5))

    asyncio.run(trip())
    assert "suspended" in eventhub("subscribers", "list", "--db", mailed.url).stdout
    shown = eventhub("subscribers", "show", "billing", "--db", mailed.url).stdout
    assert re.search(r"next try +20\d\d-", shown)


def test_rotate_shows_a_new_secret_and_keeps_the_old_one_for_a_while(eventhub: Command, mailed: Mailed):
    new = eventhub.json("subscribers", "rotate-secret", "billing", "--db", mailed.url)["secret"]
    assert SECRET.match(new)
    assert new != mailed.secret
    assert eventhub.json("subscribers", "show", "billing", "--db", mailed.url)["secrets"] == 2
    done = eventhub("subscribers", "rotate-secret", "billing", "--overlap", "0s", "--db", mailed.url)
    assert len(SECRET.findall(done.stdout)) == 1
    assert eventhub.json("subscribers", "show", "billing", "--db", mailed.url)["secrets"] == 1


def test_stats_count_what_waits_and_what_is_dead(eventhub: Command, mailed: Mailed):
    billing = eventhub.json("subscribers", "stats", "billing", "--db", mailed.url)
    assert (billing["pending"], billing["waiting_for_retry"], billing["dead"]) == (2, 1, 1)
    assert (billing["delivered_last_hour"], billing["latency_p50_ms"]) == (1, 12.5)
    done = eventhub("subscribers", "stats", "shipping", "--db", mailed.url)
    assert "2, of which 1 wait for an operator" in done.stdout


def test_keys_that_are_held_up_can_be_seen_and_freed(eventhub: Command, mailed: Mailed):
    def keys(*more: str) -> list[tuple[str, int, bool, int]]:
        found = eventhub.json("subscribers", "keys", "shipping", *more, "--db", mailed.url)["keys"]
        return [(each["key"], each["message_id"], each["parked"], each["waiting"]) for each in found]

    assert keys() == [("a", mailed.parked, True, 1), ("b", mailed.held, False, 0)]
    assert keys("--limit", "1") == keys()[:1]
    assert keys("--after", "a") == keys()[1:]
    shown = eventhub("subscribers", "keys", "shipping", "--db", mailed.url).stdout
    assert "parked" in shown
    assert "waits for a retry" in shown
    done = eventhub("subscribers", "retry-key", "shipping", "b", "--by", "ada", "--db", mailed.url)
    assert done.stdout == "The key 'b' of shipping is due now.\n"
    assert eventhub.json("messages", "show", str(mailed.held), "--db", mailed.url)["next_retry_at"] is None
    assert eventhub("subscribers", "unpark-key", "shipping", "a", "--db", mailed.url).returncode == 0
    assert [key for key, *_ in keys()] == ["b"]
    assert eventhub.json("subscribers", "skip-key", "shipping", "b", "--db", mailed.url)["key"] == "b"
    assert keys() == []
    assert "No key of shipping is held up." in eventhub("subscribers", "keys", "shipping", "--db", mailed.url).stdout
    skipped = eventhub.json("dlq", "show", str(mailed.held), "--db", mailed.url)
    assert skipped["reason"] == "skipped"
    again = eventhub("subscribers", "unpark-key", "shipping", "a", "--db", mailed.url)
    assert (again.returncode, again.stdout) == (1, "")
    assert "eventhub subscribers keys shipping" in again.stderr


def test_remove_cancels_what_waits(eventhub: Command, mailed: Mailed):
    refused = eventhub("subscribers", "remove", "billing", "--db", mailed.url, stdin="y\n")
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    removed = eventhub.json("subscribers", "remove", "billing", "--yes", "--by", "ada", "--db", mailed.url)
    assert removed == {"removed": "billing", "cancelled": 2}
    assert list(statuses(eventhub, mailed.url)) == ["shipping"]
    log = eventhub.json("messages", "list", "--subscriber", "shipping", "--db", mailed.url)["messages"]
    assert len(log) == 3


def test_a_test_event_goes_to_that_subscriber_alone(eventhub: Command, mailed: Mailed):
    sent = eventhub.json("subscribers", "test", "billing", "--wait", "0", "--db", mailed.url)
    event = eventhub.json("events", "show", str(sent["event_id"]), "--db", mailed.url)
    assert (event["type"], event["payload"]) == ("hub.test", {"subscriber": mailed.billing, "test": True})
    done = eventhub("subscribers", "test", "billing", "--wait", "0.2", "--db", mailed.url)
    assert done.returncode == 1
    assert "is a server running, with the role fanout?" in done.stdout


def test_private_addresses_need_to_be_allowed(eventhub: Command):
    add = ("subscribers", "add", "here", "--url", "http://127.0.0.1:9000/")
    refused = eventhub(*add)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--allow-private" in refused.stderr
    assert eventhub(*add, env={"EVENTHUB_ALLOW_PRIVATE": "127.0.0.0/8"}).returncode == 0


def test_what_is_sealed_needs_the_secret_that_it_was_sealed_under(eventhub: Command, sqlite_mailed: Mailed):
    secret = Path(sqlite_mailed.url).parent / "eventhub.secret"
    kept = secret.read_bytes()
    secret.unlink()
    for command in (
        ["add", "new", "--url", ADDRESS],
        ["edit", "billing", "--timeout", "3"],
        ["rotate-secret", "billing"],
    ):
        done = eventhub("subscribers", *command, "--db", sqlite_mailed.url)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"no secret file at {secret}" in done.stderr
    assert not secret.exists()
    assert eventhub.json("subscribers", "show", "billing", "--db", sqlite_mailed.url)["secrets"] == 0
    assert eventhub("subscribers", "pause", "billing", "--db", sqlite_mailed.url).returncode == 0
    other = eventhub.directory / "other.secret"
    assert (
        eventhub("keys", "create", "n", "--scopes", "read", "--secret-file", str(other), "--db", "x.db").returncode == 0
    )
    wrong = eventhub(
        *("subscribers", "add", "new", "--url", ADDRESS, "--db", sqlite_mailed.url, "--secret-file", str(other))
    )
    assert wrong.returncode == 2
    assert "sealed under another secret file" in wrong.stderr
    secret.write_bytes(kept)
    secret.chmod(0o600)
    assert eventhub("subscribers", "rotate-secret", "billing", "--db", sqlite_mailed.url).returncode == 0


def test_own_secrets_are_taken_from_files_and_never_repeated_in_errors(eventhub: Command):
    own = "whsec_" + "QUJD" * 11
    (eventhub.directory / "own").write_text(f"{own}\n")
    made = eventhub.json("subscribers", "add", "a", "--url", ADDRESS, "--secret", "@own")
    assert made["secret"] == own
    for wrong in ("whsec_hunter2", "hunter2hunter2hunter2"):
        done = eventhub("subscribers", "add", "b", "--url", ADDRESS, "--secret", wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert "hunter2" not in done.stderr


def test_a_name_cannot_steer_the_terminal(eventhub: Command):
    name = "[red]x[/red]"
    assert eventhub("subscribers", "add", name, "--url", ADDRESS).returncode == 0
    for command in (["list"], ["show", name], ["pause", name]):
        assert name in eventhub("subscribers", *command).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["add"],
        ["add", "n"],
        ["add", "7", "--url", ADDRESS],
        ["add", "n", "--url", "ftp://example.com/"],
        ["add", "n", "--url", "https://10.0.0.1/"],
        ["add", "n", "--url", ADDRESS, "--header", "host=x"],
        ["add", "n", "--url", ADDRESS, "--header", "x"],
        ["add", "n", "--url", ADDRESS, "--header", "x=@nowhere"],
        ["add", "n", "--url", ADDRESS, "--filter", "country=SE"],
        ["add", "n", "--url", ADDRESS, "--filter", '{"country": "SE"}'],
        ["add", "n", "--url", ADDRESS, "--filter", "@nowhere"],
        ["add", "n", "--url", ADDRESS, "--retry-backoff", "soon"],
        ["add", "n", "--url", ADDRESS, "--timeout", "0"],
        ["add", "n", "--url", ADDRESS, "--format", "xml"],
        ["add", "n", "--url", ADDRESS, "--ordering-key", "customer"],
        ["edit", "billing"],
        ["edit", "billing", "--clear", "url"],
        ["edit", "billing", "--remove-header", "x-none"],
        ["rotate-secret", "billing", "--overlap", "long"],
        ["rotate-secret", "billing", "--overlap", "31d"],
        ["keys", "billing", "--limit", "0"],
        ["retry-key", "billing"],
        ["test", "billing", "--wait", "-1"],
        ["list", "--status", "asleep"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_a_usage_error(eventhub: Command, sqlite_mailed: Mailed, arguments: list[str]):
    done = eventhub("subscribers", *arguments, "--db", sqlite_mailed.url)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("eventhub: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{bad", "--filter is not JSON: "),
        ('{"payload.a": 1, "payload.a": 2}', "--filter"),
        ('{"payload.a": NaN}', "--filter"),
    ],
)
def test_a_filter_that_cannot_be_read_is_called_one(eventhub: Command, sqlite_mailed: Mailed, text: str, said: str):
    done = eventhub("subscribers", "add", "n", "--url", ADDRESS, "--filter", text, "--db", sqlite_mailed.url)
    assert done.returncode == 2
    assert done.stderr.startswith(f"eventhub: {said}")
    assert done.stderr.endswith('. Give JSON, such as {"payload.country": "SE"}.\n')


def test_an_unknown_subscriber_is_an_error(eventhub: Command, sqlite_mailed: Mailed):
    for command in (["show"], ["pause"], ["stats"], ["keys"], ["test"], ["rotate-secret"], ["edit", "--timeout", "3"]):
        done = eventhub("subscribers", command[0], "nobody", *command[1:], "--db", sqlite_mailed.url)
        assert (done.returncode, done.stdout) == (1, "")
        assert "There is no subscriber 'nobody'" in done.stderr


def test_looking_creates_no_database(eventhub: Command):
    for arguments in (["subscribers", "list"], ["subscribers", "pause", "x"], ["messages", "list"]):
        done = eventhub(*arguments)
        assert done.returncode == 1
        assert "There is no database at eventhub.db" in done.stderr
    assert list(eventhub.directory.iterdir()) == []


def test_without_the_server_packages_the_error_names_them(eventhub: Command):
    (eventhub.directory / "cryptography.py").write_text("raise ImportError('not installed')")
    afresh = Command(eventhub.directory, afresh=True)
    done = afresh("subscribers", "list", env={"PYTHONPATH": str(eventhub.directory)})
    assert done.returncode == 2
    assert "pip install 'eventhub[server]'" in done.stderr


def test_people_and_programs_see_the_same_fields(eventhub: Command, sqlite_mailed: Mailed):
    from eventhub.core.subscribers import Subscriber

    shown = eventhub.json("subscribers", "show", "billing", "--db", sqlite_mailed.url)
    assert set(Subscriber.__struct_fields__) < set(shown)
    assert json.dumps(shown).count("top") == 0
