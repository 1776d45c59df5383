"""The webhook benchmark: its receiver and client by themselves, and a tiny run of every workload; nothing is timed."""

import asyncio
import itertools
import math
from contextlib import asynccontextmanager

import msgspec
import pytest

from eventhub.bench import BenchSettings, run_bench
from eventhub.bench.databases import Databases, PostgresDatabases, SqliteDatabases
from eventhub.bench.http.processes import BenchFailed
from eventhub.bench.running import Step, steps
from eventhub.bench.settings import WEBHOOK_WORKLOADS, chosen
from eventhub.bench.webhooks import flow as flows
from eventhub.bench.webhooks.client import ClientOrders, requests
from eventhub.bench.webhooks.flow import Flow
from eventhub.bench.webhooks.processes import dispatcher, receiver, send_alone
from eventhub.bench.webhooks.receiver import HOT, TIMED, Book, ReceiverOrders, Tally
from eventhub.bench.webhooks.stage import A, event, stage
from eventhub.bench.workloads import Context
from eventhub.cli import main
from eventhub.core.signing import parse_secret, sign
from eventhub.hub.credentials import new_secret

TINY = BenchSettings(
    webhooks=True, events=300, backlog=5000, rounds=1, subscribers=10, paced=3, latencies=3, hang_seconds=0.5
)
BODY = b'{"type":"bench.a","data":{"key":"k","number":7}}'


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request, tmp_path) -> Databases:
    if request.param == "sqlite":
        return SqliteDatabases(tmp_path)
    return PostgresDatabases(request.getfixturevalue("postgres_url"))


def body(key: str, number: int) -> bytes:
    return f'{{"data":{{"key":"{key}","number":{number},"paid":true}}}}'.encode()


# -------------------------------------------------------------- the receiver


def test_webhooks_are_counted_by_path():
    book = Book(ReceiverOrders(secret=new_secret()))
    for path in (b"/1", b"/2", b"/1"):
        book.enter(path, BODY)
    tally = book.tally()
    assert tally.counts == {"/1": 2, "/2": 1}
    assert tally.received == 3


def test_what_is_out_of_order_or_comes_twice_is_seen():
    book = Book(ReceiverOrders(secret=new_secret(), ordered=True))
    for number in (1, 2, 2, 1, 5):
        book.enter(b"/1", body("a", number))
    book.enter(b"/2", body("a", 1))
    book.enter(b"/1", body("b", 1))
    assert book.tally().out_of_order == 2


def test_a_hot_key_is_counted_by_itself():
    book = Book(ReceiverOrders(secret=new_secret(), ordered=True))
    book.enter(b"/1", body(HOT, 1))
    book.enter(b"/1", body("a", 1))
    assert book.tally().counts == {HOT: 1, "/1": 1}


def test_times_are_told_once_and_are_those_of_the_first():
    book = Book(ReceiverOrders(secret=new_secret()))
    book.enter(TIMED.encode(), body("", 7))
    book.enter(b"/1", body("", 8))
    first = book.tally()
    assert list(first.times) == [7]
    assert first.times[7] <= first.at
    assert book.tally().times == {}


@pytest.mark.parametrize(
    ("headers", "forged"),
    [
        ("webhook-id: m\r\nwebhook-timestamp: 5\r\nwebhook-signature: {right}", 0),
        ("webhook-id: m\r\nwebhook-timestamp: 6\r\nwebhook-signature: {right}", 1),
        ("webhook-id: m\r\nwebhook-timestamp: x\r\nwebhook-signature: {right}", 1),
        ("webhook-id: m\r\nwebhook-timestamp: 5", 1),
    ],
)
def test_signatures_are_checked(headers, forged):
    secret = new_secret()
    right = sign([parse_secret(secret)], "m", 5, BODY)
    book = Book(ReceiverOrders(secret=secret))
    book.check(f"POST /1 HTTP/1.1\r\n{headers.format(right=right)}\r\n\r\n".encode() + BODY, BODY)
    tally = book.tally()
    assert (tally.checked, tally.forged) == (1, forged)


@pytest.mark.parametrize("client", ["sender", "aiohttp"])
async def test_a_client_alone_reaches_the_receiver_with_good_signatures(client):
    secret = new_secret()
    async with receiver(ReceiverOrders(secret=secret, sample=1)) as to:
        orders = ClientOrders(
            client=client, urls=[f"{to.base}/1"], payload='{"n":1}', secret=secret, concurrency=2, count=50
        )
        report = await send_alone(orders)
        tally = await to.look()
    assert report.seconds > 0
    assert tally.counts == {"/1": 90}  # with 20 of each task that warm up
    assert tally.checked > 0 or client == "aiohttp"  # which may send head and body apart
    assert tally.forged == 0


async def test_a_client_whose_requests_are_not_answered_says_so():
    orders = ClientOrders(
        client="sender", urls=["http://127.0.0.1:1/"], payload="{}", secret=new_secret(), concurrency=1, count=1
    )
    with pytest.raises(BenchFailed, match="answered None instead of 200"):
        await send_alone(orders)


def test_requests_are_those_of_the_dispatcher():
    orders = ClientOrders(
        client="sender",
        urls=["http://h/1", "http://h/2"],
        payload='{"n":1}',
        secret=new_secret(),
        concurrency=1,
        count=1,
    )
    made = requests(orders)
    assert [request.url for request in made] == orders.urls
    assert msgspec.json.decode(made[0].body)["data"] == {"n": 1}
    assert {"content-type", "webhook-id", "webhook-timestamp", "webhook-signature"} <= made[0].headers.keys()


# ------------------------------------------------------------------ the flow


@asynccontextmanager
async def playing(tmp_path):
    async with SqliteDatabases(tmp_path) as databases, stage(Context(databases, TINY)) as on:
        yield on


async def test_a_flow_is_bounded_and_all_of_it_arrives(tmp_path, monkeypatch):
    monkeypatch.setattr(flows, "BACKLOG", 40)
    monkeypatch.setattr(flows, "TOGETHER", 20)
    async with playing(tmp_path) as on:
        await on.subscribe([A])
        async with dispatcher(on.url, on.secret_file) as sending:
            flow = Flow(on, sending, (event(number, A) for number in itertools.count()), 1)
            sample = await flow.measure(100)
            await flow.end()
        assert sample.value > 0
        received = (await on.receiver.look()).received
    assert received % 20 == 0
    assert 200 <= received <= 260


async def test_a_dispatcher_that_ends_is_noticed(tmp_path):
    nowhere = str(tmp_path / "no" / "such" / "place.db")
    async with playing(tmp_path) as on, dispatcher(nowhere, on.secret_file) as sending:
        flow = Flow(on, sending, (event(number, A) for number in itertools.count()), 1)
        with pytest.raises(BenchFailed, match="The dispatcher ended with code"):
            await asyncio.wait_for(flow.measure(100), 60)


@pytest.mark.parametrize(
    ("tally", "said"),
    [
        (Tally(at=0.0, counts={}, checked=3, forged=1), "1 of 3 signatures were wrong"),
        (Tally(at=0.0, counts={}, out_of_order=2), "2 webhooks came out of order"),
    ],
)
def test_what_is_wrong_ends_the_run(tally, said):
    with pytest.raises(BenchFailed, match=said):
        flows.check(tally)


# --------------------------------------------------------------- whole runs


@pytest.mark.timeout(300)
async def test_every_webhook_workload_runs_on_both_engines(databases):
    told: list[Step] = []
    async with databases:
        result = await run_bench([databases], TINY, tell=told.append)
    assert [figure.workload for figure in result.figures] == list(WEBHOOK_WORKLOADS)
    assert len(told) == steps([databases], TINY)
    for figure in result.figures:
        assert math.isfinite(figure.ours.median)
        assert figure.ours.median > 0
        assert (figure.raw is None) == (figure.workload == "webhook-idle")
    published = result.figures[-1]
    assert set(published.more) == {"while handed out /s", "messages made /s"}
    assert set(published.raw_more) == {"while handed out /s"}


def test_people_get_a_table_of_webhooks(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["bench", "--webhooks", "--db", str(tmp_path), "--engine", "sqlite", "--events", "200", "--rounds", "1",
                 "--only", "webhook-client"]) == 0  # fmt: skip
    shown = " ".join(capsys.readouterr().out.split())
    assert "the sender alone" in shown
    assert "beside it aiohttp alone" in shown
    assert "/s" in shown


def test_webhook_workloads_are_chosen_by_their_own_names():
    assert chosen(("webhook-rate",), WEBHOOK_WORKLOADS) == ("webhook-rate", "webhook-rate-ordered")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--http"], "Give --http, --webhooks or --pipeline"),
        (["--subscribers", "0"], "subscribers is 0; give 1 or more."),
        (["--held-snapshot"], "A held snapshot is only measured without HTTP and Spark"),
        (["--only", "drain"], "There is no workload drain; there are webhook-rate,"),
    ],
)
def test_a_wrong_call_says_what_would_work(capsys, arguments, said):
    assert main(["bench", "--webhooks", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
