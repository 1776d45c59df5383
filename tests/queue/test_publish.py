"""Publishing: what comes back, what is refused, and that a caller's transaction decides alone."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import pytest

from eventhub.core.events import Status
from eventhub.errors import (
    IdempotencyConflict,
    InvalidEventError,
    InvalidPayloadError,
    PayloadTooLargeError,
    SettingsError,
)
from eventhub.queue import EventQueue
from eventhub.store import Store
from eventhub.store.composing import Composer


async def test_publish_returns_the_pending_event(queue, clock):
    queued = await queue.publish({"type": "invoice.paid", "payload": {"id": 7}})
    assert (queued.type, queued.payload, queued.status) == ("invoice.paid", {"id": 7}, Status.PENDING)
    assert (queued.attempts, queued.fence, queued.queue) == (0, 0, "default")
    assert queued.created_at == queued.updated_at == clock.now()
    assert await queue.store.event(queued.id) == queued


async def test_type_and_payload_may_be_given_side_by_side(queue):
    queued = await queue.publish("invoice.paid", {"id": 7}, metadata={"source": "shop"}, tags="a, b", title="Paid")
    stored = await queue.store.event(queued.id)
    assert (stored.metadata, stored.tags, stored.title) == ({"source": "shop"}, ("a", "b"), "Paid")
    assert stored == queued


@pytest.mark.parametrize("payload", [None, "text", 1, 1.5, True, [], {}, {"a": [1, {"b": None}]}, "héllo 🎉"])
async def test_any_json_comes_back_as_it_went_in(queue, payload):
    await queue.publish("any", payload)
    polled = await queue.poll()
    assert polled.payload == payload
    assert type(polled.payload) is type(payload)


@pytest.mark.parametrize(
    ("event", "says"),
    [
        ({"type": "a", "payload": 1, "prioritty": 3, "x": 1}, "no field 'prioritty', 'x'"),
        ({"payload": 1}, "has no type"),
        ({"type": "not a type", "payload": 1}, "'not a type' is not usable"),
        ({"type": ["a"], "payload": 1}, "is not usable"),
        ({"type": "a", "payload": math.nan}, "payload is nan"),
        ({"type": "a", "payload": {1: 2}}, "has the key 1"),
        ({"type": "a", "payload": 1, "metadata": {"n": 1}}, "both the key and the value must be strings"),
        ({"type": "a", "payload": 1, "delay": -1}, "from 0 to ten years"),
        ({"type": "a", "payload": 1, "delay": "soon"}, "give a timedelta or seconds"),
        ({"type": "a", "payload": 1, "deliver_at": datetime(2026, 1, 1)}, "with a time zone"),  # noqa: DTZ001
        ({"type": "a", "payload": 1, "deliver_at": datetime(2026, 1, 1, tzinfo=UTC), "delay": 1}, "keep one"),
        ({"type": "a", "payload": 1, "deliver_at": datetime.max.replace(tzinfo=UTC)}, "before the year 9000"),
        ({"type": "a", "payload": 1, "ordering_key": ""}, "ordering_key is empty"),
        ({"type": "a", "payload": 1, "idempotency_key": "k" * 256}, "256 characters"),
        ({"type": "a", "payload": 1, "title": "a\x00b"}, "NUL"),
        ({"type": "a", "payload": 1, "tags": 5}, "tags is 5"),
        ({"type": "a", "payload": 1, "tags": ["bad tag"]}, "'bad tag' is not usable"),
        ({"type": "a", "payload": 1, "priority": 1.5}, "priority is 1.5"),
        (7, "is not usable"),
    ],
)
async def test_what_cannot_be_stored_is_refused_by_name_and_nothing_is_stored(queue, event, says):
    with pytest.raises(InvalidEventError, match=says):
        await queue.publish(event)
    assert await queue.poll() is None


async def test_the_payload_limit_is_exact(queue):
    await queue.publish("big", "x" * (1_048_576 - 2))
    with pytest.raises(PayloadTooLargeError, match="1,048,577 bytes"):
        await queue.publish("big", "x" * (1_048_576 - 1))


async def test_a_mapping_takes_no_second_payload(queue):
    with pytest.raises(InvalidEventError, match="put everything into the mapping"):
        await queue.publish({"type": "a", "payload": 1}, {"b": 2})


@pytest.mark.parametrize("given", [{"k": "v"}, {}, None], ids=["given", "empty", "none"])
async def test_the_metadata_of_a_published_event_is_nobody_elses(queue, given):
    expected = dict(given or {})
    given = None if given is None else dict(given)
    first = await queue.publish("a", 1, metadata=given)
    second = await queue.publish("a", 1, metadata=given)
    first.metadata["scribbled"] = "on"
    if given is not None:
        given["scribbled"] = "too"
    assert second.metadata == expected
    assert [event.metadata for event in await queue.poll_many(2)] == [expected, expected]


async def test_many_are_stored_in_order_and_give_their_ids(queue):
    ids = await queue.publish_many({"type": "n", "payload": n} for n in range(250))
    assert ids == sorted(ids)
    assert [event.payload for event in await queue.poll_many(300)] == list(range(250))


@pytest.mark.parametrize("count", [0, 1, 250, 1200])
async def test_one_type_and_payloads_are_as_good_as_mappings(queue, count):
    ids = await queue.publish_many("n", (n for n in range(count)))
    assert (ids, len(ids)) == (sorted(ids), count)
    found = await queue.poll_many(1300)
    assert [(event.type, event.payload) for event in found] == [("n", n) for n in range(count)]


@pytest.mark.parametrize("place", [0, 900])
async def test_a_bad_payload_beside_its_type_is_named_and_none_is_stored(queue, place):
    payloads = [{"x": math.nan if n == place else n} for n in range(1000)]
    with pytest.raises(InvalidPayloadError, match=rf"Event {place} of the batch .*payload\.x is nan"):
        await queue.publish_many("n", payloads)
    assert await queue.poll() is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("n",), "the type 'n' and None as payloads"),
        (("n", "text"), "'text' as payloads; give a list"),
        (("n", {"x": 1}), "as payloads; give a list"),
        (("", [1]), "type"),
        (([{"type": "n", "payload": 1}], [1]), "events and payloads"),
    ],
)
async def test_a_batch_that_is_neither_is_refused(queue, given, problem):
    with pytest.raises(InvalidEventError, match=problem):
        await queue.publish_many(*given)
    assert await queue.poll() is None


async def test_a_bad_event_in_a_batch_is_named_and_none_is_stored(queue):
    with pytest.raises(InvalidPayloadError, match=r"Event 1 of the batch .*payload\.x is nan"):
        await queue.publish_many([{"type": "a", "payload": 1}, {"type": "a", "payload": {"x": math.nan}}])
    with pytest.raises(InvalidEventError, match=r"Event 0 of the batch .* is a str"):
        await queue.publish_many(["a"])
    assert await queue.poll() is None


def _outcome(compose, events):
    try:
        return list(compose(events))
    except InvalidEventError as error:
        return type(error), str(error)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"type": "a", "payload": 1}],
        [{"type": "a", "payload": 1}, {"type": "b", "payload": 1}],
        [{"type": "a", "payload": 1}, {"type": "a", "payload": 2, "delay": 1}],
        [{"type": "a", "payload": 1, "tags": "x"}] * 2,
        [{"type": "a", "payload": 2**63}, {"type": "a", "payload": 2**64}],
        [{"type": "a", "payload": 1}, {"type": "a", "payload": (1, 2)}],
        [{"type": "a", "payload": 1}, {"type": "a", "payload": math.inf}],
        [{"type": "a", "payload": 1}, {"type": "a"}],
        [{"type": "a", "payload": 1}, {"payload": 1}],
        [{"type": "a", "payload": 1}, {"type": "a", "payloads": 1}],
        [{"type": "a", "tags": "x"}],
        [{"type": ["a"], "payload": 1}],
        [{"type": "not a type", "payload": 1}],
        [{"type": "a", "payload": 1}, ("a", 1)],
        [{"type": "a", "payload": 1}, 7],
        ["ab", "cd"],
    ],
)
def test_events_are_composed_together_as_one_by_one(events):
    composer = Composer("work", max_attempts=3)
    composer.many([{"type": "a", "payload": None}])
    assert _outcome(composer.together, events) == _outcome(composer.many, events)


async def test_the_same_idempotency_key_gives_the_first_event_back(queue):
    first = await queue.publish("paid", {"n": 1}, idempotency_key="k")
    await queue.poll()
    again = await queue.publish("paid", {"n": 1}, idempotency_key="k")
    assert (again.id, again.status) == (first.id, Status.PROCESSING)
    with pytest.raises(IdempotencyConflict):
        await queue.publish("paid", {"n": 2}, idempotency_key="k")


async def test_a_delayed_event_is_polled_when_it_is_due(queue, clock):
    queued = await queue.publish("later", 1, delay=30)
    assert queued.next_retry_at == clock.now() + timedelta(seconds=30)
    assert await queue.poll() is None
    clock.advance(29.999)
    assert await queue.poll() is None
    clock.advance(0.001)
    assert (await queue.poll()).id == queued.id


async def test_deliver_at_names_the_moment(queue, clock):
    moment = clock.now() + timedelta(hours=1)
    await queue.publish({"type": "later", "payload": 1, "deliver_at": moment})
    assert await queue.poll() is None
    clock.advance(3600)
    assert (await queue.poll()).payload == 1


async def test_a_higher_priority_goes_first(queue):
    await queue.publish("low", 1)
    await queue.publish("high", 2, priority=10)
    assert [event.type for event in await queue.poll_many(2)] == ["high", "low"]


async def test_events_of_one_ordering_key_come_one_at_a_time_in_order(queue):
    for n in range(3):
        await queue.publish("step", n, ordering_key="k")
    seen = []
    while (event := await queue.poll()) is not None:
        assert await queue.poll() is None
        seen.append(event.payload)
        await queue.finalize(event)
    assert seen == [0, 1, 2]


class Outbox:
    """A caller's own transaction, on either engine."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def publish(self, queue: EventQueue, *, commit: bool) -> int:
        if self._store.engine == "sqlite":
            return await self._sqlite(queue, commit=commit)
        return await self._postgres(queue, commit=commit)

    async def _sqlite(self, queue: EventQueue, *, commit: bool) -> int:
        connection = apsw.Connection(self._store.url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(5000)
        connection.execute("CREATE TABLE IF NOT EXISTS invoices (id INTEGER PRIMARY KEY)")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO invoices DEFAULT VALUES")
        queued = await queue.publish("paid", 1, connection=connection)
        connection.execute("COMMIT" if commit else "ROLLBACK")
        self.rows: Any = connection.execute("SELECT count(*) FROM invoices").get
        connection.close()
        return queued.id

    async def _postgres(self, queue: EventQueue, *, commit: bool) -> int:
        import asyncpg

        connection = await asyncpg.connect(self._store.url)
        await connection.execute("CREATE TABLE IF NOT EXISTS invoices (id serial PRIMARY KEY)")
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO invoices DEFAULT VALUES")
        queued = await queue.publish("paid", 1, connection=connection)
        assert await queue.poll() is None, "nothing is visible before the commit"
        await (transaction.commit() if commit else transaction.rollback())
        self.rows = await connection.fetchval("SELECT count(*) FROM invoices")
        await connection.close()
        return queued.id


async def test_the_callers_commit_publishes(queue, store):
    outbox = Outbox(store)
    event_id = await outbox.publish(queue, commit=True)
    assert outbox.rows == 1
    assert (await queue.poll()).id == event_id


async def test_the_callers_rollback_leaves_nothing(queue, store):
    outbox = Outbox(store)
    event_id = await outbox.publish(queue, commit=False)
    assert outbox.rows == 0
    assert await store.event(event_id) is None
    assert await queue.poll() is None


async def test_a_foreign_kind_of_connection_is_refused(queue):
    with pytest.raises(TypeError):
        await queue.publish("paid", 1, connection=object())


@pytest.mark.parametrize(
    "options",
    [
        {"abandoned_after": timedelta(0)},
        {"abandoned_after": "1m"},
        {"max_attempts": 0},
        {"retry_after": -1},
    ],
)
def test_settings_that_cannot_work_are_refused(options):
    with pytest.raises(SettingsError, match=next(iter(options))):
        EventQueue(":memory:", **options)


def test_constructing_touches_nothing(tmp_path):
    EventQueue(tmp_path / "not" / "there.db")
    assert not (tmp_path / "not").exists()


async def test_closing_leaves_a_shared_store_open_and_closes_its_own(store, tmp_path):
    async with EventQueue(store):
        pass
    assert not store.closed
    async with EventQueue(tmp_path / "own.db") as own:
        await own.publish("a", 1)
    assert own.store.closed
