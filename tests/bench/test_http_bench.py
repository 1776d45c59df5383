"""The HTTP benchmark: its client by itself, and a tiny run of every workload; nothing here is timed."""

import json
import math
import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from eventhub.bench import BenchSettings, run_bench
from eventhub.bench.databases import Databases, PostgresDatabases, SqliteDatabases
from eventhub.bench.figures import Spread, spread
from eventhub.bench.http import processes, workloads
from eventhub.bench.http.driving import Driver
from eventhub.bench.http.load import Orders, apply
from eventhub.bench.http.scripts import Publishing, WorkingInBatches, WorkingOneByOne, publish_request
from eventhub.bench.http.usage import cpu_seconds, memory_mb
from eventhub.bench.http.wire import Answer, AnswerReader, request
from eventhub.bench.running import Step, steps
from eventhub.bench.settings import HTTP_WORKLOADS, chosen
from eventhub.bench.targets import judge
from eventhub.cli import main
from eventhub.errors import EventHubError, SettingsError

TINY = BenchSettings(
    http=True, events=2000, backlog=5000, rounds=1, latencies=3, connections=4, workers=20, polled=10, rate=100.0
)
CREATED = b'HTTP/1.1 201 Created\r\ncontent-length: 8\r\ncontent-type: application/json\r\n\r\n{"id":7}'


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request, tmp_path) -> Databases:
    if request.param == "sqlite":
        return SqliteDatabases(tmp_path)
    return PostgresDatabases(request.getfixturevalue("postgres_url"))


# --------------------------------------------------------------- on the wire


def test_an_answer_is_read_by_its_length():
    assert AnswerReader().feed(CREATED) == Answer(201, b'{"id":7}')


@pytest.mark.parametrize("size", [1, 7, 30, len(CREATED) - 1])
def test_an_answer_may_come_in_pieces(size):
    reader = AnswerReader()
    for _ in range(2):  # and the next one after it
        answers = [reader.feed(CREATED[start : start + size]) for start in range(0, len(CREATED), size)]
        assert answers[:-1] == [None] * (len(answers) - 1)
        assert answers[-1] == Answer(201, b'{"id":7}')


def test_an_answer_without_a_body_needs_no_length():
    assert AnswerReader().feed(b"HTTP/1.1 204 No Content\r\ncache-control: no-store\r\n\r\n") == Answer(204, b"")


def test_the_name_of_the_length_may_be_written_in_any_way():
    assert AnswerReader().feed(b"HTTP/1.1 200 OK\r\nContent-Length:2\r\n\r\n{}") == Answer(200, b"{}")


def test_a_length_within_the_body_is_not_the_length():
    body = b"\r\ncontent-length: 99"
    assert AnswerReader().feed(b"HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n" + body) == Answer(200, body)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", "gave no length"),
        (CREATED + b"HTTP/1.1 408", "sent more than it was asked for"),
    ],
)
def test_what_the_client_does_not_understand_ends_the_run(data, said):
    with pytest.raises(ValueError, match=said):
        AnswerReader().feed(data)


def test_a_request_says_its_length_and_its_host():
    assert request("POST", "/events", b"{}", host="127.0.0.1:80") == (
        b"POST /events HTTP/1.1\r\nhost: 127.0.0.1:80\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )
    assert request("GET", "/health", host="h") == b"GET /health HTTP/1.1\r\nhost: h\r\n\r\n"


# ------------------------------------------------------------------- scripts


def test_connections_share_what_is_to_be_published():
    left = iter(range(3))
    one, two = Publishing(b"x", left), Publishing(b"x", left)
    created = Answer(201, b"{}")
    assert [one.next(None), two.next(None), one.next(created), two.next(created)] == [b"x", b"x", b"x", None]


def test_an_answer_that_is_not_hoped_for_ends_the_run():
    with pytest.raises(RuntimeError, match="answered 503: full"):
        Publishing(b"x", iter(range(3))).next(Answer(503, b"full"))


def test_a_worker_takes_and_completes_until_there_is_nothing():
    worker = WorkingOneByOne("h", "w")
    subscribe = worker.next(None)
    report = worker.next(Answer(200, b'{"id":5,"fence":2,"payload":{"id":9}}'))
    assert report is not None
    assert report.startswith(b"POST /events/5/complete ")
    head, body = report.split(b"\r\n\r\n")
    assert json.loads(body) == {"worker_id": "w", "execution_time_ms": 5, "status_code": 200, "fence": 2}
    assert f"content-length: {len(body)}".encode() in head
    assert worker.next(Answer(200, b"{}")) == subscribe
    assert worker.next(Answer(204, b"")) is None
    assert worker.completed == 1


def test_a_worker_completes_a_batch_in_one_request():
    worker = WorkingInBatches("h", "w", 100)
    subscribe = worker.next(None)
    report = worker.next(Answer(200, b'{"events":[{"id":5,"fence":1},{"id":6,"fence":1}]}'))
    assert report is not None
    assert [entry["event_id"] for entry in json.loads(report.split(b"\r\n\r\n")[1])["reports"]] == [5, 6]
    assert worker.next(Answer(200, b'{"results":[{"status":200},{"status":200}]}')) == subscribe
    assert worker.next(Answer(200, b'{"events":[]}')) is None
    assert worker.completed == 2


def test_a_refused_report_ends_the_run():
    worker = WorkingInBatches("h", "w", 100)
    worker.next(None)
    worker.next(Answer(200, b'{"events":[{"id":5,"fence":1}]}'))
    with pytest.raises(RuntimeError, match="refused reports of w"):
        worker.next(Answer(200, b'{"results":[{"status":409}]}'))


# ------------------------------------------------------------------- driving


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[socket.socket], None]], int]]:
    """A server on a free port that does with each connection what it is told."""
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def start(behave: Callable[[socket.socket], None], connections: int = 2) -> int:
        def run() -> None:
            for _ in range(connections):
                accepted, _ = listening.accept()
                thread = threading.Thread(target=behave, args=(accepted,))
                thread.start()
                threads.append(thread)

        threads.append(threading.Thread(target=run))
        threads[0].start()
        port: int = listening.getsockname()[1]
        return port

    yield start
    for thread in threads:
        thread.join(10)
    listening.close()


def test_every_request_is_sent_whole_and_timed(serve):
    wanted = publish_request("h", batch=5000)  # more than a socket takes at once

    def behave(accepted: socket.socket) -> None:
        with accepted:
            while True:
                got = 0
                while got < len(wanted):
                    data = accepted.recv(65536)
                    if not data:
                        return
                    got += len(data)
                accepted.sendall(CREATED)

    with Driver("127.0.0.1", serve(behave)) as driver:
        left = iter(range(6))
        seconds, times = driver.run(driver.connect(2), [Publishing(wanted, left), Publishing(wanted, left)])
    assert len(times) == 6
    assert all(0 < took <= seconds for took in times)
    assert next(left, None) is None


def test_a_connection_that_is_closed_ends_the_run(serve):
    port = serve(lambda accepted: accepted.close(), 1)
    with Driver("127.0.0.1", port) as driver, pytest.raises(ConnectionError):
        driver.run(driver.connect(1), [Publishing(b"x", iter(range(2)))])


def test_an_answer_that_nobody_asked_for_ends_the_run(serve):
    def behave(accepted: socket.socket) -> None:
        with accepted:
            accepted.sendall(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\n\r\nslow")

    with Driver("127.0.0.1", serve(behave, 1)) as driver:
        driver.connect(1)
        with pytest.raises(ConnectionError, match="408 to nobody"):
            driver.step(10)


def test_a_process_can_be_looked_at():
    mine = cpu_seconds(os.getpid()), memory_mb(os.getpid())
    assert mine[0] is not None
    assert mine[0] > 0
    assert mine[1] is not None
    assert 5 < mine[1] < 5000
    assert (cpu_seconds(2**22 + 1), memory_mb(2**22 + 1)) == (None, None)


# --------------------------------------------------------------- whole runs


async def test_every_http_workload_runs_on_both_engines(databases):
    told: list[Step] = []
    async with databases:
        result = await run_bench([databases], TINY, tell=told.append)
    assert [figure.workload for figure in result.figures] == list(HTTP_WORKLOADS)
    assert len(told) == steps([databases], TINY)
    compared = {"http-publish", "claim-by-tag"} if databases.engine == "postgres" else {"claim-by-tag"}
    for figure in result.figures:
        assert math.isfinite(figure.ours.median)
        assert figure.ours.median > 0
        assert (figure.raw is not None) == (figure.workload in compared)
        assert figure.note == ""
    waiting = next(figure for figure in result.figures if figure.workload == "http-long-poll")
    assert 20 < waiting.more["server's memory MB"].median < 300


async def test_without_fastapi_the_figure_says_how_to_get_it(monkeypatch, postgres_url):
    monkeypatch.setattr(workloads, "has_rival", lambda: False)
    settings = BenchSettings(http=True, events=100, rounds=1, connections=2, only=("http-publish",))
    async with PostgresDatabases(postgres_url) as databases:
        figure = (await run_bench([databases], settings)).figures[0]
    assert figure.raw is None
    assert "pip install fastapi" in figure.note


async def test_a_server_that_does_not_start_is_an_error(tmp_path):
    with pytest.raises(EventHubError, match="before it listened"):
        async with processes.hub_server(str(tmp_path / "no" / "such" / "place.db")):
            pass


async def test_a_load_that_breaks_off_says_why():
    nobody = processes.ServerProcess("127.0.0.1", 1, os.getpid())
    with pytest.raises(EventHubError, match="ConnectionRefusedError"):
        await processes.put_load(nobody, "publish", connections=1, count=1)


def test_a_load_that_finds_other_work_than_was_put_there_is_an_error(serve):
    def behave(accepted: socket.socket) -> None:
        with accepted:
            accepted.recv(65536)
            accepted.sendall(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n")
            accepted.recv(65536)

    orders = Orders(kind="work", host="127.0.0.1", port=serve(behave, 1), process=1, connections=1, count=5)
    with pytest.raises(RuntimeError, match="0 jobs were completed instead of 5"):
        apply(orders)


# ------------------------------------------------------ settings and targets


def test_targets_look_at_what_else_was_measured():
    def one(value: float) -> Spread:
        return spread([value])

    outcomes = judge(
        "postgres",
        "http-publish",
        ours=one(9000),
        ratio=one(1.5),
        of_drain=None,
        more={"p99 ms": one(20)},
    )
    assert [(outcome.target, outcome.met) for outcome in outcomes] == [
        ("≥ 8,000/s", True),
        ("p99 < 30 ms", True),
        ("≥ 2× FastAPI", False),
    ]


def test_what_was_not_measured_is_not_judged():
    outcomes = judge("sqlite", "http-long-poll", ours=spread([5.0]), ratio=None, of_drain=None, more={})
    assert outcomes == []


def test_http_workloads_are_chosen_by_their_own_names():
    assert chosen(("http-publish",), HTTP_WORKLOADS) == ("http-publish", "http-publish-batch")
    with pytest.raises(SettingsError, match="There is no workload drain; there are http-publish,"):
        BenchSettings(http=True, only=("drain",))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--connections", "0"], "connections is 0; give 1 or more."),
        (["--workers", "0"], "workers is 0; give 1 or more."),
        (["--held-snapshot"], "A held snapshot is only measured without HTTP and Spark"),
    ],
)
def test_a_wrong_call_says_what_would_work(capsys, arguments, said):
    assert main(["bench", "--http", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_people_get_a_table_with_what_else_was_measured(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["bench", "--http", "--db", str(tmp_path), "--engine", "sqlite", "--events", "1000", "--rounds", "1",
                 "--connections", "4", "--only", "http-work"]) == 0  # fmt: skip
    shown = " ".join(capsys.readouterr().out.split())
    assert "subscribe + complete, 4 workers" in shown
    assert "beside it" in shown
    assert " ms" in shown
    assert " %" in shown
