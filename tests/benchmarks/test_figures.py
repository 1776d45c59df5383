"""Figures in the documentation are those of the last run, and come from nowhere else."""

import msgspec
import pytest

from benchmarks.comparing.results import Comparison, Figure, Noise, Result, SystemFacts
from benchmarks.comparing.settings import Settings
from benchmarks.comparing.systems import Kind
from benchmarks.figures import PAGES, TABLES, filled
from benchmarks.growing.results import Grown, line
from benchmarks.growing.settings import Settings as GrowthSettings
from eventhub.bench.figures import spread
from eventhub.bench.machine import machine_facts

NOISE = Noise(load_before=0.1, load_after=0.5, load_highest=0.9)
WHEN = "2026-01-02T03:04:05+00:00"
RATES = {"eventhub": 30_000.0, "pgqueuer": 10_000.0, "graphile-worker": 20_000.0, "raw": 60_000.0}


def result() -> Result:
    kinds: dict[str, Kind] = {"eventhub": "ours", "raw": "limit"}
    return Result(
        engine="postgres",
        began=WHEN,
        ended=WHEN,
        processor="a fast one",
        facts=machine_facts({"postgres": {"fsync": "on"}}),
        settings=Settings(rounds=2),
        noise=NOISE,
        systems=[
            SystemFacts(
                name=name,
                kind=kinds.get(name, "peer"),
                language="JavaScript" if name == "graphile-worker" else "Python",
                settings="",
                versions={},
            )
            for name in RATES
        ],
        workloads=[{"name": "drain", "title": "drain 50,000", "unit": "events/s"}],
        figures=[Figure(workload="drain", system=name, values=spread([rate])) for name, rate in RATES.items()],
        comparisons=[
            Comparison(workload="drain", system=name, ratio=spread([RATES["eventhub"] / rate]))
            for name, rate in RATES.items()
            if name != "eventhub"
        ],
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_say_what_the_results_say(page):
    text = page.read_text()
    assert text.count("<!-- figures: ") == text.count("<!-- end of figures -->") > 0
    assert filled(text) == text, "run `make bench-figures`"


def test_tables_are_filled_between_their_marks_and_nowhere_else(tmp_path):
    (tmp_path / "postgres.json").write_bytes(msgspec.json.encode(result()))
    page = "before\n<!-- figures: {} -->\nold\n<!-- end of figures -->\nafter\n"
    told = filled(page.format("ahead-postgres"), tmp_path)
    assert (
        "| drain 50,000, events/s | **30,000** "
        "| pgqueuer 10,000 (×3.00) | graphile-worker 20,000 (×1.50) | 60,000 (×0.50) |"
    ) in told.splitlines()
    assert "old" not in told
    assert (told.startswith("before\n<!-- figures"), told.endswith("<!-- end of figures -->\nafter\n")) == (True, True)
    assert filled(told, tmp_path) == told
    assert "| graphile-worker | 20,000 |" in filled(page.format("postgres"), tmp_path)
    assert "2,592 million" in filled(page.format("days"), tmp_path)
    assert "fsync on" in filled(page.format("standing"), tmp_path)


def test_curves_come_with_their_plots(tmp_path):
    grown = Grown(
        curve="keys",
        engine="sqlite",
        began=WHEN,
        ended=WHEN,
        processor="a fast one",
        facts=machine_facts({"sqlite": {}}),
        settings=GrowthSettings(),
        noise=NOISE,
        lines=[line("drain", {1: [20.0], 10: [40.0]}, {})],
    )
    (tmp_path / "growth-keys-sqlite.json").write_bytes(msgspec.json.encode(grown))
    told = filled("<!-- figures: growth -->\n<!-- end of figures -->", tmp_path)
    assert "| drain, µs | 20 (20–20) | 40 (40–40) | 2.00, **not flat** | 1.00 |" in told
    assert "](../../benchmarks/results/growth-keys-sqlite.svg)" in told


def test_what_was_not_measured_yet_says_how_to(tmp_path):
    for name, (_, command) in TABLES.items():
        told = filled(f"<!-- figures: {name} -->\n<!-- end of figures -->", tmp_path)
        assert f"`{command}` writes what belongs here" in told
    with pytest.raises(ValueError, match="There are no figures 'speed'"):
        filled("<!-- figures: speed -->\n<!-- end of figures -->", tmp_path)
