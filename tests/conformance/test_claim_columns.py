"""Claims of many: whatever is mixed in one claim, each event comes back as it was published, in its order."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eventhub.core.events import QueuedEvent
from eventhub.core.lifecycle import Complete, Retry
from eventhub.core.strict_json import decode, dump
from eventhub.errors import StoreUnavailable
from eventhub.store import Store, open_store
from eventhub.store import portions as portions_module
from eventhub.store.claims import Claim, Unread
from eventhub.store.postgres import PostgresStore
from eventhub.store.postgres.publishing import SQL
from eventhub.store.values import Report
from tests.conformance.support import MINUTE, QUEUE, ids, new, publish, take

LARGE = "x" * 20_000
INCOMPRESSIBLE = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20_000))
PAYLOADS: list[Any] = [
    None,
    "",
    "\x1e",
    'line\nbreak\r\tand \u2028 \\ "quotes"',
    LARGE,
    INCOMPRESSIBLE,
    {"": [[], {}, "null"]},
    2**63,
    -0.0,
    "\U0001f600",
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=20)


def told(claim: Claim) -> tuple[Any, ...]:
    event = claim.event
    return (
        event.type, event.payload, event.metadata, event.sent_tags, event.title, event.description, event.ordering_key,
        event.attempts, event.retry_count, event.fence,
    )  # fmt: skip


async def test_payloads_come_back_whatever_is_in_them(store: Store) -> None:
    numbers = await publish(store, *(new(payload={"is": payload}) for payload in PAYLOADS * 3), now=None)
    claims = await take(store, 100, now=None)
    assert ids(claims) == numbers
    assert [claim.event.payload for claim in claims] == [{"is": payload} for payload in PAYLOADS * 3]
    assert [claim.size for claim in claims] == [len(dump({"is": payload})) for payload in PAYLOADS * 3]


async def test_first_claims_and_later_ones_are_told_apart_in_one_claim(store: Store) -> None:
    plain = await publish(store, *(new(payload=n) for n in range(4)), now=None)
    claims = await take(store, 4, now=None)
    await store.settle([Report(claims[n].held, Retry("again")) for n in (1, 3)])
    await store.settle([Report(claims[n].held, Complete()) for n in (0, 2)])
    (limited,) = await publish(store, new(payload=4, max_attempts=7), now=None)
    (titled,) = await publish(store, new("b", 5, title="T", metadata='{"a":"b"}'), now=None)
    (last,) = await publish(store, new("c", 6), now=None)
    claims = await take(store, 10, now=None)
    assert ids(claims) == [plain[1], plain[3], limited, titled, last]
    assert [told(claim) for claim in claims] == [
        ("order.placed", 1, {}, None, None, None, None, 2, 1, 2),
        ("order.placed", 3, {}, None, None, None, None, 2, 1, 2),
        ("order.placed", 4, {}, None, None, None, None, 1, 0, 1),
        ("b", 5, {"a": "b"}, None, "T", None, None, 1, 0, 1),
        ("c", 6, {}, None, None, None, None, 1, 0, 1),
    ]
    assert [claim.max_attempts for claim in claims] == [None, None, 7, None, None]
    assert [claim.held.fence for claim in claims] == [2, 2, 1, 1, 1]
    assert all(answer.accepted for answer in await store.settle([Report(claim.held, Complete()) for claim in claims]))


async def test_an_event_is_read_once_when_it_is_asked_for(store: Store) -> None:
    await publish(store, new(payload={"n": 1}), new(payload={"n": 2}, title="T"), now=None)
    plain, titled = await take(store, 2, now=None)
    assert type(plain.given) is Unread
    event = plain.event
    assert plain.event is event
    assert [type(claim.given) for claim in (plain, titled)] == [QueuedEvent, QueuedEvent]
    assert [claim.event.payload for claim in (plain, titled)] == [{"n": 1}, {"n": 2}]
    assert plain.lease_expires_at == titled.lease_expires_at


async def test_a_limit_of_attempts_that_a_claim_brings_holds_for_all_of_it(store: Store) -> None:
    await publish(store, new(), new(max_attempts=3), now=None)
    claims = await store.claim(QUEUE, worker="w", lease=MINUTE, limit=10, max_attempts=5)
    assert [claim.max_attempts for claim in claims] == [5, 5]
    current = await store.current(ids(claims))
    assert [current[number].max_attempts for number in ids(claims)] == [5, 5]


async def test_times_of_each_event_are_its_own(store: Store) -> None:
    for n in range(3):
        await publish(store, new(payload=n), new(payload=n), now=None)
    claims = await take(store, 10, now=None)
    read = [await store.event(number) for number in ids(claims)]
    assert [claim.event.created_at for claim in claims] == [event.created_at for event in read if event is not None]
    assert len({claim.event.created_at for claim in claims}) == 3
    assert len({claim.lease_expires_at for claim in claims}) == 1


async def test_several_sets_of_tags_and_workers_in_one_claim(store: Store) -> None:
    await publish(store, *(new(payload=n, tags=(("a",), ("b",), ())[n % 3]) for n in range(30)), now=None)
    asked = [store.claim(QUEUE, worker=f"w{n % 4}", lease=MINUTE, limit=3) for n in range(12)]
    claims = [claim for found in await asyncio.gather(*asked) for claim in found]
    assert sorted(claim.event.payload for claim in claims) == list(range(30))
    assert all(claim.event.sent_tags == ("a", "b", None)[claim.event.payload % 3] for claim in claims)
    current = await store.current(ids(claims))
    assert {one.worker for one in current.values()} <= {"w0", "w1", "w2", "w3"}
    assert all(answer.accepted for answer in await store.settle([Report(claim.held, Complete()) for claim in claims]))


async def test_more_than_one_answer_can_hold_is_claimed_in_portions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portions_module, "MANY_AT_ONCE", 10)
    numbers = await publish(store, *(new() for _ in range(35)), now=None)
    assert ids(await take(store, 32, now=None)) == numbers[:32]
    assert ids(await take(store, 32, now=None)) == numbers[32:]


METADATA = {"short": '{"a":"b"}', "long": dump({"a": INCOMPRESSIBLE}), "quotes": dump({"a": '"' * 20_000})}


@pytest.mark.parametrize("tries", [1, 2])
async def test_metadata_come_back_whatever_their_size(store: Store, tries: int) -> None:
    metadata = [None, *METADATA.values()] * 2
    events = [new(payload=LARGE if n % 2 else n, metadata=text) for n, text in enumerate(metadata)]
    await publish(store, *events, now=None)
    for _ in range(tries - 1):
        await store.settle([Report(claim.held, Retry("again")) for claim in await take(store, 10, now=None)])
    claims = await take(store, 10, now=None)
    assert [claim.event.metadata for claim in claims] == [{} if text is None else decode(text) for text in metadata]
    assert [claim.event.payload for claim in claims] == [LARGE if n % 2 else n for n in range(8)]
    assert {claim.held.fence for claim in claims} == {tries}


class Meddling:
    """Does something at the moment in which large payloads are asked for."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], Awaitable[None]]) -> None:
        assert isinstance(store, PostgresStore)
        fetch = store._fetch

        async def watched(query: str, *arguments: Any) -> list[Any]:
            if query == SQL.claimed_large:
                self.answers.append(query)
                await meddle()
            return await fetch(query, *arguments)

        self.answers: list[str] = []
        monkeypatch.setattr(store, "_fetch", watched)


@pytest.fixture
async def postgres_store(postgres_url: str) -> AsyncIterator[Store]:
    async with open_store(postgres_url) as opened:
        yield opened


async def test_no_answer_is_put_together_from_what_only_looks_small(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payload that was compressed is short where it lies, and a column of many would not fit into an answer."""

    async def nothing() -> None: ...

    meddling = Meddling(postgres_store, monkeypatch, nothing)
    await publish(postgres_store, new(payload="x" * 300_000), now=None)
    (claim,) = await take(postgres_store, now=None)
    assert len(claim.event.payload) == 300_000
    assert meddling.answers


async def test_what_was_claimed_is_given_back_when_its_payloads_do_not_come(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = postgres_store

    async def cut() -> None:
        raise StoreUnavailable("cut")

    await publish(store, new(payload=0), new(payload=1), new(payload=LARGE, key="k"), new(payload=3), now=None)
    before = await take(store, 2, now=None)
    await store.settle([Report(claim.held, Retry("again")) for claim in before])
    with monkeypatch.context() as broken:
        Meddling(store, broken, cut)
        with pytest.raises(StoreUnavailable):
            await take(store, 10, now=None)
    claims = await take(store, 10, now=None)
    assert [(claim.event.payload, claim.event.attempts) for claim in claims] == [(0, 2), (1, 2), (LARGE, 1), (3, 1)]


async def test_an_event_that_is_gone_before_its_payload_is_read_is_left_out(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = postgres_store
    numbers = await publish(store, new(payload=0), new(payload=LARGE), new(payload=2), now=None)

    async def remove() -> None:
        operator = await asyncpg.connect(store.url)
        await operator.execute("DELETE FROM eventhub.events WHERE id = $1", numbers[1])
        await operator.close()

    Meddling(store, monkeypatch, remove)
    assert [claim.event.payload for claim in await take(store, 10, now=None)] == [0, 2]


async def test_what_was_damaged_in_the_database_stops_nobody(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        numbers = await publish(store, *(new(payload=n) for n in range(3)), now=None)
        connection = await asyncpg.connect(postgres_url)
        damaged = '["\\ud800",\n 1]'
        await connection.execute("UPDATE eventhub.events SET payload = $2 WHERE id = $1", numbers[1], damaged)
        await connection.close()
        claims = await take(store, 10, now=None)
        assert [claim.event.payload for claim in claims] == [0, damaged, 2]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(TEXTS, st.none() | TEXTS, st.none() | TEXTS, st.none() | TEXTS, st.integers(0, 2)),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_any_mixture_comes_back_as_it_was_published(postgres_url: str, events: list[Any]) -> None:
    async def run() -> None:
        async with open_store(postgres_url) as store:
            made = [
                new(f"t{tries}", payload=payload, title=title, description=description, key=key)
                for payload, title, description, key, tries in events
            ]
            await publish(store, *made, now=None)
            wanted = {n: tries for n, (*_, tries) in enumerate(events)}
            seen: dict[int, list[Claim]] = {}
            first: int | None = None
            while claims := await take(store, 100, now=None):
                first = min(ids(claims)) if first is None else first
                reports = []
                for claim in claims:
                    mine = seen.setdefault(claim.event.id, [])
                    mine.append(claim)
                    again = len(mine) <= wanted[claim.event.id - first]
                    reports.append(Report(claim.held, Retry("again", timedelta(0)) if again else Complete()))
                assert all(answer.accepted for answer in await store.settle(reports))
            for n, (payload, title, description, key, tries) in enumerate(events):
                assert first is not None
                for place, claim in enumerate(seen[first + n]):
                    facts: tuple[Any, ...] = (f"t{tries}", payload, {}, None, title, description, key)
                    assert told(claim) == (*facts, place + 1, place, place + 1)
                assert len(seen[first + n]) == tries + 1

    asyncio.run(run())
