"""The report: its figures are those of the marts, and whatever stands in them is text, never markup."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from eventhub.errors import EventHubError
from eventhub.lake.figures import COUNTS
from eventhub.lake.files import write_day_files
from eventhub.lake.marts import MARTS
from eventhub.lake.place import Lake
from eventhub.pipeline.report import write_report
from eventhub.pipeline.report.charts import Series, line_chart

LAST = datetime(2026, 3, 3, tzinfo=UTC)
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style></svg></title><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "<!-- ]]> {{7*7}} &lt;b&gt;",
    "a\u202eb\x00c\x1b[31m",
)


def put(lake: Lake, path: str, rows: list[dict[str, Any]]) -> None:
    table = lake.derived(path, MARTS[path])
    filled = [dict.fromkeys(MARTS[path].names) | row for row in rows]
    batch = pa.RecordBatch.from_pylist(filled, schema=MARTS[path])
    entries = list(write_day_files([batch], *table.filesystem(), name="t"))
    table.commit(entries, source="t", number=1)


def counted(dimension: str, name: str, day: date, **more: Any) -> dict[str, Any]:
    shapes = {f"{shape}_{share}": 10 for shape in ("wait", "duration", "latency") for share in ("p50", "p90", "p99")}
    return {**dict.fromkeys(COUNTS, 0), **shapes, "dimension": dimension, "name": name, "day": day, **more}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three days, of which a report of two tells the last; every name in it is hostile."""
    made = Lake(str(tmp_path / "lake"))
    days = [(LAST - timedelta(days=back)).date() for back in (2, 1, 0)]
    dimensions = [
        ("type", HOSTILE[0]),
        ("subscriber", "7"),
        ("worker", HOSTILE[1]),
        ("worker", "w2"),
        ("queue", HOSTILE[2]),
    ]
    daily = []
    for number, day in enumerate(days):
        seen = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        numbers = {"published": 100, "attempts": 20, "succeeded": 15, "failed": 4, "abandoned": 1, "dead": 2}
        daily.append(counted("all", "", day, **numbers, latency_p50=number * 100, latency_p99=1000 - number))
        for dimension, name in dimensions:
            late = seen - timedelta(hours=3) if name == "w2" else seen
            daily.append(counted(dimension, name, day, **numbers, last_seen=late))
    put(made, "marts/daily", daily)
    hours = [LAST - timedelta(hours=back) for back in (47, 24, 2, 0)]
    put(
        made,
        "marts/hourly",
        [
            {**counted("all", "", hour.date(), published=10 * place, latency_p50=None), "hour": hour}
            for place, hour in enumerate(hours, 1)
        ]
        + [{**counted("type", "x", LAST.date(), published=99), "hour": LAST}],
    )
    put(
        made,
        "marts/queue_depth",
        [
            {"hour": hours[1], "queue": HOSTILE[3], "entered": 5, "left": 1, "depth": 4, "day": hours[1].date()},
            {"hour": hours[3], "queue": HOSTILE[3], "entered": 0, "left": 4, "depth": 0, "day": hours[3].date()},
        ],
    )
    dead = {
        "error_fingerprint": "f",
        "reason": HOSTILE[4],
        "dead": 3,
        "first_at": LAST,
        "last_at": LAST,
        "example_error": HOSTILE[5],
        "types": [HOSTILE[0]],
    }
    put(made, "marts/dead_triage", [{**dead, "event_ids": [number, 9], "day": day} for number, day in enumerate(days)])
    key = {"queue": HOSTILE[2], "ordering_key": HOSTILE[1], "deliveries": 8, "failures": 2, "dead": 1}
    put(
        made,
        "marts/hot_keys",
        [{**key, "longest_wait_ms": number, "longest_total_ms": None, "day": day} for number, day in enumerate(days)],
    )
    return made


def test_the_figures_are_those_of_the_last_days(lake: Lake, tmp_path: Path) -> None:
    figures = write_report(lake, tmp_path / "report.html", days=2, subscribers={"7": "<i>shop</i>"})
    assert (figures.first_day, figures.last_day, figures.step) == (date(2026, 3, 2), date(2026, 3, 3), "hour")
    assert figures.total.counts["published"] == 200
    assert figures.total.failure_rate == 0.25
    assert (figures.total.latency_p50, figures.total.latency_p99) == (150, 999)
    assert [moment.counts["published"] for moment in figures.moments] == [20, 30, 40]
    assert [depth.depths for depth in figures.depths] == [[4, 4, 0]]
    assert [(one.name, one.id) for one in figures.subscribers] == [("<i>shop</i>", "7")]
    assert {one.name: one.stale for one in figures.workers} == {HOSTILE[1]: False, "w2": True}
    assert [(group.dead, group.event_ids) for group in figures.dead] == [(6, [1, 2, 9])]
    assert [(key.deliveries, key.longest_wait_ms, key.longest_total_ms) for key in figures.keys] == [(16, 2, None)]
    told = json.loads((tmp_path / "report.json").read_text())
    assert told["total"]["counts"] == figures.total.counts
    assert told["dead"][0]["example_error"] == HOSTILE[5]


class Checker(HTMLParser):
    """All elements and attributes of a document; that they are closed as they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_whatever_names_and_errors_say_is_text(lake: Lake, tmp_path: Path) -> None:
    write_report(lake, tmp_path / "report.html", days=3, subscribers={"7": HOSTILE[0]})
    text = (tmp_path / "report.html").read_text()
    found = Checker()
    found.feed(text)
    assert found.open == []
    assert not found.seen & {"script", "img", "iframe", "link", "object", "a", "form"}
    assert not {name for name in found.attributes if name.startswith("on") or name in ("href", "src", "style")}
    assert not re.search(r"https?:|@import|url\(|\x00|\x1b|\u202e", text)
    assert all(hostile in "".join(found.texts) for hostile in HOSTILE[:5])


def test_what_was_before_and_who_did_little_is_told(tmp_path: Path) -> None:
    """A queue may be full since long before the report begins, and a stale worker is one of those who did least."""
    made = Lake(str(tmp_path / "lake"))
    day = LAST.date()
    busy = [counted("worker", f"w{number}", day, attempts=100, last_seen=LAST) for number in range(60)]
    gone = [counted("worker", "gone", day, attempts=1, last_seen=LAST - timedelta(hours=9))]
    put(made, "marts/daily", [counted("all", "", day, published=1), *busy, *gone])
    put(made, "marts/hourly", [{**counted("all", "", day, published=1), "hour": LAST}])
    before = LAST - timedelta(days=40)
    full = {"hour": before, "queue": "full", "entered": 9, "left": 2, "depth": 7, "day": before.date()}
    put(made, "marts/queue_depth", [full])
    figures = write_report(made, tmp_path / "report.html", days=2)
    assert [(depth.queue, depth.depths) for depth in figures.depths] == [("full", [7])]
    assert [one.name for one in figures.workers if one.stale] == ["gone"]
    assert len(figures.workers) == 51


def test_of_many_days_the_days_are_told(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    days = [(LAST - timedelta(days=back)).date() for back in range(30)]
    put(lake, "marts/daily", [counted("all", "", day, published=1) for day in days])
    figures = write_report(lake, tmp_path / "report.html", days=30)
    assert (figures.step, len(figures.moments), figures.types) == ("day", 30, [])
    assert figures.moments[0].at == datetime(2026, 2, 2, tzinfo=UTC)


def test_a_lake_without_marts_is_named(tmp_path: Path) -> None:
    with pytest.raises(EventHubError, match="eventhub pipeline run"):
        write_report(Lake(str(tmp_path / "lake")), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("values", [[0.0, 0.0], [None, 5.0], [1.0, 1e9], [0.001, None]])
@pytest.mark.parametrize("scale", ["linear", "durations"])
def test_charts_stay_inside_their_frame(values: list[float | None], scale: str) -> None:
    times = [LAST, LAST + timedelta(hours=1)]
    drawn = line_chart("t", times, [Series("s", values)], durations=scale == "durations")
    path = re.search(r' d="([^"]*)"', drawn)
    assert path is not None
    places = [float(number) for number in re.findall(r"[ML][\d.]+ (-?[\d.]+)", path[1])]
    assert all(0 <= place <= 240 for place in places)
    assert len(places) == sum(value is not None for value in values)


def test_scales_have_steps_that_people_count_in() -> None:
    times = [LAST, LAST + timedelta(hours=1)]
    counted = line_chart("t", times, [Series("s", [0, 1])])
    assert re.findall(r'class="scale">([^<]+)<', str(counted)) == ["0", "1"]
    waited = line_chart("t", times, [Series("s", [5.0, 7.0e6])], told=lambda value: f"{value:g}", durations=True)
    steps = re.findall(r'class="scale">([^<]+)<', str(waited))
    assert steps == ["1", "100", "10000", "600000", "3.6e+07"]
