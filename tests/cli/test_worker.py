"""``eventhub worker``: any program is a handler; exit codes are outcomes, and nothing is left running."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eventhub import Status, blocking
from eventhub.cli.programs import without_secrets
from eventhub.client import EventDetails
from eventhub.core.events import Action
from tests.cli.support import EVENTHUB, Command
from tests.client.support import Hub, alive, refusing_port


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub"), "hub.db", "--retry-seconds", "0") as running:
        yield running


@pytest.fixture
def client(hub: Hub) -> Iterator[Any]:
    with blocking.Client(hub.url) as opened:
        yield opened


class Running:
    """An ``eventhub worker`` in a process of its own."""

    def __init__(self, eventhub: Command, url: str, tag: str, *program: str, options: tuple[str, ...] = ()) -> None:
        self.process = subprocess.Popen(
            [str(EVENTHUB), "worker", "--tags", tag, "--url", url, *options, "--", *program],
            cwd=eventhub.directory,
            env=eventhub.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.out, self._stderr = self.process.stdout, self.process.stderr
        self.errors: list[str] = []
        self._reading = threading.Thread(target=lambda: self.errors.extend(self._stderr), daemon=True)
        self._reading.start()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reading.join()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reading.join()
        self.out.close()
        self._stderr.close()


@pytest.fixture
def start(eventhub: Command, hub: Hub) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def begin(tag: str, *program: str, options: tuple[str, ...] = (), url: str = hub.url) -> Running:
        made.append(Running(eventhub, url, tag, *program, options=options))
        return made[-1]

    yield begin
    for each in made:
        each.close()


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 30.0) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return value


def settled(client: Any, event_id: int, status: Status = Status.COMPLETED) -> EventDetails:
    def found() -> EventDetails | None:
        event: EventDetails = client.event(event_id, logs=True)
        return event if event.status is status else None

    event: EventDetails = wait_for(found, f"event {event_id} {status}")
    return event


def shell(text: str) -> tuple[str, ...]:
    return ("sh", "-c", text)


def test_a_program_gets_the_payload_and_everything_about_the_event(start: Callable[..., Running], client: Any):
    event = client.publish(
        title="Hello",
        tags="about, more",
        event_type="mail.due",
        payload={"a": [1, "ü"]},
        metadata={"traceparent": f"00-{7:032x}-{8:016x}-01"},
    )
    names = ["EVENT_ID", "EVENT_TYPE", "TITLE", "TAGS", "ATTEMPT", "WORKER_ID"]
    lines = "; ".join(f'echo "$EVENTHUB_{name}"' for name in names)
    worker = start("about", *shell(f'cat; echo; {lines}; echo "$TRACEPARENT"'), options=("--worker-id", "me"))
    printed = [worker.out.readline().rstrip("\n") for _ in range(8)]
    assert json.loads(printed[0]) == {"a": [1, "ü"]}
    assert printed[1:7] == [str(event.id), "mail.due", "Hello", "about, more", "1", "me"]
    assert printed[7] == f"00-{7:032x}-{8:016x}-01"
    done = settled(client, event.id)
    completed = done.logs[-1]
    assert (completed.action, completed.worker_id, completed.status_code) == (Action.COMPLETED, "me", 0)
    assert completed.execution_time_ms is not None
    assert worker.stop() == 0


def test_arguments_go_to_the_program_as_they_are(start: Callable[..., Running], client: Any):
    event = client.publish(tags="arguments")
    worker = start("arguments", *shell('echo "$@"'), "-", "--tags", "x y", "--", "-z")
    assert worker.out.readline() == "--tags x y -- -z\n"
    settled(client, event.id)


@pytest.mark.parametrize(
    ("script", "reported"),
    [
        ("echo one >&2; echo two >&2; exit 3", (3, "one\ntwo")),
        ("exit 4", (4, "exit code 4")),
        ("kill -KILL $$", (137, "ended by SIGKILL")),
        ("echo last words >&2; kill -TERM $$", (143, "last words")),
        ("seq 1 5000 >&2; exit 5", (5, "\n".join(map(str, range(4601, 5001))))),
        ("head -c 5000 /dev/zero | tr '\\0' x >&2; exit 6", (6, "x" * 2000)),
        (r"printf 'not \377 text' >&2; exit 7", (7, "not � text")),
    ],
    ids=["stderr", "silent", "killed", "signal", "lines", "line", "bytes"],
)
def test_a_program_that_fails_is_reported(
    start: Callable[..., Running], client: Any, request: pytest.FixtureRequest, script: str, reported: tuple[int, str]
):
    tag = f"fails-{request.node.callspec.id}"
    event = client.publish(tags=tag)
    worker = start(tag, *shell(f'[ "$EVENTHUB_ATTEMPT" = 2 ] && exit 0; {script}'))
    done = settled(client, event.id)
    failed = next(row for row in done.logs if row.action is Action.FAILED)
    assert (failed.status_code, failed.error_message) == reported
    worker.stop()
    if script.startswith("echo one"):
        assert "two\n" in worker.errors


def test_a_program_need_not_read_its_input_nor_end_its_children(start: Callable[..., Running], client: Any):
    event = client.publish(tags="leaver", payload="x" * 1_000_000)
    worker = start("leaver", *shell("sleep 600 & echo $!"))
    child = int(worker.out.readline())
    settled(client, event.id)
    assert alive(child)  # what a program leaves behind on purpose is its own affair
    os.kill(child, signal.SIGKILL)


def test_a_lease_is_extended_while_the_program_runs(start: Callable[..., Running], client: Any, tmp_path: Path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    event = client.publish(tags="long")
    worker = start("long", *shell(f"echo begun; read line < {gate}"), options=("--lease", "1"))
    worker.out.readline()
    assert client.take("long", "other", wait=3) == []
    gate.write_text("go on\n")
    done = settled(client, event.id)
    assert [row.action for row in done.logs] == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]


GROUP = "sleep 600 & echo $$ $!; wait"


def test_a_lost_claim_ends_the_program_and_its_children(start: Callable[..., Running], client: Any):
    event = client.publish(tags="taken-away")
    worker = start("taken-away", *shell(f'[ "$EVENTHUB_ATTEMPT" = 2 ] && exit 0; {GROUP}'), options=("--lease", "1"))
    pids = [int(word) for word in worker.out.readline().split()]
    assert all(map(alive, pids))
    client.reset(event.id, reason="test")
    wait_for(lambda: not any(map(alive, pids)), "the whole group has ended")
    done = settled(client, event.id)
    assert [row.action for row in done.logs][-2:] == [Action.PICKED, Action.COMPLETED]


def test_sigterm_lets_the_program_end(start: Callable[..., Running], client: Any, tmp_path: Path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    event = client.publish(tags="drains")
    worker = start("drains", *shell(f"echo begun; read line < {gate}"))
    worker.out.readline()
    worker.process.send_signal(signal.SIGTERM)
    gate.write_text("go on\n")
    assert worker.process.wait(60) == 0
    assert client.event(event.id).status is Status.COMPLETED


@pytest.mark.parametrize("stubborn", [False, True])
def test_after_the_grace_the_group_is_ended_and_the_event_given_back(
    start: Callable[..., Running], client: Any, *, stubborn: bool
):
    tag = f"grace-{stubborn}"
    event = client.publish(tags=tag)
    trap = "trap '' TERM; " if stubborn else ""
    worker = start(tag, *shell(trap + GROUP), options=("--shutdown-timeout", "0"))
    pids = [int(word) for word in worker.out.readline().split()]
    assert worker.stop() == 0
    wait_for(lambda: not any(map(alive, pids)), "the whole group has ended")
    found = client.event(event.id, logs=True)
    assert (found.status, found.retry_count) == (Status.PENDING, 0)
    assert found.logs[-1].action is Action.RELEASED


def test_a_program_runs_through_a_restart_of_the_hub(start: Callable[..., Running], sqlite_path: Path, tmp_path: Path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with Hub(tmp_path, str(sqlite_path)) as mortal, blocking.Client(mortal.url) as client:
        event = client.publish(tags="a")
        worker = start("a", *shell(f"echo begun; read line < {gate}"), url=mortal.url)
        worker.out.readline()
        mortal.kill()
        gate.write_text("go on\n")
        mortal.start()
        done = settled(client, event.id)
        assert [row.action for row in done.logs] == [Action.PUBLISHED, Action.PICKED, Action.COMPLETED]
        assert worker.stop() == 0


def test_a_program_that_vanishes_is_a_failure(start: Callable[..., Running], client: Any, tmp_path: Path):
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/sh\nrm -- $0\n")
    program.chmod(0o755)
    first = client.publish(tags="vanishing")
    start("vanishing", str(program))
    settled(client, first.id)
    second = client.publish(tags="vanishing")
    failed = settled(client, second.id, Status.FAILED)
    assert {row.status_code for row in failed.logs if row.action is Action.FAILED} == {127}


def test_several_programs_at_a_time(start: Callable[..., Running], client: Any):
    client.publish_many([{"tags": "several"}] * 3)
    worker = start("several", *shell("echo $$; sleep 600"), options=("--concurrency", "3", "--shutdown-timeout", "0"))
    pids = [int(worker.out.readline()) for _ in range(3)]
    assert len({pid for pid in pids if alive(pid)}) == 3
    assert worker.stop() == 0
    wait_for(lambda: not any(map(alive, pids)), "all programs have ended")


def test_logs_have_event_and_worker(start: Callable[..., Running], client: Any):
    event = client.publish(tags="logged")
    options = ("--worker-id", "me", "--log-format", "json")
    worker = start("logged", *shell("[ $EVENTHUB_ATTEMPT = 2 ]"), options=options)
    settled(client, event.id)
    worker.stop()
    records = [json.loads(line) for line in worker.errors if line.startswith("{")]
    failed = next(each for each in records if each["message"] == "event failed")
    assert (failed["event_id"], failed["worker_id"], failed["attempt"]) == (event.id, "me", 1)
    assert records[-1]["message"] == "worker stopped"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--tags", "a"],
        ["--tags", "a", "--"],
        ["--tags", "a", "--", "./nowhere.sh"],
        ["--", "true"],
        ["--tags", ",", "--", "true"],
        ["--tags", "a", "--db", "a.db", "--", "true"],
        ["--tags", "a", "--concurrency", "0", "--", "true"],
        ["--tags", "a", "--lease", "0", "--", "true"],
        ["--tags", "a", "--url", "localhost", "--", "true"],
    ],
    ids=" ".join,
)
def test_a_wrong_call(eventhub: Command, arguments: list[str]):
    done = eventhub("worker", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("eventhub: ")


def test_a_worker_without_a_key_ends_where_one_is_needed(eventhub: Command, tmp_path: Path):
    with Hub(tmp_path, "hub.db") as locked:
        locked.command.json("keys", "create", "p", "--scopes", "publish", "--db", "hub.db")
        done = eventhub("worker", "--tags", "a", "--url", locked.url, "--", "true")
    assert done.returncode == 1
    assert "API key" in done.stderr


def test_a_hub_that_is_not_there_is_waited_for(start: Callable[..., Running]):
    worker = start("a", "true", url=f"http://127.0.0.1:{refusing_port()}")
    wait_for(lambda: sum("no work to be had" in line for line in worker.errors) >= 2, "it tries again")
    assert worker.stop() == 0


def test_a_program_gets_no_secret_of_the_worker(
    eventhub: Command, start: Callable[..., Running], client: Any, tmp_path: Path
):
    seen = tmp_path / "seen.json"
    secrets = {"EVENTHUB_DB": "postgresql://u:pw@h/d", "EVENTHUB_LISTEN_SECRET": "whsec_x"}
    eventhub.environment |= {**secrets, "EVENTHUB_SECRET_FILE": "/secret", "OTHER": "kept"}
    script = f"import json, os; json.dump(dict(os.environ), open({str(seen)!r}, 'w'))"
    start("secrets", sys.executable, "-c", script)
    event = settled(client, client.publish(tags="secrets", payload=1).id)
    found = json.loads(seen.read_text())
    assert (found["OTHER"], found["EVENTHUB_EVENT_ID"]) == ("kept", str(event.id))
    assert not {"EVENTHUB_DB", "EVENTHUB_LISTEN_SECRET", "EVENTHUB_SECRET_FILE"} & found.keys()


def test_the_key_is_among_the_secrets():
    environment = {"EVENTHUB_KEY": "eh_k", "EVENTHUB_URL": "http://hub", "PATH": "/bin"}
    assert without_secrets(environment) == {"EVENTHUB_URL": "http://hub", "PATH": "/bin"}
