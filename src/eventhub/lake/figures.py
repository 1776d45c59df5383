"""The figures of a report, read from the marts of a lake: what is also written as JSON, for programs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from statistics import median
from typing import Annotated, Any, Final

import msgspec

from eventhub.errors import EventHubError
from eventhub.lake.place import Lake

__all__ = ["COUNTS", "DeadGroup", "Depth", "Figures", "Key", "Moment", "Summary", "read_figures"]

COUNTS: Final = (
    "published", "attempts", "succeeded", "failed", "abandoned", "retries", "completed", "dead", "cancelled",
)  # fmt: skip
SHAPES: Final = ("wait", "duration", "latency")
SHARES: Final = ("p50", "p90", "p99")
MOST_HOURS: Final = 14
"""Of so many days the hours are told; of more, only the days."""
MOST_NAMES: Final = 50
MOST_EXAMPLES: Final = 10


Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """An hour or a day of the whole hub. Milliseconds, where there were any."""

    at: Time
    counts: dict[str, int]
    failure_rate: float | None
    wait: dict[str, int | None]
    duration: dict[str, int | None]
    latency: dict[str, int | None]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A type, queue, tag, subscriber or worker over the whole time.

    Percentiles of days cannot be added up: of the p50 the middle one of the days is told, of the p99 the worst.
    """

    name: str
    counts: dict[str, int]
    failure_rate: float | None
    wait_p50: float | None
    wait_p99: int | None
    duration_p50: float | None
    duration_p99: int | None
    latency_p50: float | None
    latency_p99: int | None
    last_seen: Time | None
    id: str | None = None
    stale: bool = False


class Depth(msgspec.Struct, frozen=True, kw_only=True):
    """How much work of a queue was open at the end of each hour, or day."""

    queue: str
    depths: list[int]


class DeadGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters that nobody has retried, which died of the same."""

    fingerprint: str | None
    reason: str | None
    dead: int
    first_at: Time | None
    last_at: Time | None
    example_error: str | None
    event_ids: list[int]
    types: list[str]


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A busy ordering key; of each day only the busiest are known, so that these are at least its figures."""

    queue: str | None
    ordering_key: str
    deliveries: int
    failures: int
    dead: int
    longest_wait_ms: int | None
    longest_total_ms: int | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A report as data."""

    lake: str
    made_at: Time
    first_day: date
    last_day: date
    step: str
    stale_after_seconds: float
    total: Summary
    moments: list[Moment]
    types: list[Summary]
    queues: list[Summary]
    tags: list[Summary]
    subscribers: list[Summary]
    workers: list[Summary]
    depths: list[Depth]
    dead: list[DeadGroup]
    keys: list[Key]


Rows = list[dict[str, Any]]


def read_figures(
    lake: Lake, *, days: int, stale_after: timedelta, subscribers: Mapping[str, str] | None = None
) -> Figures:
    """The last ``days`` days that the lake knows. ``subscribers`` are names by ids."""
    daily = _read(lake, "marts/daily", days=days)
    if not daily:
        raise EventHubError(
            f"{lake.url} has no marts yet. Make them with `eventhub pipeline run`, or name another --lake."
        )
    first, last = min(row["day"] for row in daily), max(row["day"] for row in daily)
    step = "hour" if (last - first).days < MOST_HOURS else "day"
    hourly = _read(lake, "marts/hourly", since=first, whole=True) if step == "hour" else []
    moments = [_moment(row) for row in sorted(hourly or _whole(daily), key=_at)]
    by_dimension: dict[str, Rows] = defaultdict(list)
    for row in daily:
        by_dimension[row["dimension"]].append(row)
    workers = _judged(_summaries(by_dimension.pop("worker", []), most=None), stale_after)
    summaries = {name: _summaries(rows) for name, rows in by_dimension.items()}
    total = summaries["all"][0] if summaries.get("all") else _summary("", [])
    return Figures(
        lake=lake.url,
        made_at=datetime.now(UTC),
        first_day=first,
        last_day=last,
        step=step,
        stale_after_seconds=stale_after.total_seconds(),
        total=total,
        moments=moments,
        types=summaries.get("type", []),
        queues=summaries.get("queue", []),
        tags=summaries.get("tag", []),
        subscribers=_named(summaries.get("subscriber", []), subscribers or {}),
        workers=[*workers[:MOST_NAMES], *[one for one in workers[MOST_NAMES:] if one.stale][:MOST_NAMES]],
        depths=_depths(_read(lake, "marts/queue_depth", since=date.min), [moment.at for moment in moments]),
        dead=_dead(_read(lake, "marts/dead_triage", since=first)),
        keys=_keys(_read(lake, "marts/hot_keys", since=first)),
    )


def _read(lake: Lake, path: str, *, days: int = 0, since: date | None = None, whole: bool = False) -> Rows:
    """Rows of a mart, of the last days it has or since one; sketches are for Spark and stay where they are."""
    from pyarrow import dataset

    from eventhub.lake.marts import MARTS

    table = lake.derived(path, MARTS[path])
    if not table.exists:
        return []
    if days:
        known = sorted(table.days())
        since = date.fromisoformat(known[-1]) - timedelta(days=days - 1) if known else None
    if since is None:
        return []
    columns = [name for name in MARTS[path].names if not name.endswith("_sketch")]
    wanted = dataset.field("day") >= since
    if whole:
        wanted &= dataset.field("dimension") == "all"
    found: Rows = table.rows().to_table(columns=columns, filter=wanted).to_pylist()
    return found


def _whole(rows: Rows) -> Rows:
    return [row for row in rows if row["dimension"] == "all"]


def _at(row: Mapping[str, Any]) -> datetime:
    day: date = row["day"]
    at: datetime = row.get("hour") or datetime(day.year, day.month, day.day, tzinfo=UTC)
    return at


def _moment(row: Mapping[str, Any]) -> Moment:
    shapes = {shape: {share: row[f"{shape}_{share}"] for share in SHARES} for shape in SHAPES}
    return Moment(at=_at(row), counts=_counts([row]), failure_rate=row["failure_rate"], **shapes)


def _counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {name: sum(row[name] or 0 for row in rows) for name in COUNTS}


def _summaries(rows: Rows, *, most: int | None = MOST_NAMES) -> list[Summary]:
    """By name, the busiest first."""
    named: dict[str, Rows] = defaultdict(list)
    for row in rows:
        named[row["name"] or ""].append(row)
    found = [_summary(name, of_name) for name, of_name in named.items()]
    return sorted(found, key=lambda one: (-one.counts["published"] - one.counts["attempts"], one.name))[:most]


def _summary(name: str, rows: Rows) -> Summary:
    counts = _counts(rows)
    bad = counts["failed"] + counts["abandoned"]
    judged = bad + counts["succeeded"]
    shapes: dict[str, Any] = {}
    for shape in SHAPES:
        middles = [row[f"{shape}_p50"] for row in rows if row[f"{shape}_p50"] is not None]
        worst = [row[f"{shape}_p99"] for row in rows if row[f"{shape}_p99"] is not None]
        shapes |= {f"{shape}_p50": median(middles) if middles else None, f"{shape}_p99": max(worst, default=None)}
    seen = [row["last_seen"] for row in rows if row["last_seen"] is not None]
    return Summary(
        name=name,
        counts=counts,
        failure_rate=bad / judged if judged else None,
        last_seen=max(seen, default=None),
        **shapes,
    )


def _named(found: list[Summary], names: Mapping[str, str]) -> list[Summary]:
    return [msgspec.structs.replace(one, name=names.get(one.name, one.name), id=one.name) for one in found]


def _judged(found: list[Summary], stale_after: timedelta) -> list[Summary]:
    """A worker is stale that was not seen for so long before the last time that any was."""
    last = max((one.last_seen for one in found if one.last_seen is not None), default=None)
    if last is None:
        return found
    return [
        msgspec.structs.replace(one, stale=one.last_seen is not None and last - one.last_seen > stale_after)
        for one in found
    ]


def _depths(rows: Rows, times: Sequence[datetime]) -> list[Depth]:
    """At each of the times; where nothing is said, it is as it was before, also long before the first of them."""
    by_queue: dict[str, dict[datetime, int]] = defaultdict(dict)
    whole_days = len(times) > 1 and times[1] - times[0] >= timedelta(days=1)
    for row in sorted(rows, key=_at):
        hour = _at(row)
        by_queue[row["queue"] or ""][hour.replace(hour=0) if whole_days else hour] = row["depth"] or 0
    found = []
    for queue, known in sorted(by_queue.items()):
        depths: list[int] = []
        depth = next((known[hour] for hour in reversed(known) if not times or hour < times[0]), 0)
        for time in times:
            depth = known.get(time, depth)
            depths.append(depth)
        found.append(Depth(queue=queue, depths=depths))
    return found


def _dead(rows: Rows) -> list[DeadGroup]:
    groups: dict[tuple[str | None, str | None], Rows] = defaultdict(list)
    for row in rows:
        groups[row["error_fingerprint"], row["reason"]].append(row)
    found = [
        DeadGroup(
            fingerprint=fingerprint,
            reason=reason,
            dead=sum(row["dead"] for row in of_group),
            first_at=min((row["first_at"] for row in of_group if row["first_at"]), default=None),
            last_at=max((row["last_at"] for row in of_group if row["last_at"]), default=None),
            example_error=next((row["example_error"] for row in of_group if row["example_error"]), None),
            event_ids=sorted({number for row in of_group for number in row["event_ids"] or ()})[:MOST_EXAMPLES],
            types=sorted({kind for row in of_group for kind in row["types"] or ()})[:MOST_EXAMPLES],
        )
        for (fingerprint, reason), of_group in groups.items()
    ]
    return sorted(found, key=lambda group: (-group.dead, group.fingerprint or ""))[:MOST_NAMES]


def _keys(rows: Rows) -> list[Key]:
    grouped: dict[tuple[str | None, str], Rows] = defaultdict(list)
    for row in rows:
        grouped[row["queue"], row["ordering_key"] or ""].append(row)
    found = [
        Key(
            queue=queue,
            ordering_key=name,
            deliveries=sum(row["deliveries"] for row in of_key),
            failures=sum(row["failures"] or 0 for row in of_key),
            dead=sum(row["dead"] or 0 for row in of_key),
            longest_wait_ms=_longest(of_key, "longest_wait_ms"),
            longest_total_ms=_longest(of_key, "longest_total_ms"),
        )
        for (queue, name), of_key in grouped.items()
    ]
    return sorted(found, key=lambda key: (-key.deliveries, key.ordering_key))[:MOST_NAMES]


def _longest(rows: Rows, name: str) -> int | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)
