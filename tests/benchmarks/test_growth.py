"""Growth: tiny walks over sizes, and the arithmetic; nothing is timed."""

import json
from xml.etree import ElementTree as ET

import pytest

from benchmarks import growth
from benchmarks.growing.results import line
from benchmarks.growing.settings import SIZES, Settings
from benchmarks.growing.visits import VISITS
from eventhub.bench import BenchSettings
from eventhub.bench.databases import PostgresDatabases, SqliteDatabases
from eventhub.bench.workloads import Context


def test_a_walk_goes_there_and_back_and_is_written(tmp_path, capsys):
    arguments = ["--engine", "sqlite", "--only", "backlog", "--sizes", "20,60", "--events", "30", "--walks", "2",
                 "--results", str(tmp_path), "--directory", str(tmp_path)]  # fmt: skip
    assert growth.main(arguments) == 0
    told = capsys.readouterr()
    assert [text.split()[5] for text in told.err.splitlines()] == ["20", "60", "20", "20", "60", "20"]
    grown = json.loads((tmp_path / "growth-backlog-sqlite.json").read_text())
    assert [one["name"] for one in grown["lines"]] == ["publish", "drain"]
    for one in grown["lines"]:
        assert [(point["size"], len(point["values"]["samples"])) for point in one["points"]] == [(20, 4), (60, 2)]
    assert (tmp_path / "growth-backlog-sqlite.md").read_text() in told.out
    drawing = ET.parse(tmp_path / "growth-backlog-sqlite.svg").getroot()
    assert len(drawing.findall("{*}circle")) == 4
    assert not list(tmp_path.glob("eventhub-bench-*"))


@pytest.mark.parametrize("curve", ["keys", "tags"])
async def test_every_size_is_visited_by_the_public_faces(curve, postgres_url):
    async with PostgresDatabases(postgres_url) as databases:
        costs = await VISITS[curve](Context(databases, BenchSettings()), Settings(events=40), 3)
    assert {"publish", "drain"} <= set(costs)
    assert all(cost > 0 for cost in costs.values())


async def test_messages_come_to_every_subscriber(tmp_path):
    async with SqliteDatabases(tmp_path) as databases:
        costs = await VISITS["subscribers"](Context(databases, BenchSettings()), Settings(messages=40), 2)
    assert set(costs) == {"publish", "hand out to one", "hand out to all", "deliver"}
    assert all(cost > 0 for cost in costs.values())


def test_a_line_is_flat_until_its_end_costs_half_as_much_again():
    flat = line("drain", {10: [10.0, 12.0], 100: [16.0, 17.0]}, {10: [11.0, 11.0]})
    assert (flat.growth, flat.flat) == (1.5, True)
    assert flat.points[0].values.samples == [10.0, 12.0, 11.0, 11.0]
    assert flat.points[0].again == 1.0
    steep = line("drain", {10: [10.0], 100: [15.1]}, {10: [20.0]})
    assert (steep.points[0].again, steep.points[0].values.median) == (2.0, 15.0)
    assert not line("drain", {10: [10.0], 100: [15.1]}, {}).flat


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"only": ("depth",)}, "There is no curve depth; there are backlog, subscribers, keys, tags."),
        ({"sizes": (1, 2)}, "choose it with --only"),
        ({"only": ("keys",), "sizes": (5, 2)}, "do not grow"),
        ({"walks": 0}, "walks is 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        Settings(**wrong)


def test_sizes_are_those_of_the_curve_unless_given():
    assert Settings().sizes_of("keys") == SIZES["keys"]
    assert Settings(only=("keys",), sizes=(2, 4)).sizes_of("keys") == (2, 4)
