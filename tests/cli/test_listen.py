"""`eventhub listen`, as a process that is sent requests."""

import json
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from eventhub.core.signing import secret_text
from tests.cli.listening import OTHER, SECRET, Listen
from tests.cli.support import Command


def test_a_signed_message_is_shown_with_what_is_known_of_it(listen: Listen):
    listener = listen("--secret", secret_text(OTHER), "--secret", secret_text(SECRET), "--json", "--count", "2")
    assert listener.send("msg_1", {"n": 1}) == 204
    assert listener.send("msg_1", {"n": 1}) == 204
    listener.process.wait(60)
    first, again, summary = listener.lines()
    assert (first["type"], first["id"], first["format"]) == ("order.placed", "msg_1", "standard")
    assert (first["verified"], first["problem"], first["payload"], first["status"]) == (True, None, {"n": 1}, 204)
    assert (first["attempt"], first["duplicate"]) == (1, False)
    assert (again["attempt"], again["duplicate"]) == (2, True)
    seconds = summary["summary"].pop("seconds")
    assert seconds >= 0
    assert summary["summary"] == {
        "requests": 2,
        "messages": 1,
        "retries": 0,
        "duplicates": 1,
        "verified": 2,
        "refused": 0,
        "failed": 0,
        "out_of_order": 0,
    }
    assert listener.process.returncode == 0


def test_a_message_that_is_not_signed_well_is_refused_and_the_exit_code_says_so(listen: Listen):
    listener = listen("--json", env={"EVENTHUB_LISTEN_SECRET": f"{secret_text(SECRET)} {secret_text(SECRET)}"})
    assert listener.send("msg_1", 1, secret=OTHER) == 401
    assert listener.post(b"{}", {})[0] == 401
    wrong, bare, summary = listener.lines()
    assert (wrong["verified"], bare["verified"]) == (False, False)
    assert "no signature fits" in wrong["problem"]
    assert "no webhook-id" in bare["problem"]
    assert summary["summary"]["refused"] == 2
    assert listener.process.returncode == 1


def test_it_fails_as_it_is_told(listen: Listen):
    always = listen("--status", "503", "--retry-after", "7")
    status, headers = always.post(b"{}", {})
    assert (status, headers["retry-after"]) == (503, "7")
    never = listen("--fail", "0%", "--delay", "0.05")
    assert never.post(b"{}", {})[0] == 204
    every = listen("--fail", "100%")
    assert every.post(b"{}", {})[0] == 500
    assert "1, as they were told to" in every.interrupt()
    assert every.process.returncode == 0


def test_people_see_the_payload_and_nothing_in_it_steers_their_terminal(listen: Listen):
    listener = listen()
    body = json.dumps({"name": "[red]x[/red] \x1b[31m"}).encode()
    assert listener.post(body, {"ce-specversion": "1.0", "ce-type": "a.b\x9b", "webhook-id": "m\x9b1"})[0] == 204
    output = listener.interrupt()
    assert '"name": "[red]x[/red] \\u001b[31m"' in output
    assert "\x9b" not in output
    assert "\x1b" not in output
    assert "a.b" in output
    assert "not checked" in output
    assert "1 in " in output


def test_a_broken_order_is_told(listen: Listen):
    listener = listen("--key", "payload.customer", "--json")
    for message_id, customer in (("msg_2", "a"), ("msg_1", "b"), ("msg_1", "a")):
        listener.send(message_id, {"customer": customer})
    found = listener.lines()
    assert [line["key"] for line in found[:3]] == ["a", "b", "a"]
    assert [line["order"] for line in found[:3]] == [None, None, "out of order: it comes after 2"]
    assert found[3]["summary"]["out_of_order"] == 1
    assert listener.process.returncode == 1


def test_two_at_once_break_the_order_of_everything(listen: Listen):
    listener = listen("--ordered", "--json", "--delay", "1", "--count", "2")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda number: listener.send(f"msg_{number}", number), (1, 1)))
    listener.process.wait(60)
    assert listener.lines()[-1]["summary"]["out_of_order"] == 1


def test_a_sender_that_does_not_wait_breaks_no_order(listen: Listen):
    listener = listen("--ordered", "--json", "--delay", "600")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            listener.send("msg_1", 1, timeout=0.5)
        assert listener.process.stdout is not None
        line = json.loads(listener.process.stdout.readline())
        assert (line["status"], line["order"]) == (499, None)
        assert line["problem"] == "the sender did not wait for the answer"


def test_only_posts_of_a_reasonable_size_are_taken(listen: Listen):
    listener = listen("--json")
    request = urllib.request.Request(listener.url, method="GET")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    with refused.value as answer:
        assert answer.code == 405
    assert listener.post(b"x" * ((4 << 20) + 1), {})[0] == 413
    assert listener.lines()[-1]["summary"]["requests"] == 0


def test_it_listens_here_alone_unless_told_otherwise(listen: Listen):
    assert listen().url.startswith("http://127.0.0.1:")
    open_to_all = listen("--host", "0.0.0.0", "--secret", secret_text(SECRET))
    assert open_to_all.process.stderr is not None
    assert "Other machines" in open_to_all.process.stderr.readline()


def test_a_taken_port_is_one_line(eventhub: Command, listen: Listen):
    port = listen().url.rstrip("/").rpartition(":")[2]
    done = eventhub("listen", "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"eventhub: Cannot listen on 127.0.0.1:{port}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "70000"],
        ["--fail", "20"],
        ["--fail", "101%"],
        ["--fail", "-1%"],
        ["--status", "99"],
        ["--delay", "-1"],
        ["--delay", "nan"],
        ["--retry-after", "-1"],
        ["--count", "0"],
        ["--key", "customer.id"],
        ["--key", "payload.id", "--ordered"],
        ["--secret", "hunter2hunter2"],
        ["--secret", "whsec_hunter2"],
    ],
)
def test_a_wrong_call_is_a_usage_error(eventhub: Command, arguments: list[str]):
    done = eventhub("listen", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("eventhub: ")
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr


def test_without_the_server_packages_the_error_names_them(eventhub: Command):
    (eventhub.directory / "uvicorn.py").write_text("raise ImportError('not installed')")
    done = Command(eventhub.directory, afresh=True)("listen", env={"PYTHONPATH": str(eventhub.directory)})
    assert done.returncode == 2
    assert "pip install 'eventhub[server]'" in done.stderr
