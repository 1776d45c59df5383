"""Random lives of events, in the store and in the model at once: after every step both must show the same."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test

from eventhub.core.events import Status
from eventhub.core.lifecycle import Bury, Complete, Outcome, Release, Retry, State
from eventhub.store import Store, open_store
from eventhub.store.claims import Held
from eventhub.store.values import Current, EventFilter, Report, lane_id
from eventhub.testing.simulation.model import Letter, Model, Row
from tests.conformance.support import MICROSECOND, QUEUE, START, new

Run = Callable[[Awaitable[Any]], Any]
KEYS = st.sampled_from([None, "a", "b"])
WAITS = st.sampled_from([0, 1, 2, 5])
WORKERS = st.sampled_from(["w1", "w2"])
LIMITS = st.sampled_from([None, 1, 2, 3])
ENDS = [Status.FAILED, Status.COMPLETED_WITH_ERRORS]
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    st.just(Complete()),
    st.builds(Retry, st.just("failed"), WAITS.map(lambda n: timedelta(seconds=n))),
    st.builds(Bury, st.sampled_from(["bad", None]), status=st.sampled_from(ENDS)),
    st.builds(Release, WAITS.map(lambda n: timedelta(seconds=n))),
)


class Lives(RuleBasedStateMachine):
    """One store and one model under the same operations, with a clock that only a rule moves."""

    claims: Bundle[Held] = Bundle("claims")
    numbers: Bundle[int] = Bundle("numbers")

    def __init__(self, run: Run, store: Store) -> None:
        super().__init__()
        self.run, self.store = run, store
        self.model = Model()
        self.now = START
        self.looked: dict[int, int] = {}

    @rule(by=st.sampled_from([timedelta(seconds=1), timedelta(seconds=3), MICROSECOND]))
    def time_passes(self, by: timedelta) -> None:
        self.now += by

    @rule(target=numbers, key=KEYS, park=st.booleans(), limit=LIMITS, delay=WAITS)
    def publish(self, *, key: str | None, park: bool, limit: int | None, delay: int) -> int:
        wait = timedelta(seconds=delay)
        event = new(key=key, park_when_dead=park, max_attempts=limit, delay=wait)
        (published,) = self.run(self.store.publish([event], now=self.now))
        state, due = (State.WAITING, self.now + wait) if delay else (State.READY, None)
        row = Row(published.id, key, self.now, state, due, limit, park)
        assert published.id > max(self.model.rows, default=0)
        self.model.publish(row, self.now)
        return row.id

    @rule(target=claims, worker=WORKERS, lease=WAITS, limit=LIMITS)
    def publish_leased(self, worker: str, lease: int, limit: int | None) -> Held:
        wait = timedelta(seconds=lease)
        event = new(worker=worker, lease=wait, max_attempts=limit)
        (published,) = self.run(self.store.publish([event], now=self.now))
        assert published.leased
        row = Row(published.id, None, self.now, State.LEASED, self.now + wait, limit, worker=worker)
        self.model.publish(row, self.now)
        return Held(row.id, 1)

    @rule(target=claims, worker=WORKERS, lease=WAITS, limit=st.integers(1, 4), attempts=LIMITS)
    def claim(self, worker: str, lease: int, limit: int, attempts: int | None) -> Any:
        asked: dict[str, Any] = {
            "worker": worker,
            "lease": timedelta(seconds=lease),
            "max_attempts": attempts,
            "now": self.now,
        }
        claims = self.run(self.store.claim(QUEUE, limit=limit, **asked))
        rows = self.model.claim(limit, **asked)
        assert [(c.held, c.event.attempts, c.event.retry_count, c.max_attempts) for c in claims] == [
            (Held(r.id, r.fence, _lane(r)), r.attempts, r.failures, r.max_attempts) for r in rows
        ]
        assert [c.lease_expires_at for c in claims] == [r.due for r in rows]
        return multiple(*(claim.held for claim in claims))

    @rule()
    def tend(self) -> None:
        self.run(self.store.tend(now=self.now))
        self.model.tend(self.now)

    @rule(held=claims, outcome=OUTCOMES)
    def report(self, held: Held, outcome: Outcome) -> None:
        """By the worker that holds it, or by a zombie: claims are never forgotten here."""
        self._settle([Report(held, outcome)])

    @rule(reports=st.lists(st.tuples(claims, OUTCOMES), min_size=2, max_size=5))
    def report_many(self, reports: list[tuple[Held, Outcome]]) -> None:
        self._settle([Report(held, outcome) for held, outcome in reports])

    @rule(number=numbers, outcome=OUTCOMES)
    def end_by_hand(self, number: int, outcome: Outcome) -> None:
        row = self.model.rows.get(number)
        held = Held(number, row.fence if row else 0, _lane(row) if row else None)
        self._settle([Report(held, outcome, leased=False)])

    def _settle(self, reports: list[Report]) -> None:
        answers = self.run(self.store.settle(reports, now=self.now))
        expected = [
            self.model.report(each.held.id, each.held.fence, each.outcome, leased=each.leased, now=self.now)
            for each in reports
        ]
        assert [answer.accepted for answer in answers] == expected
        for answer in answers:
            row = self.model.rows.get(answer.id)
            assert answer.current == (None if answer.accepted or row is None else _current(row))

    @rule(held=claims, lease=WAITS)
    def extend(self, held: Held, lease: int) -> None:
        wait = timedelta(seconds=lease)
        lost = self.run(self.store.extend([held], wait, now=self.now))
        assert (lost == set()) == self.model.extend(held.id, held.fence, wait, self.now)

    @rule(worker=WORKERS)
    def take_back(self, worker: str) -> None:
        self.run(self.store.take_back([worker], now=self.now))
        self.model.take_back(worker, self.now)

    @rule(number=numbers)
    def reset(self, number: int) -> None:
        assert self.run(self.store.reset(number, reason="r", now=self.now)) == self.model.reset(number, self.now)

    @rule(number=numbers)
    def retry_dead(self, number: int) -> None:
        revived = self.run(self.store.retry_dead([number], by="me", now=self.now))
        assert (revived == {number}) == self.model.retry_dead(number, self.now)

    @rule(key=st.sampled_from(["a", "b"]))
    def unpark(self, key: str) -> None:
        assert self.run(self.store.unpark(QUEUE, key, by="me", now=self.now)) == self.model.unpark(key, self.now)

    @rule(age=WAITS, by=st.sampled_from(["dead_at", "created_at"]))
    def purge(self, age: int, by: str) -> None:
        wait = timedelta(seconds=age)
        purged = self.run(self.store.purge_dead(older_than=wait, by=by, queue=QUEUE, now=self.now))
        assert purged == self.model.purge(self.now - wait, by=by)

    @invariant()
    def both_show_the_same(self) -> None:
        rows = self.model.rows
        assert self.run(self.store.current(list(rows))) == {row.id: _current(row) for row in self.model.open()}
        shown = {event.id: event for event in self.run(self.store.events(EventFilter(queue=QUEUE, limit=1000)))}
        assert set(shown) == set(rows)
        for number, row in rows.items():
            event = shown[number]
            assert (event.status, event.attempts, event.retry_count) == (
                self.model.status(row),
                row.attempts,
                row.failures,
            )
            assert event.errors == (() if row.state is None and row.letter is None else tuple(row.errors))
            assert event.updated_at == row.log[-1][1]
            assert event.lease_expires_at == (row.due if row.state is State.LEASED else None)
            assert event.next_retry_at == (row.due if row.state is State.WAITING else None)
        self._compare_dead()
        self._compare_logs([row for row in rows.values() if self.looked.get(row.id) != len(row.log)])

    def _compare_dead(self) -> None:
        page = self.run(self.store.dead(queue=QUEUE, limit=1000))
        dead = [row for _, row in sorted(self.model.rows.items(), reverse=True) if row.letter]
        assert page.total == len(dead)
        assert [
            (e.id, e.attempts, e.retry_count, e.errors, e.reason, e.status, e.worker, e.dead_at) for e in page.events
        ] == [(row.id, *_shown(row.letter)) for row in dead if row.letter]

    def _compare_logs(self, rows: list[Row]) -> None:
        for row in rows:
            log = [(str(entry.action), entry.created_at) for entry in self.run(self.store.log(row.id))]
            assert log == row.log
            self.looked[row.id] = len(log)

    def teardown(self) -> None:
        self._compare_logs(list(self.model.rows.values()))
        for row in self.model.open():
            heads = [each for each in self.model.open() if each.key == row.key and each.state is not State.BEHIND]
            assert row.key is None or len(heads) == 1


def _shown(letter: Letter) -> tuple[Any, ...]:
    return (
        letter.attempts,
        letter.failures,
        letter.errors,
        letter.reason,
        letter.status,
        letter.worker,
        letter.dead_at,
    )


def _lane(row: Row) -> int | None:
    return None if row.key is None else lane_id(QUEUE, row.key)


def _current(row: Row) -> Current | None:
    if row.state is None:
        return None
    return Current(
        row.id,
        row.fence,
        row.attempts,
        row.state,
        row.worker,
        row.due,
        _lane(row),
        row.max_attempts,
        row.failures,
        QUEUE,
    )


@contextmanager
def a_loop() -> Iterator[Run]:
    """One event loop for all steps, as the store's tasks need it."""
    loop = asyncio.new_event_loop()
    try:
        yield loop.run_until_complete
    finally:
        loop.close()


def search(examples: int, steps: int, machine: Callable[[], Lives]) -> None:
    run_state_machine_as_test(
        machine,  # type: ignore[arg-type]  # any maker of machines will do
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_sqlite_does_what_the_model_does() -> None:
    opened: list[Store] = []
    with a_loop() as run:

        def fresh() -> Store:
            while opened:
                run(opened.pop().close())
            opened.append(run(open_store(":memory:").open()))
            return opened[0]

        search(100, 40, lambda: Lives(run, fresh()))
        run(opened.pop().close())


CLEAN = "DELETE FROM eventhub.{}"


@pytest.mark.timeout(300)  # thousands of questions, each a round trip
def test_postgres_does_what_the_model_does(postgres_url: str) -> None:
    with a_loop() as run:
        store: Store = run(open_store(postgres_url).open())
        direct = run(asyncpg.connect(postgres_url))

        def emptied() -> Store:
            for table in ("deliveries", "lanes", "dead_letters", "events", "event_log"):
                run(direct.execute(CLEAN.format(table)))
            run(direct.execute("UPDATE eventhub.meta SET value = '0' WHERE key = 'clock'"))
            return store

        try:
            search(30, 30, lambda: Lives(run, emptied()))
        finally:
            run(direct.close())
            run(store.close())
