"""Random sets of deliveries, written straight into the tables: every event has the status of all of them, and stands in
the list of that status once and in no other."""

import itertools
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventhub.core.events import Status
from eventhub.core.strict_json import dump
from eventhub.store import Store, open_store
from eventhub.store.values import EventFilter
from tests.conformance.test_model import Run, a_loop

SUBSCRIBERS = 3
ROUTES = [("work", ""), ("work", "red"), ("other", "red,blue"), ("hub", "")]
TYPES = ["order.placed", "order.paid"]
TAGS = [None, frozenset({"red"})]
Write = Callable[[list[str]], None]


class Place(StrEnum):
    """Where a delivery is, or how it ended."""

    READY = "0"
    LEASED = "1"
    BEHIND = "2"
    WAITING = "3"
    PARKED = "4"
    DEAD = "dead"
    PARTLY = "partly"
    COMPLETED = "completed"
    REVIVED = "revived"
    """Completed at its first attempt after a fresh start."""
    CANCELLED = "cancelled"


OPEN = [Place.READY, Place.LEASED, Place.BEHIND, Place.WAITING]
GIVEN_UP = [Place.PARKED, Place.DEAD, Place.PARTLY]
DONE = [Place.COMPLETED, Place.REVIVED]


class Delivery(msgspec.Struct, frozen=True):
    place: Place
    failures: int

    @property
    def counted(self) -> tuple[int, int]:
        """Its attempts and how many of them failed."""
        if self.place is Place.REVIVED:
            return 1, 0
        return self.failures + (self.place in (Place.LEASED, *DONE)), self.failures

    @property
    def shown_errors(self) -> list[str]:
        return [f"error {n}" for n in range(self.failures)] if self.place in OPEN + GIVEN_UP else []


class Planned(msgspec.Struct, frozen=True):
    """An event that is to be, with its work, its messages and perhaps a marker."""

    route: int
    type: str
    work: Delivery | None
    messages: list[Delivery]
    marker: bool

    @property
    def deliveries(self) -> list[Delivery]:
        return [*([self.work] if self.work else []), *self.messages]

    @property
    def status(self) -> Status:
        places = {delivery.place for delivery in self.deliveries}
        if Place.LEASED in places:
            return Status.PROCESSING
        if self.marker or places & set(OPEN):
            return Status.PENDING
        if not places & set(GIVEN_UP):
            return Status.COMPLETED
        return Status.COMPLETED_WITH_ERRORS if places & {*DONE, Place.PARTLY} else Status.FAILED

    @property
    def counted(self) -> tuple[int, int]:
        if self.work:
            return self.work.counted
        known = [message.counted for message in self.messages]
        return max((attempts for attempts, _ in known), default=0), max((failed for _, failed in known), default=0)

    @property
    def errors(self) -> list[str]:
        if self.work and self.work.place in OPEN + GIVEN_UP:
            return self.work.shown_errors
        return [error for message in self.messages for error in message.shown_errors]


def delivery(places: list[Place]) -> st.SearchStrategy[Delivery]:
    return st.builds(Delivery, st.sampled_from(places), st.integers(0, 2))


WORK = delivery([place for place in Place if place is not Place.CANCELLED])
MESSAGES = st.lists(delivery([place for place in Place if place is not Place.PARTLY]), max_size=SUBSCRIBERS)
PLANNED = st.builds(
    Planned,
    st.integers(0, len(ROUTES) - 1),
    st.sampled_from(TYPES),
    st.none() | WORK,
    MESSAGES,
    st.booleans(),
)


class Writer:
    """Statements that bring events into the tables of one engine, as the store would have left them."""

    def __init__(self, prefix: str, time: str, true: str, false: str) -> None:
        self.prefix, self.time, self.true, self.false = prefix, time, true, false
        self.statements: list[str] = []
        self.ids = itertools.count(1000)

    def insert(self, table: str, **values: Any) -> None:
        texts = [self._text(value) for value in values.values()]
        self.statements.append(f"INSERT INTO {self.prefix}{table} ({', '.join(values)}) VALUES ({', '.join(texts)})")

    def _text(self, value: Any) -> str:
        if value is None or isinstance(value, str):
            return "NULL" if value is None else self.time if value == "now" else f"'{value}'"
        return (self.true if value else self.false) if isinstance(value, bool) else str(value)

    def event(self, number: int, event: Planned) -> None:
        self.insert("events", id=number, route=event.route + 1, type=event.type, payload="1", created_at="now")
        if event.work:
            self.delivery(number, event.work, event_id=number, subscriber=None, route=event.route + 1, type_=event.type)
        elif not event.messages and not event.marker:
            self.log(number, number, "COMPLETED", 0)
        for subscriber, message in enumerate(event.messages):
            whose = {"subscriber": 7000 + subscriber, "route": len(ROUTES) + 1 + subscriber}
            self.delivery(next(self.ids), message, event_id=number, type_=event.type, **whose)
        if event.marker:
            self.insert("fanout", event_id=number, alone=event.work is None)

    def delivery(
        self, number: int, wanted: Delivery, *, event_id: int, subscriber: int | None, route: int, type_: str
    ) -> None:
        attempts, failures = wanted.counted
        same = {
            "event_id": event_id,
            "subscriber": subscriber,
            "route": route,
            "fence": 5,
            "attempts": attempts,
            "failures": failures,
            "errors": dump(wanted.shown_errors) if wanted.failures else None,
            "parks": wanted.place is Place.PARKED,
        }
        for _ in range(wanted.failures):
            self.log(event_id, number, "FAILED", 1)
        if wanted.place in OPEN or wanted.place is Place.PARKED:
            due = "now" if wanted.place in (Place.LEASED, Place.WAITING) else None
            lane = number if wanted.place is Place.PARKED else None
            self.insert("deliveries", id=number, state=int(wanted.place), due=due, lane=lane, worker="w", **same)
        if wanted.place in GIVEN_UP:
            status = Status.COMPLETED_WITH_ERRORS if wanted.place is Place.PARTLY else Status.FAILED
            self.letter(number, str(status), type_, None, **same)
        if wanted.place is Place.REVIVED:
            self.letter(number, "FAILED", type_, "now", **same)
            self.log(event_id, number, "RETRIED", 0)
        if wanted.place in DONE:
            self.log(event_id, number, "COMPLETED", attempts)
        if wanted.place is Place.CANCELLED:
            self.log(event_id, number, "CANCELLED", attempts)

    def letter(self, number: int, status: str, type_: str, retried_at: str | None, **same: Any) -> None:
        facts = {"reason": "r", "dead_at": "now", "type": type_, "payload": "1", "created_at": "now"}
        self.insert("dead_letters", delivery_id=number, status=status, retried_at=retried_at, **facts, **same)

    def log(self, event_id: int, number: int, action: str, attempt: int) -> None:
        row = {"event_id": event_id, "delivery_id": number, "action": action, "attempt": attempt}
        self.insert("event_log", **row, created_at="now")

    def start(self) -> None:
        """Nothing but the routes, and a number that says that there were subscribers."""
        for table in ("deliveries", "dead_letters", "events", "event_log", "fanout", "routes"):
            self.statements.append(f"DELETE FROM {self.prefix}{table}")
        self.statements.append(f"UPDATE {self.prefix}meta SET value = '9' WHERE key = 'subscribers'")
        hub = [("hub", str(7000 + subscriber)) for subscriber in range(SUBSCRIBERS)]
        overriding = " OVERRIDING SYSTEM VALUE" if self.prefix.endswith(".") else ""
        for number, (queue, tags) in enumerate([*ROUTES, *hub], start=1):
            self.statements.append(
                f"INSERT INTO {self.prefix}routes (id, queue, tags, priority){overriding}"
                f" VALUES ({number}, '{queue}', '{tags}', 0)"
            )


def compare(run: Run, store: Store, events: dict[int, Planned]) -> None:
    newest_first = sorted(events, reverse=True)
    for number, event in events.items():
        shown = run(store.event(number))
        assert (shown.status, (shown.attempts, shown.retry_count)) == (event.status, event.counted), event
        assert list(shown.errors) == event.errors, event
    for status, type_, queue, tags in itertools.product([None, *Status], [None, TYPES[0]], [None, "work", "hub"], TAGS):
        expected = [
            number
            for number in newest_first
            if status in (None, events[number].status)
            and type_ in (None, events[number].type)
            and queue in (None, ROUTES[events[number].route][0])
            and (tags is None or tags & set(ROUTES[events[number].route][1].split(",")))
        ]
        wanted = {"status": status, "type": type_, "queue": queue, "tags": tags}
        assert run(store.count_events(EventFilter(**wanted))) == len(expected), wanted
        assert list(paged(run, store, wanted)) == expected, wanted
        assert [e.id for e in run(store.events(EventFilter(**wanted, offset=1, limit=2)))] == expected[1:3], wanted
    for queue, stats in {stats.queue: stats for stats in run(store.stats())}.items():
        mine = [event.status for event in events.values() if ROUTES[event.route][0] == queue]
        assert stats.depth == {status: mine.count(status) for status in Status}, queue


def paged(run: Run, store: Store, wanted: dict[str, Any]) -> Iterator[int]:
    """All pages of two, each below the last."""
    below = None
    while page := run(store.events(EventFilter(**wanted, before_id=below, limit=2))):
        yield from (event.id for event in page)
        below = page[-1].id


def search(examples: int, run: Run, store: Store, writer: Callable[[], Writer], write: Write) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(PLANNED, max_size=8))
    def check(planned: list[Planned]) -> None:
        events = {10 * place: event for place, event in enumerate(planned, start=1)}
        made = writer()
        made.start()
        for number, event in events.items():
            made.event(number, event)
        write(made.statements)
        compare(run, store, events)

    check()


def test_sqlite_tells_the_status_of_all_deliveries(sqlite_path: Path) -> None:
    with a_loop() as run:
        store: Store = run(open_store(sqlite_path).open())
        direct = apsw.Connection(str(sqlite_path))

        def write(statements: list[str]) -> None:
            with direct:
                for statement in statements:
                    direct.execute(statement)

        try:
            search(60, run, store, lambda: Writer("eventhub_", "1767225600000000", "1", "0"), write)
        finally:
            direct.close()
            run(store.close())


def test_postgres_tells_the_status_of_all_deliveries(postgres_url: str) -> None:
    with a_loop() as run:
        store: Store = run(open_store(postgres_url).open())
        direct = run(asyncpg.connect(postgres_url))
        try:
            search(
                25,
                run,
                store,
                lambda: Writer("eventhub.", "now()", "true", "false"),
                lambda statements: run(direct.execute(";".join(statements))),
            )
        finally:
            run(direct.close())
            run(store.close())
