"""Figures in the documentation are those of the last run, and come from nowhere else."""

import msgspec
import pytest

from benchmarks.comparing.results import Figure, Noise, Result, SystemFacts, compare
from benchmarks.comparing.settings import Settings
from benchmarks.comparing.systems import Kind
from benchmarks.comparing.tables import markdown
from benchmarks.figures import PAGES, TABLES, filled
from benchmarks.growing.results import Grown, line
from benchmarks.growing.settings import Settings as GrowthSettings
from benchmarks.telling.peers import divided, times
from eventhub.bench.figures import Sample, spread
from eventhub.bench.machine import machine_facts

NOISE = Noise(load_before=0.1, load_after=0.5, load_highest=0.9)
WHEN = "2026-01-02T03:04:05+00:00"
RATES = {"eventhub": 30_000.0, "pgqueuer": 10_000.0, "graphile-worker": 20_000.0, "raw": 60_000.0}
TITLES = {"drain": "drain 50,000", "drain-free": "free", "drain-held": "held", "sustained": "both at once"}
WEATHER = (1.0, 0.9, 1.1)


def samples(system: str, workload: str) -> list[float]:
    """All systems have good and bad rounds together, but graphile-worker has them at other times."""
    weather = WEATHER[::-1] if system == "graphile-worker" else WEATHER
    part = {"drain-held": 0.8}.get(workload, 1.0)
    return [RATES[system] * part * one for one in weather]


def figures() -> list[Figure]:
    return [
        Figure(
            workload=workload,
            system=system,
            values=spread(samples(system, workload)),
            more={
                "until settled": spread([0.5 * value for value in samples(system, workload)]),
                "last drain": spread([0.7 * value for value in samples(system, workload)]),
            },
        )
        for workload in TITLES
        for system in RATES
    ]


def result(*, rounds: int = 3) -> Result:
    kinds: dict[str, Kind] = {"eventhub": "ours", "raw": "limit"}
    return Result(
        engine="postgres",
        began=WHEN,
        ended=WHEN,
        processor="a fast one",
        facts=machine_facts({"postgres": {"fsync": "on"}}),
        settings=Settings(rounds=rounds),
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
        workloads=[{"name": name, "title": title, "unit": "events/s"} for name, title in TITLES.items()],
        figures=figures(),
        comparisons=[
            one
            for workload in TITLES
            for one in compare(workload, {name: [Sample(v) for v in samples(name, workload)] for name in RATES})
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
        "| drain 50,000, events/s | **30,000** | pgqueuer 10,000, ×3.00 (3.00–3.00) "
        "| graphile-worker 20,000, ×1.50 (1.36–1.65) | 60,000, ×0.50 (0.50–0.50) |"
    ) in told.splitlines()
    assert "| the same, until nothing is left in its tables, events/s | **15,000** | pgqueuer 5,000, ×3.00" in told
    assert "Rounds: 3." in told
    assert "old" not in told
    assert (told.startswith("before\n<!-- figures"), told.endswith("<!-- end of figures -->\nafter\n")) == (True, True)
    assert filled(told, tmp_path) == told
    assert "| graphile-worker | 20,000 |" in filled(page.format("postgres"), tmp_path)
    assert "| postgres: both at once | 30,000/s | 2,592 million |" in filled(page.format("days"), tmp_path)
    assert ("| **eventhub** | 30,000 | 21,000 | 24,000 | 16,800 | 0.80 (0.80–0.80) | 0.80 (0.80–0.80) |") in filled(
        page.format("held"), tmp_path
    )
    assert "fsync on" in filled(page.format("standing"), tmp_path)


def test_both_engines_are_told_of_what_was_measured_alike(tmp_path):
    page = "<!-- figures: both -->\n<!-- end of figures -->"
    (tmp_path / "postgres.json").write_bytes(msgspec.json.encode(result()))
    assert "Not measured" in filled(page, tmp_path)
    other = msgspec.structs.replace(
        result(),
        engine="sqlite",
        workloads=[
            {"name": "drain", "title": "drain 50,000", "unit": "events/s"},
            {"name": "drain-free", "title": "free for longer", "unit": "events/s"},
        ],
        figures=[msgspec.structs.replace(one, values=spread([45_000.0])) for one in figures()],
    )
    (tmp_path / "sqlite.json").write_bytes(msgspec.json.encode(other))
    assert filled(page, tmp_path).splitlines()[2:5] == [
        "|  | postgres | sqlite |",
        "| --- | --- | --- |",
        "| drain 50,000, events/s | 30,000 | 45,000 |",
    ]


def test_who_is_ahead_in_some_rounds_only_is_even():
    assert times(spread([0.99, 1.05, 1.12])) == "even, ×1.05 (0.99–1.12)"
    assert times(spread([1.01, 1.05, 1.12])) == "×1.05 (1.01–1.12)"
    assert divided(spread([2.0, 3.0]), spread([4.0, 4.0])) == spread([0.5, 0.75])
    assert divided(spread([2.0]), spread([4.0, 4.0])) is None, "a round failed, and nobody knows which"


def test_fewer_than_three_rounds_are_called_a_trial(tmp_path):
    for rounds in (2, 3):
        (tmp_path / "postgres.json").write_bytes(msgspec.json.encode(result(rounds=rounds)))
        told = filled("<!-- figures: ahead-postgres -->\n<!-- end of figures -->", tmp_path)
        assert ("a trial, not a result" in told) == ("a trial, not a result" in markdown(result(rounds=rounds)))
        assert ("a trial, not a result" in told) == (rounds == 2)


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
