"""A tiny run of everything, to see that it works; nothing here is timed."""

import json
import math

import pytest

from eventhub.bench import WORKLOADS, BenchSettings, run_bench
from eventhub.bench.databases import Databases, PostgresDatabases, SqliteDatabases
from eventhub.bench.payloads import PAYLOAD_TEXT
from eventhub.bench.running import Step, steps
from eventhub.bench.settings import chosen
from eventhub.cli import main
from eventhub.errors import SettingsError

TINY = BenchSettings(events=200, backlog=5000, held_snapshot=True, rounds=1, latencies=3, dead=150, stuck=5)
NO_RAW = {("sqlite", "latency-other-process"), ("sqlite", "recovery"), ("postgres", "recovery")}


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request, tmp_path) -> Databases:
    if request.param == "sqlite":
        return SqliteDatabases(tmp_path)
    return PostgresDatabases(request.getfixturevalue("postgres_url"))


async def test_every_workload_runs_on_both_engines(databases):
    told: list[Step] = []
    async with databases:
        result = await run_bench([databases], TINY, tell=told.append)
    engine = databases.engine
    wanted = [name for name in WORKLOADS if (engine, name) != ("sqlite", "drain-held")]
    assert [figure.workload for figure in result.figures] == wanted
    assert len(told) == steps([databases], TINY)
    for figure in result.figures:
        assert math.isfinite(figure.ours.median)
        assert figure.ours.median >= 0
        assert (figure.raw is None) == (figure.ratio is None) == ((engine, figure.workload) in NO_RAW)
        assert (figure.of_drain is None) == (not figure.workload.startswith("drain-"))


async def test_rounds_are_kept_apart_and_summed_up(tmp_path):
    settings = BenchSettings(events=100, rounds=3, only=("publish-batch",))
    async with SqliteDatabases(tmp_path) as databases:
        (figure,) = (await run_bench([databases], settings)).figures
    assert len(figure.ours.samples) == 3
    assert figure.ours.low <= figure.ours.median <= figure.ours.high
    assert figure.raw is not None
    assert figure.ratio is not None
    pairs = zip(figure.ours.samples, figure.raw.samples, strict=True)
    assert figure.ratio.samples == [ours / raw for ours, raw in pairs]
    assert [outcome.target for outcome in figure.outcomes] == ["≥ 120,000/s"]


async def test_it_leaves_nothing_behind(databases, tmp_path, request):
    async with databases as opened:
        await run_bench([opened], BenchSettings(events=50, rounds=1, only=("publish-batch",)))
    if databases.engine == "sqlite":
        assert list(tmp_path.iterdir()) == []
    else:
        cluster = request.getfixturevalue("postgres")
        assert cluster.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'eventhub_bench%'") == "0"


async def test_the_private_server_waits_for_the_disk():
    async with PostgresDatabases() as databases:
        facts = databases.facts
    assert {name: facts[name] for name in ("fsync", "synchronous_commit", "full_page_writes", "shared_buffers")} == {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "shared_buffers": "256MB",
    }


def test_json_is_one_document_with_facts_and_figures(capsys, tmp_path):
    assert main(["bench", "--db", str(tmp_path), "--engine", "sqlite", "--events", "100", "--rounds", "1",
                 "--json", "--only", "publish,drain"]) == 0  # fmt: skip
    written = json.loads(capsys.readouterr().out)
    assert set(written) == {"facts", "settings", "figures"}
    assert written["facts"]["engines"]["sqlite"]["synchronous"] == "FULL"
    assert written["settings"]["events"] == 100
    names = [figure["workload"] for figure in written["figures"]]
    assert names == ["publish-1", "publish-16", "publish-batch", "drain"]
    for figure in written["figures"]:
        assert set(figure["ours"]) == {"median", "low", "high", "samples"}
        assert figure["ours"]["median"] > 0


def test_people_get_a_table_with_targets(capsys, tmp_path):
    assert main(["bench", "--db", str(tmp_path), "--engine", "sqlite", "--events", "100", "--rounds", "1",
                 "--only", "drain"]) == 0  # fmt: skip
    shown = capsys.readouterr().out
    assert "drain 100" in shown
    assert "raw limit" in shown
    assert "≥ 40,000/s" in shown
    assert "synchronous FULL" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "sleep"], "There is no workload sleep; there are publish-1,"),
        (["--rounds", "0"], "rounds is 0; give 1 or more."),
        (["--backlog", "10"], "backlog is 10; give 0 for none, or 5,000 and more."),
        (["--only", "drain-backlog"], "drain-backlog needs a backlog; give one, such as --backlog 1000000."),
        (["--only", "drain-held"], "drain-held needs --held-snapshot."),
        (["--db", "no/such/place"], "give a postgresql:// URL, or a directory"),
    ],
)
def test_a_wrong_call_says_what_would_work(capsys, arguments, said):
    assert main(["bench", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("only", "wanted"),
    [
        ((), WORKLOADS),
        (("publish",), ("publish-1", "publish-16", "publish-batch")),
        (("drain-backlog",), ("drain", "drain-backlog")),
        (("recovery", "latency-other-process"), ("latency-other-process", "recovery")),
    ],
)
def test_workloads_are_chosen_by_name_and_a_compared_drain_brings_the_plain_one(only, wanted):
    assert chosen(only) == wanted


@pytest.mark.parametrize("name", ["drain-", "publish-160", "x"])
def test_a_workload_that_is_none_is_refused(name):
    with pytest.raises(SettingsError, match="There is no workload"):
        chosen((name,))


def test_payloads_have_300_bytes():
    assert len(PAYLOAD_TEXT.encode()) == 300
