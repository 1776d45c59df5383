"""What needs attention, in words: every trouble alone, the most urgent first; and how each part is."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from eventhub.http.dashboard.attention import Facts, attention, health
from eventhub.store.buses import MissingHandlers
from eventhub.store.watching import OpenCounts, Troubles

AT = datetime(2026, 1, 10, tzinfo=UTC)
NOTHING = OpenCounts(
    ready={},
    waiting={},
    behind={},
    leased={},
    messages={"ready": 0, "waiting": 0, "behind": 0, "leased": 0},
    more=False,
    oldest_work_seconds={},
    oldest_message_seconds=None,
)
NONE = Troubles(
    deaths=0,
    last_death=None,
    blocked_keys=0,
    parked_keys=0,
    parked_work=0,
    dead_letters=0,
    open_circuits=[],
    disabled=[],
    subscribers=0,
    silent_claims=[],
)
WELL = Facts(
    at=AT,
    database_ms=0.42,
    open=NOTHING,
    troubles=NONE,
    work_queue="work",
    worker_seen=True,
    fanout=(0, None),
    roles=frozenset({"fanout", "dispatcher", "janitor"}),
    backlog=None,
    disk_left=None,
    horizon_age=None,
    copied_at=AT - timedelta(hours=1),
)
OLD_WORK = {"open": replace(NOTHING, oldest_work_seconds={"work": 400.0})}
MESSAGES = {"open": replace(NOTHING, messages={**NOTHING.messages, "ready": 100_000})}


def trouble(**changed: Any) -> dict[str, Any]:
    return {"troubles": replace(NONE, **changed)}


CASES: list[tuple[dict[str, Any], str, str, str]] = [
    # facts that differ, level, how the words begin, link
    ({"database_ms": None}, "bad", "The database does not answer", "#/"),
    ({"fanout": (1, 2.0), "roles": frozenset()}, "bad", "1 broadcast waits and no fan-out runs", "#/"),
    ({"fanout": (9, 700.0)}, "warn", "The fan-out is 12 minutes behind", "#/"),
    ({**MESSAGES, "roles": frozenset({"fanout"})}, "bad", "100,000 or more messages wait and no", "#/subscribers"),
    (trouble(open_circuits=[(7, "a")]), "bad", "1 subscriber is failing and left alone", "#/subscribers/7"),
    (
        trouble(open_circuits=[(n, f"s{n}") for n in range(5)]),
        "bad",
        "5 subscribers are failing and left alone for a while: s0, s1, s2 and 2 more.",
        "#/subscribers",
    ),
    (trouble(disabled=[(7, "a", "x" * 900)]), "warn", f"1 subscriber is disabled: a ({'x' * 97}….", "#/subscribers/7"),
    (trouble(blocked_keys=2, parked_keys=2), "bad", "2 ordering keys stand still behind a dead", "#/subscribers"),
    (trouble(blocked_keys=1), "warn", "1 ordering key waits for a retry", "#/subscribers"),
    (trouble(parked_work=1), "bad", "1 ordering key of a queue stands still behind a dead letter.", "#/dead"),
    (trouble(deaths=3), "bad", "3 dead letters in the last hour", "#/dead"),
    (
        {"missing_handlers": [MissingHandlers("bus", ("shop.ship",), 2, 7)]},
        "bad",
        "2 events of bus bus cannot go on: no running bus has shop.ship. Start",
        "#/events/7",
    ),
    ({**OLD_WORK, "worker_seen": False}, "bad", "Work has waited for 7 minutes and no worker", "#/workers"),
    (OLD_WORK, "warn", "The oldest work has waited for 7 minutes", "#/workers"),
    (trouble(silent_claims=[("w1", 2), ("w2", 1)]), "warn", "3 claims are held by workers", "#/workers"),
    ({"backlog": (80, 100)}, "warn", "80 of 100 deliveries that may be open are. Beyond", "#/events?status=PENDING"),
    ({"backlog": (100, 100)}, "bad", "100 of 100 deliveries", "#/events?status=PENDING"),
    ({"disk_left": -1}, "bad", "The disk's reserve is touched", "#/"),
    ({"disk_left": 500_000_000}, "warn", "The disk has 500 MB left", "#/"),
    ({"horizon_age": timedelta(minutes=6)}, "warn", "A transaction of the database has been open", "#/history"),
    ({"copied_at": AT - timedelta(days=3)}, "warn", "The lake was last copied to 3 days ago", "#/history"),
]  # fmt: skip
QUIET: list[dict[str, Any]] = [
    {},
    {"fanout": (5, 9.0)},
    {"roles": frozenset()},
    {"open": replace(NOTHING, oldest_work_seconds={"other": 900.0, "work": 100.0})},
    {"backlog": (79, 100)},
    {"disk_left": 2_000_000_000},
    {"horizon_age": timedelta(minutes=4)},
    {"copied_at": None},
]


@pytest.mark.parametrize(("changed", "level", "words", "link"), CASES)
def test_each_trouble_is_told(changed: dict[str, Any], level: str, words: str, link: str) -> None:
    (concern,) = attention(replace(WELL, **changed))
    assert (concern.level, concern.link) == (level, link)
    assert concern.words.startswith(words)


@pytest.mark.parametrize("changed", QUIET)
def test_what_is_well_is_not_told(changed: dict[str, Any]) -> None:
    assert attention(replace(WELL, **changed)) == []


def test_the_most_urgent_comes_first() -> None:
    found = attention(replace(WELL, **trouble(blocked_keys=1, deaths=1), disk_left=-1))
    assert [concern.level for concern in found] == ["bad", "bad", "warn"]


def states(**changed: Any) -> dict[str, str]:
    return {one.part: one.state for one in health(replace(WELL, **changed))}


def test_every_part_has_its_health() -> None:
    assert set(states().values()) == {"ok"}
    assert [one.part for one in health(WELL)] == ["database", "fan-out", "dispatcher", "janitor", "pipeline"]
    assert health(WELL)[0].words == "answers in 0.4 ms"
    assert states(database_ms=None)["database"] == "bad"
    assert states(database_ms=2000.0)["database"] == "warn"
    assert states(fanout=(3, 60.0))["fan-out"] == "warn"
    assert states(roles=frozenset())["dispatcher"] == "off"
    assert states(roles=frozenset(), **MESSAGES)["dispatcher"] == "bad"
    assert states(**trouble(open_circuits=[(1, "a")]))["dispatcher"] == "warn"
    assert states(copied_at=None)["pipeline"] == "off"
    assert states(copied_at=AT - timedelta(days=2))["pipeline"] == "warn"
