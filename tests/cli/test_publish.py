"""``eventhub publish``: over HTTP or into the database, by a rule that can be seen."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventhub import blocking
from eventhub.cli.destinations import ToHub
from eventhub.config import Settings
from eventhub.errors import ServerUnavailable
from tests.cli.support import EVENTHUB, Command
from tests.client.support import Hub, refusing_port


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub"), "hub.db") as running:
        yield running


def publish(eventhub: Command, *arguments: str, stdin: str | None = None, **variables: str) -> int:
    done = eventhub("publish", *arguments, stdin=stdin, env=variables)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_over_http(eventhub: Command, hub: Hub):
    event_id = publish(
        eventhub,
        *("--url", hub.url, "--tags", "email, sms", "--title", "Hello", "--description", "More", "--type", "mail.due"),
        *("--data", '{"a": 1}', "--metadata", "m=1=2", "--metadata", "n=", "--ordering-key", "k", "--priority", "3"),
    )
    with blocking.Client(hub.url) as client:
        found = client.event(event_id)
    assert (found.tags, found.title, found.description) == ("email, sms", "Hello", "More")
    assert (found.event_type, found.payload, found.ordering_key) == ("mail.due", {"a": 1}, "k")
    assert found.metadata == {"m": "1=2", "n": ""}


def test_the_payload_comes_from_a_file_or_standard_input(eventhub: Command, hub: Hub):
    (eventhub.directory / "payload.json").write_text('["from a file"]')
    from_file = publish(eventhub, "--url", hub.url, "--tags", "a", "--data", "@payload.json")
    from_input = publish(eventhub, "--url", hub.url, "--tags", "a", "--data", "-", stdin='"from input"')
    nothing = publish(eventhub, "--url", hub.url, "--tags", "a")
    negative = publish(eventhub, "--url", hub.url, "--tags", "a", "--data", "-7")
    with blocking.Client(hub.url) as client:
        payloads = [client.event(each).payload for each in (from_file, from_input, nothing, negative)]
    assert payloads == [["from a file"], "from input", None, -7]


def test_the_same_idempotency_key_is_the_same_event(eventhub: Command, hub: Hub):
    arguments = ("--tags", "a", "--data", "1", "--idempotency-key", "one")
    first = publish(eventhub, "--url", hub.url, *arguments)
    assert publish(eventhub, "--url", hub.url, *arguments) == first
    other = eventhub("publish", "--url", hub.url, "--tags", "a", "--data", "2", "--idempotency-key", "one")
    assert (other.returncode, other.stdout) == (1, "")


def test_who_waits_for_a_hub_that_is_away_is_told_so_once(eventhub: Command):
    url = f"http://127.0.0.1:{refusing_port()}"
    process = subprocess.Popen(
        [EVENTHUB, "publish", "--url", url, "--tags", "a"],
        cwd=eventhub.directory,
        env=eventhub.environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.terminate()
        assert process.stderr.read() == ""
    assert re.fullmatch(rf"eventhub: The hub at {url} does not answer: .* Trying again for 2\d s\.\n", line), line


@pytest.mark.parametrize("quiet", [False, True])
async def test_the_words_come_after_a_second_and_not_again(capsys: pytest.CaptureFixture[str], *, quiet: bool):
    async with ToHub(Settings(url="http://127.0.0.1:1"), quiet=quiet) as destination:
        waiting = destination._client._transport.waiting
        assert (waiting is None) == quiet
        if waiting is not None:
            waiting(ServerUnavailable("It is away."), 29.9)
            assert capsys.readouterr().err == ""
            assert destination._away_since is not None
            destination._away_since -= 1.5
            for left in (28.4, 27.9):
                waiting(ServerUnavailable("It is away."), left)
            assert capsys.readouterr().err == "eventhub: It is away. Trying again for 28 s.\n"


def test_into_the_database_as_the_server_would(eventhub: Command, store_url: str):
    assert eventhub("migrate", "--db", store_url).returncode == 0
    job = publish(eventhub, "--db", store_url, "--tags", "email", "--title", "Hello", "--data", "[1]")
    broadcast = publish(eventhub, "--db", store_url, "--type", "order.placed")
    queued = publish(eventhub, "--db", store_url, "--type", "invoice.paid", "--queue", "invoices")
    found = {each: eventhub.json("events", "show", str(each), "--db", store_url) for each in (job, broadcast, queued)}
    assert (found[job]["queue"], found[job]["type"], found[job]["status"]) == ("work", "job", "PENDING")
    assert (found[job]["payload"], found[job]["title"]) == ([1], "Hello")
    assert found[broadcast]["status"] == "PENDING"  # until it was handed out to subscribers
    assert (found[queued]["queue"], found[queued]["status"]) == ("invoices", "PENDING")
    with blocking.EventQueue(store_url, queue="invoices") as queue:
        assert queue.poll().id == queued


def test_a_worker_over_http_takes_what_was_published_into_the_database(eventhub: Command, hub: Hub):
    db = str(hub.directory / "hub.db")
    event_id = publish(eventhub, "--db", db, "--tags", "straight", "--data", '{"n": 1}')
    with blocking.Client(hub.url) as client:
        (taken,) = client.take("straight", "w", wait=10)
    assert (taken.id, taken.payload, taken.max_retries, taken.event_type) == (event_id, {"n": 1}, 3, None)


def test_which_way_it_goes(eventhub: Command, hub: Hub, sqlite_path: Path):
    assert eventhub("migrate", "--db", str(sqlite_path)).returncode == 0
    nowhere = f"http://127.0.0.1:{refusing_port()}"

    def in_database() -> int:
        return len(eventhub.json("events", "list", "--db", str(sqlite_path))["events"])

    publish(eventhub, "--tags", "a", EVENTHUB_DB=str(sqlite_path))
    assert in_database() == 1
    publish(eventhub, "--tags", "a", EVENTHUB_DB=str(sqlite_path), EVENTHUB_URL=hub.url)
    assert in_database() == 1
    publish(eventhub, "--tags", "a", "--url", hub.url, EVENTHUB_URL=nowhere, EVENTHUB_DB=str(sqlite_path))
    assert in_database() == 1
    publish(eventhub, "--db", str(sqlite_path), "--tags", "a", EVENTHUB_URL=nowhere)
    assert in_database() == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--db", "a.db", "--url", "http://h", "--tags", "a"], "keep one"),
        (["--url", "http://h", "--title", "neither"], "--tags"),
        (["--url", "http://h", "--tags", " , "], "--tags"),
        (["--url", "http://h", "--tags", "a", "--queue", "q"], "--queue"),
        (["--url", "http://h", "--tags", "a", "--metadata", "m"], "name=value"),
        (["--url", "http://h", "--tags", "a", "--data", "@nowhere.json"], "cannot be read"),
        (["--url", "localhost:8080", "--tags", "a"], "http://127.0.0.1:8080"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_call(eventhub: Command, arguments: list[str], said: str):
    done = eventhub("publish", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("data", ["{a: 1}", "hello", "NaN", "", '{"a": 1, "a": 2}'])
def test_what_is_not_json_is_refused(eventhub: Command, hub: Hub, data: str):
    done = eventhub("publish", "--url", hub.url, "--tags", "a", "--data", data)
    assert (done.returncode, done.stdout) == (1, "")
    assert "--data" in done.stderr


def test_publishing_creates_no_database(eventhub: Command):
    done = eventhub("publish", "--tags", "a")
    assert done.returncode == 1
    assert "There is no database" in done.stderr
    assert list(eventhub.directory.iterdir()) == []


def test_the_key_comes_from_the_variable_and_is_never_shown(eventhub: Command, tmp_path: Path):
    with Hub(tmp_path, "hub.db") as locked:
        made: dict[str, Any] = locked.command.json("keys", "create", "p", "--scopes", "publish", "--db", "hub.db")
        refused = eventhub("publish", "--url", locked.url, "--tags", "a")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert publish(eventhub, "--url", locked.url, "--tags", "a", EVENTHUB_KEY=made["key"])
        assert publish(eventhub, "--url", locked.url, "--tags", "a", "--key", made["key"])
        told = eventhub("doctor", "--db", str(tmp_path / "hub.db"), "--json", env={"EVENTHUB_KEY": made["key"]})
    assert made["key"] not in told.stdout + told.stderr
    shown = {each["name"]: each["value"] for each in json.loads(told.stdout)["settings"]}
    assert shown["key"] == "***"


def test_as_json(eventhub: Command, hub: Hub):
    assert eventhub.json("publish", "--url", hub.url, "--tags", "a")["id"] > 0


# ------------------------------------------------------------------- a file


def lines(eventhub: Command, *events: Any) -> str:
    path = eventhub.directory / "events.jsonl"
    path.write_text("\n".join(event if isinstance(event, str) else json.dumps(event) for event in events))
    return path.name


def test_a_file_is_published_whole_and_once(eventhub: Command, store_url: str):
    events = [{"type": "order.placed", "payload": {"n": n}} for n in range(1200)]
    file = lines(eventhub, {"tags": "email,sms", "title": "Hello", "payload": "x", "delay_seconds": 60}, "", *events)
    assert eventhub("migrate", "--db", store_url).returncode == 0
    command = ("publish", "--file", file, "--idempotency-key", "import-1", "--db", store_url)
    told = eventhub.json(*command)
    assert (told["published"], told["duplicates"]) == (1201, 0)
    again = eventhub.json(*command)
    assert (again["published"], again["duplicates"]) == (1201, 1201)
    assert (again["first_id"], again["last_id"]) == (told["first_id"], told["last_id"])
    first = eventhub.json("events", "show", str(told["first_id"]), "--db", store_url)
    assert (first["type"], first["title"], first["tags"], first["queue"]) == ("job", "Hello", ["email", "sms"], "work")
    last = eventhub.json("events", "show", str(told["last_id"]), "--db", store_url)
    assert (last["type"], last["payload"], last["idempotency_key"]) == ("order.placed", {"n": 1199}, "import-1-1202")


def test_a_file_goes_over_http_too(eventhub: Command, hub: Hub):
    file = lines(eventhub, {"event_type": "a", "payload": 1}, {"tags": ["b"], "metadata": {"x": "y"}})
    told = eventhub.json("publish", "--file", file, "--url", hub.url)
    assert told["published"] == 2
    with blocking.Client(hub.url) as client:
        found = client.event(told["last_id"])
    assert (found.tags, found.metadata["x"]) == ("b", "y")


def test_standard_input_is_a_file(eventhub: Command, sqlite_path: Path):
    assert eventhub("migrate", "--db", str(sqlite_path)).returncode == 0
    done = eventhub("publish", "--file", "-", "--db", str(sqlite_path), stdin='{"type": "a"}\n{"type": "b"}')
    assert (done.returncode, done.stdout) == (0, "2 events published.\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "line 502"),
        ("[]", "line 502"),
        ('{"type": "a", "payloads": 1}', "payloads"),
        ('{"type": "a", "type": "b"}', "line 502"),
        ('{"payload": 1}', "give it tags for work"),
    ],
)
def test_a_file_with_a_mistake_publishes_nothing(eventhub: Command, sqlite_path: Path, line: str, words: str):
    assert eventhub("migrate", "--db", str(sqlite_path)).returncode == 0
    file = lines(eventhub, *({"type": "a"} for _ in range(501)), line)
    done = eventhub("publish", "--file", file, "--db", str(sqlite_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr
    assert eventhub.json("events", "list", "--db", str(sqlite_path))["events"] == []


def test_what_is_refused_on_the_way_says_how_far_it_came(eventhub: Command, sqlite_path: Path):
    assert eventhub("migrate", "--db", str(sqlite_path)).returncode == 0
    file = lines(eventhub, *({"type": "a"} for _ in range(500)), {"type": "no such type"})
    done = eventhub("publish", "--file", file, "--db", str(sqlite_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert "500 events were published before it, and none from line 501 on." in done.stderr


def test_a_file_leaves_nothing_to_other_options(eventhub: Command, sqlite_path: Path):
    assert eventhub("migrate", "--db", str(sqlite_path)).returncode == 0
    for options in (["--type", "a"], ["--tags", "a"], ["--data", "1"], ["--delay", "1"]):
        done = eventhub("publish", "--file", "events.jsonl", *options, "--db", str(sqlite_path))
        assert (done.returncode, "leave the other options out" in done.stderr) == (2, True)
    missing = eventhub("publish", "--file", "none.jsonl", "--db", str(sqlite_path))
    assert (missing.returncode, "--file is none.jsonl" in missing.stderr) == (2, True)
