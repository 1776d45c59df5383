"""A report as one HTML file: style and charts are inside, there is no script, and nothing is fetched from anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.resources import files
from typing import Any, Final

from eventhub.lake.figures import Figures, Moment, Summary
from eventhub.pipeline.report.charts import Series, bar, line_chart, short
from eventhub.pipeline.report.markup import Content, Markup, raw, tag

__all__ = ["page"]

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
MANY_FAILURES: Final = 0.1
LONGEST_ERROR: Final = 600
MOST_QUEUES: Final = 8
_SECOND: Final = 1000.0
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE

Column = tuple[str, Callable[[Any], Content]]
"""A heading, and what stands below it; a heading that ends in a blank is that of numbers."""


def page(figures: Figures) -> str:
    """The whole document."""
    style = files("eventhub.pipeline.report").joinpath("style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"Event Hub, {figures.first_day} to {figures.last_day}"),
        tag("style", raw(style)),
    )
    return f"<!doctype html>\n{tag('html', head, tag('body', _body(figures)), lang='en')}\n"


def _body(figures: Figures) -> list[Content]:
    return [
        tag("h1", "Event Hub"),
        tag("p", f"{figures.first_day} to {figures.last_day}, UTC, from {figures.lake}", class_="soft"),
        tag("p", f"Made {figures.made_at:%Y-%m-%d %H:%M} UTC.", class_="soft"),
        _tiles(figures.total),
        _over_time(figures),
        _section("Failures by type", _dimension(figures.types, "type")),
        _section("Failures by subscriber", _dimension(figures.subscribers, "subscriber", publishes=False)),
        _section("Failures by worker", _dimension(figures.workers, "worker", publishes=False)),
        _section("Queues", _dimension(figures.queues, "queue")),
        _section("Tags", _dimension(figures.tags, "tag")),
        _section("Dead letters, by what they died of", _dead(figures)),
        _section("Busiest ordering keys", _keys(figures)),
        _section("Stale workers", _stale(figures)),
        tag(
            "p",
            "Percentiles of several days cannot be added up: the tables show the middle one of the days' p50, and the "
            "worst of their p99.",
            class_="soft",
        ),
    ]


def _section(title: str, *content: Content) -> Markup:
    return tag("section", tag("h2", title), *content)


def _tiles(total: Summary) -> Markup:
    counts = total.counts
    tiles = [
        (_whole(counts["published"]), "events published"),
        (_whole(counts["completed"]), "deliveries completed"),
        (_whole(counts["attempts"]), "attempts"),
        (_percent(total.failure_rate), "of attempts failed"),
        (_whole(counts["retries"]), "retries"),
        (_whole(counts["dead"]), "dead, not retried"),
        (_milliseconds(total.latency_p50), "published to completed, p50"),
        (_milliseconds(total.latency_p99), "the same, p99 of the worst day"),
    ]
    return tag(
        "div",
        (tag("div", tag("b", value), tag("span", words), class_="tile") for value, words in tiles),
        class_="tiles",
    )


def _over_time(figures: Figures) -> Markup:
    times = [moment.at for moment in figures.moments]

    def counted(*names: str) -> list[Series]:
        return [Series(name, [float(moment.counts[name]) for moment in figures.moments]) for name in names]

    def shaped(shape: str) -> list[Series]:
        def values(share: str) -> list[float | None]:
            return [_shape(moment, shape, share) for moment in figures.moments]

        return [Series(share, values(share)) for share in ("p50", "p90", "p99")]

    rates = [None if moment.failure_rate is None else 100 * moment.failure_rate for moment in figures.moments]
    busiest = sorted(figures.depths, key=lambda depth: -max(depth.depths, default=0))[:MOST_QUEUES]
    depths = [Series(depth.queue, [float(value) for value in depth.depths]) for depth in busiest]
    each = f"an {figures.step}" if figures.step == "hour" else f"a {figures.step}"
    latencies = shaped("latency")
    return _section(
        "Over time",
        line_chart(f"Throughput, {each}", times, counted("published", "completed", "failed", "dead")),
        line_chart("From published to completed", times, latencies, told=_milliseconds, durations=True),
        line_chart("From published to picked", times, shaped("wait"), told=_milliseconds, durations=True),
        line_chart("From picked to ended", times, shaped("duration"), told=_milliseconds, durations=True),
        line_chart("Attempts that failed", times, [Series("%", rates)], told=lambda value: f"{value:.3g} %"),
        line_chart(f"Open work at the end of each {figures.step}", times, depths),
    )


def _shape(moment: Moment, shape: str, share: str) -> float | None:
    found: dict[str, int | None] = getattr(moment, shape)
    value = found[share]
    return None if value is None else float(value)


def _dimension(summaries: Sequence[Summary], what: str, *, publishes: bool = True) -> Markup:
    most = max((one.counts["attempts"] for one in summaries), default=0) or 1
    columns: list[Column] = [
        (what, lambda one: tag("span", one.name or "(none)")),
        *([("published ", lambda one: _whole(one.counts["published"]))] if publishes else []),
        ("attempts ", lambda one: _whole(one.counts["attempts"])),
        ("", lambda one: bar(one.counts["attempts"] / most)),
        ("failed ", lambda one: _whole(one.counts["failed"])),
        ("abandoned ", lambda one: _whole(one.counts["abandoned"])),
        ("failure rate ", lambda one: _rate(one.failure_rate)),
        ("retries ", lambda one: _whole(one.counts["retries"])),
        ("dead ", lambda one: _whole(one.counts["dead"])),
        ("duration p50 ", lambda one: _milliseconds(one.duration_p50)),
        ("p99 ", lambda one: _milliseconds(one.duration_p99)),
        ("latency p50 ", lambda one: _milliseconds(one.latency_p50)),
        ("p99 ", lambda one: _milliseconds(one.latency_p99)),
    ]
    return _table(summaries, columns)


def _dead(figures: Figures) -> Markup:
    columns: list[Column] = [
        ("dead ", lambda group: _whole(group.dead)),
        ("error", lambda group: _cut(group.example_error)),
        ("reason", lambda group: group.reason),
        ("types", lambda group: ", ".join(group.types)),
        ("first", lambda group: _time(group.first_at)),
        ("last", lambda group: _time(group.last_at)),
        ("events, some", lambda group: ", ".join(map(str, group.event_ids))),
    ]
    return _table(figures.dead, columns)


def _keys(figures: Figures) -> Markup:
    most = max((key.deliveries for key in figures.keys), default=0) or 1
    columns: list[Column] = [
        ("key", lambda key: key.ordering_key),
        ("queue", lambda key: key.queue),
        ("deliveries ", lambda key: _whole(key.deliveries)),
        ("", lambda key: bar(key.deliveries / most)),
        ("failures ", lambda key: _whole(key.failures)),
        ("dead ", lambda key: _whole(key.dead)),
        ("longest wait ", lambda key: _milliseconds(key.longest_wait_ms)),
        ("longest in all ", lambda key: _milliseconds(key.longest_total_ms)),
    ]
    return _table(figures.keys, columns)


def _stale(figures: Figures) -> list[Content]:
    columns: list[Column] = [
        ("worker", lambda one: one.name),
        ("last seen", lambda one: _time(one.last_seen)),
        ("attempts ", lambda one: _whole(one.counts["attempts"])),
        ("abandoned ", lambda one: _whole(one.counts["abandoned"])),
    ]
    found = sorted((one for one in figures.workers if one.stale), key=lambda one: str(one.last_seen))
    after = _milliseconds(figures.stale_after_seconds * _SECOND)
    return [tag("p", f"Not seen for {after} when the last of all was seen.", class_="soft"), _table(found, columns)]


def _table(rows: Sequence[Any], columns: Sequence[Column]) -> Markup:
    if not rows:
        return tag("p", "None.", class_="none")
    heads = [tag("th", title.strip(), class_=_class(title), scope="col") for title, _ in columns]
    lines = [tag("tr", [tag("td", told(row), class_=_class(title)) for title, told in columns]) for row in rows]
    return tag("div", tag("table", tag("thead", tag("tr", heads)), tag("tbody", lines)), class_="wide")


def _class(title: str) -> str | None:
    return "number" if title.endswith(" ") else "error" if title == "error" else "name" if title else None


def _cut(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= LONGEST_ERROR else f"{text[: LONGEST_ERROR - 1]}…"


def _whole(value: int) -> str:
    return f"{value:,}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f} %"


def _rate(value: float | None) -> Content:
    return (
        tag("span", _percent(value), class_="bad") if value is not None and value >= MANY_FAILURES else _percent(value)
    )


def _milliseconds(value: float | None) -> str:
    """A length of time in the unit that fits it."""
    if value is None:
        return "–"
    for unit, name in ((_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s")):
        if value >= unit:
            return f"{short(value / unit)} {name}"
    return f"{short(value)} ms"


def _time(value: datetime | None) -> str:
    return "–" if value is None else f"{value:%Y-%m-%d %H:%M}"
