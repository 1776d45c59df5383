"""The comparison with peers: our own adapter, the arithmetic and the files; peers are not installed here."""

import asyncio
import json
import os
from xml.etree import ElementTree as ET

import pytest

from benchmarks import compare
from benchmarks.comparing.conversation import Adapter, Missing
from benchmarks.comparing.results import compare as compared
from benchmarks.comparing.results import figure
from benchmarks.comparing.rounds import in_turn
from benchmarks.comparing.settings import WORKLOADS, Settings, check_names, chosen, workloads_of
from benchmarks.comparing.systems import SYSTEMS
from benchmarks.comparing.tables import short
from benchmarks.peers.held import Held
from benchmarks.peers.pausing import Pause
from benchmarks.peers.peer import OrderedTally, spread_over
from eventhub.bench.figures import Sample, spread
from eventhub.bench.payloads import PAYLOAD
from eventhub.bench.pipeline import stage
from eventhub.bench.pipeline.stage import JAR_VARIABLE

OURS = next(system for system in SYSTEMS if system.name == "eventhub")


async def test_our_adapter_handles_every_event_once_and_keys_in_order(sqlite_path):
    async with Adapter(OURS, str(sqlite_path), PAYLOAD, os.dup(2)) as adapter:
        assert (await adapter.ask("batch", count=30, size=20))["count"] == 30
        assert (await adapter.ask("waiting"))["count"] == 31  # one to warm up
        drained = await adapter.ask("drain", count=31, seconds=30.0, settle=True)
        assert (drained["count"], drained["handled"], drained["left"]) == (31, 31, 0)
        assert drained["settled"] >= drained["seconds"] >= drained["first"]
        ordered = await adapter.ask("ordered", count=30, keys=3, seconds=30.0)
        assert (ordered["handled"], ordered["left"]) == (30, 0)
        with pytest.raises(Missing, match="it knows no 'juggle'"):
            await adapter.ask("juggle")


def test_a_run_writes_figures_tables_and_plots(tmp_path, capsys):
    arguments = ["--engine", "sqlite", "--systems", "eventhub,raw", "--only", "publish-batch,drain", "--rounds", "2",
                 "--events", "200", "--backlog", "0", "--results", str(tmp_path),
                 "--directory", str(tmp_path)]  # fmt: skip
    assert compare.main(arguments) == 0
    told = capsys.readouterr()
    assert told.err.count("drain ") == 4
    result = json.loads((tmp_path / "sqlite.json").read_text())
    assert {one["name"]: one["kind"] for one in result["systems"]} == {"eventhub": "ours", "raw": "limit"}
    figures = {(one["workload"], one["system"]): one for one in result["figures"]}
    assert set(figures) == {(w, s) for w in ("publish-batch", "drain") for s in ("eventhub", "raw")}
    for one in figures.values():
        assert len(one["values"]["samples"]) == 2
        assert one["troubles"] == []
    (ratio,) = [one["ratio"] for one in result["comparisons"] if one["workload"] == "drain"]
    ours, raw = (figures["drain", name]["values"]["samples"] for name in ("eventhub", "raw"))
    assert ratio["samples"] == pytest.approx([a / b for a, b in zip(ours, raw, strict=True)])
    assert (tmp_path / "sqlite.md").read_text() in told.out
    for name in ("publish-batch", "drain"):
        drawing = ET.parse(tmp_path / f"sqlite-{name}.svg").getroot()
        assert len(drawing.findall("{*}rect")) == 2
    assert not list(tmp_path.glob("eventhub-bench-*"))


def test_latencies_count_from_the_return_and_from_the_call_and_a_sustained_run_completes_what_it_published(
    tmp_path, capsys
):
    arguments = ["--engine", "sqlite", "--systems", "eventhub,raw", "--only", "latency,sustained", "--rounds", "1",
                 "--events", "200", "--latencies", "3", "--sustained-seconds", "0.5", "--results", str(tmp_path),
                 "--directory", str(tmp_path)]  # fmt: skip
    assert compare.main(arguments) == 0
    capsys.readouterr()
    result = json.loads((tmp_path / "sqlite.json").read_text())
    figures = {(one["workload"], one["system"]): one for one in result["figures"]}
    for name in ("latency", "latency-same-process"):
        latency = figures[name, "eventhub"]
        assert latency["more"]["from the call"]["median"] > latency["values"]["median"]
    more = figures["sustained", "eventhub"]["more"]
    assert more["published"]["median"] >= more["events"]["median"] > 0
    assert figures["sustained", "raw"]["missing"] == "a driver has no worker"
    assert "from the call" in (tmp_path / "sqlite.md").read_text()


async def test_draining_under_a_snapshot_has_the_same_beside_it_without_and_a_backlog_is_tidied(
    tmp_path, capsys, postgres_url
):
    arguments = ["--engine", "postgres", "--systems", "eventhub", "--only", "drain-free,drain-held,drain-backlog",
                 "--rounds", "1", "--events", "200", "--backlog", "300", "--held-seconds", "0.1", "--db", postgres_url,
                 "--results", str(tmp_path)]  # fmt: skip
    assert await asyncio.to_thread(compare.main, arguments) == 0
    capsys.readouterr()
    result = json.loads((tmp_path / "postgres.json").read_text())
    assert [one["workload"] for one in result["figures"]] == ["drain-backlog", "drain-free", "drain-held"]
    assert all(one["troubles"] == [] for one in result["figures"])
    assert all(one["more"]["last drain"]["median"] > 0 for one in result["figures"][1:])


async def test_a_connection_is_lent_to_one_at_a_time_and_not_opened_twice():
    opened = iter(range(10))
    held = Held(lambda: asyncio.sleep(0, next(opened)))
    async with held.one() as first, held.one() as second:
        assert (first, second) == (0, 1)
    async with held.one() as again:
        assert again == 0
    await held.open(3)
    assert sorted(held.all()) == [0, 1, 2]


async def test_a_pause_ends_with_what_came_while_one_looked():
    pause = Pause(notified=True)
    pause.begin()
    pause.end()
    await asyncio.wait_for(pause.wait(), 0.5)
    await asyncio.wait_for(Pause(notified=False).wait(), 0.5)  # without notifications it looks again by itself


def test_figures_leave_out_rounds_that_failed_and_ratios_are_taken_round_by_round():
    mine = [Sample(10.0, {"p99": 1.0}), Sample(30.0, {"p99": 3.0}), None]
    theirs = [Sample(5.0), Sample(10.0), Sample(1.0)]
    found = figure("drain", "eventhub", mine, "", ["late", "late"])
    assert found.values == spread([10.0, 30.0])
    assert found.more == {"p99": spread([1.0, 3.0])}
    assert found.troubles == ["late"]
    (one,) = compared("drain", {"eventhub": mine, "other": theirs, "absent": [None, None, None]})
    assert (one.system, one.ratio.samples) == ("other", [2.0, 3.0])


def test_turns_are_shuffled_for_each_workload_and_round_and_can_be_repeated():
    systems = ["a", "b", "c", "d", "e"]
    orders = [in_turn(systems, 1, workload, number) for workload in ("drain", "ordered") for number in range(1, 9)]
    assert all(sorted(order) == systems for order in orders)
    assert orders == [in_turn(systems, 1, w, number) for w in ("drain", "ordered") for number in range(1, 9)]
    assert {order[0] for order in orders} == set(systems)
    assert {order[order.index("a") - 1] for order in orders} == {"b", "c", "d", "e"}
    assert in_turn(systems, 2, "drain", 1) != orders[0]


def test_events_out_of_order_are_seen():
    tally = OrderedTally(3)
    for key, number in (("a", 1), ("b", 0), ("a", 0)):
        tally({"key": key, "number": number})
    assert (tally.full, tally.out_of_order) == (True, 1)


def test_batches_numbers_and_names():
    assert spread_over(2500, 1000) == [1000, 1000, 500]
    assert [short(value) for value in (123_456.0, 4321.0, 12.345, 0.5)] == ["123,000", "4,320", "12.3", "0.5"]
    assert chosen(("publish",), WORKLOADS) == ("publish-1", "publish-16", "publish-batch")
    with pytest.raises(ValueError, match="There is no workload sing"):
        check_names(("sing",), WORKLOADS, "workload")
    with pytest.raises(ValueError, match="rounds is 0"):
        Settings(rounds=0)


def test_unknown_or_absent_systems_are_named(tmp_path, capsys):
    assert compare.main(["--systems", "nobody", "--results", str(tmp_path)]) == 2
    assert "There is no system nobody" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_clients_of_webhooks_take_turns(tmp_path, capsys, postgres_url):
    """Event Hub's own side of it is run in tests/bench."""
    arguments = ["--engine", "webhooks", "--systems", "sender,aiohttp", "--only", "webhook-rate-ordered",
                 "--rounds", "1", "--events", "200", "--db", postgres_url, "--results", str(tmp_path)]  # fmt: skip
    assert compare.main(arguments) == 0
    capsys.readouterr()
    result = json.loads((tmp_path / "webhooks.json").read_text())
    assert {one["name"]: one["kind"] for one in result["systems"]} == {"aiohttp": "peer", "sender": "limit"}
    assert [(one["system"], one["troubles"], one["values"]["median"] > 0) for one in result["figures"]] == [
        ("aiohttp", [], True),
        ("sender", [], True),
    ]
    assert "webhooks/s" in (tmp_path / "webhooks.md").read_text()
    assert (tmp_path / "webhooks-webhook-rate-ordered.svg").exists()


def test_a_missing_driver_for_java_is_told_before_anything_is_done(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv(JAR_VARIABLE, raising=False)
    monkeypatch.setattr(stage, "DEBIAN_JAR", str(tmp_path / "none.jar"))
    assert compare.main(["--engine", "spark", "--results", str(tmp_path)]) == 2
    assert "apt-get install libpostgresql-jdbc-java" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_what_a_subject_does_not_have_is_left_out():
    drains = Settings(only=("drain",), backlog=0)
    assert workloads_of("postgres", drains) == ("drain", "drain-free", "drain-held")
    assert "sustained" not in workloads_of("postgres", Settings(sustained_seconds=0))
    assert workloads_of("sqlite", drains) == ("drain",)
    assert workloads_of("spark", drains) == ()
    assert workloads_of("spark", Settings(only=("pipeline-read",))) == ("pipeline-read-1", "pipeline-read-2")
