"""Limits: what they let through, what they refuse, what they cost; time is driven, the disk alone is played."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.lifecycle import Complete
from eventhub.errors import StoreClosed
from eventhub.http.limits import Backlog, DiskReserve, TokenBuckets
from eventhub.store import Store, open_store
from eventhub.store.values import NewEvent, Report, Route


class Watch:
    """Seconds that pass when they are told to, and ``a_look`` more whenever somebody looks."""

    def __init__(self, *, a_look: float = 0.0) -> None:
        self.seconds = 1000.0
        self.a_look = a_look

    def __call__(self) -> float:
        self.seconds += self.a_look
        return self.seconds


# ------------------------------------------------------------- token buckets


def test_a_burst_passes_and_then_the_rate_holds():
    watch = Watch()
    buckets = TokenBuckets(10, 3, clock=watch)
    assert [buckets.take("a") for _ in range(3)] == [0.0] * 3
    assert buckets.take("a") == pytest.approx(0.1)
    assert buckets.take("a") == pytest.approx(0.1)  # asking costs nothing
    watch.seconds += 0.1
    assert buckets.take("a") == 0.0
    assert buckets.take("a") == pytest.approx(0.1)
    watch.seconds += 100
    assert [buckets.take("a") for _ in range(3)] == [0.0] * 3
    assert buckets.take("a") > 0


def test_names_have_buckets_of_their_own():
    buckets = TokenBuckets(1, 1, clock=Watch())
    assert buckets.take("a") == 0.0
    assert buckets.take("a") == pytest.approx(1.0)
    assert buckets.take("b") == 0.0


def test_a_rate_of_zero_is_no_limit():
    buckets = TokenBuckets(0, 1, clock=Watch())
    assert all(buckets.take("a") == 0.0 for _ in range(1000))
    assert len(buckets) == 0


def test_any_number_of_names_takes_a_bounded_room_and_those_in_use_are_kept():
    buckets = TokenBuckets(1, 1, clock=Watch(), most=100)
    for number in range(1000):
        buckets.take(f"name {number}")
    assert len(buckets) == 100
    assert buckets.take("name 999") > 0


@given(
    st.floats(0.01, 1000),
    st.integers(1, 50),
    st.lists(st.floats(0, 10) | st.just(0.0), min_size=1, max_size=100),
)
def test_whatever_happens_no_more_pass_than_burst_and_rate_allow(rate: float, burst: int, pauses: list[float]):
    watch = Watch()
    buckets = TokenBuckets(rate, burst, clock=watch)
    started, passed = watch.seconds, 0
    for pause in pauses:
        watch.seconds += pause
        wait = buckets.take("a")
        passed += wait == 0.0
        assert passed <= burst + (watch.seconds - started) * rate + 0.01
        if wait:
            assert wait <= 1 / rate + 0.01
            watch.seconds += wait
            assert buckets.take("a") == 0.0, "who waits as long as told comes through"
            passed += 1


# ------------------------------------------------------------------- backlog


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


async def publish(store: Store, number: int = 1) -> None:
    await store.publish([NewEvent(type="job", payload="{}", route=Route("work")) for _ in range(number)])


def is_there(path: Path) -> bool:
    return path.exists()


async def finish(store: Store, number: int = 1) -> None:
    claims = await store.claim("work", worker="w", lease=timedelta(minutes=1), limit=number)
    await store.settle([Report(claim.held, Complete()) for claim in claims])
    assert len(claims) == number


async def test_a_limit_is_kept_to_the_event_and_what_is_done_makes_room(store: Store):
    backlog = Backlog(store, 3, clock=Watch())
    for _ in range(3):
        assert await backlog.admit() == 0.0
        await publish(store)
    assert await backlog.admit() >= 1.0
    await finish(store)
    assert await backlog.admit() == 0.0
    await publish(store)
    assert await backlog.admit() >= 1.0


async def test_what_is_leased_is_still_open(store: Store):
    await publish(store, 2)
    await store.claim("work", worker="w", lease=timedelta(minutes=1), limit=2)
    assert await Backlog(store, 2, clock=Watch()).admit() >= 1.0


async def test_a_batch_counts_as_many_as_it_has(store: Store):
    backlog = Backlog(store, 5, clock=Watch())
    assert await backlog.admit(6) >= 1.0
    assert await backlog.admit(3) == 0.0
    await publish(store, 3)
    assert await backlog.admit(3) >= 1.0
    assert await backlog.admit(2) == 0.0


async def test_many_at_once_do_not_slip_through_between_two_counts(store: Store):
    watch = Watch(a_look=0.5)
    backlog = Backlog(store, 10, clock=watch)
    assert await backlog.admit() == 0.0
    watch.a_look = 0.0
    answers = await asyncio.gather(*(backlog.admit() for _ in range(50)))
    assert answers.count(0.0) == 9
    await backlog.close()


async def test_what_others_publish_is_seen_a_second_later(store: Store):
    watch = Watch()
    backlog = Backlog(store, 5, clock=watch)
    assert await backlog.admit() == 0.0
    await publish(store, 6)
    assert await backlog.admit() == 0.0
    watch.seconds += 1.0
    assert await backlog.admit() == 0.0  # this one has it counted in the background
    await backlog.close()
    assert await backlog.admit() >= 1.0


async def test_between_two_counts_nobody_waits_for_the_database(store: Store):
    watch = Watch()
    backlog = Backlog(store, 100, clock=watch)
    assert await backlog.admit() == 0.0
    await store.close()
    for _ in range(50):
        assert await backlog.admit() == 0.0
    watch.seconds += 5
    assert await backlog.admit() == 0.0  # a count that fails in the background stops nobody
    await backlog.close()
    with pytest.raises(StoreClosed):
        await backlog.admit(100)


async def test_a_count_that_was_slow_is_not_repeated_soon(store: Store):
    watch = Watch(a_look=0.5)
    backlog = Backlog(store, 2, clock=watch)
    assert await backlog.admit(2) == 0.0  # counting took half a second of this watch: none for ten seconds
    watch.a_look = 0.0
    assert await backlog.admit() == pytest.approx(10.0, abs=1.0)  # nothing was published, but it does not know yet
    watch.seconds += 8.0
    assert await backlog.admit() == pytest.approx(2.0, abs=1.0)
    watch.seconds += 2.0
    assert await backlog.admit() == 0.0


async def test_no_limit_asks_nobody(tmp_path: Path):
    store = open_store(tmp_path / "none.db")
    assert await Backlog(store, 0).admit(1000) == 0.0
    assert not is_there(tmp_path / "none.db")


# ------------------------------------------------------------- disk reserve


class Disk:
    def __init__(self, free: int) -> None:
        self.free = free
        self.looks: list[Path] = []

    def __call__(self, path: Path) -> int:
        self.looks.append(path)
        if self.free < 0:
            raise OSError("gone")
        return self.free


def test_less_room_than_the_reserve_refuses_until_there_is_more(tmp_path: Path):
    watch, disk = Watch(), Disk(100_000_000)
    reserve = DiskReserve(tmp_path / "hub.db", 100, clock=watch, free_bytes=disk)
    assert reserve.admit() == 0.0
    disk.free -= 1
    watch.seconds += 1.0
    assert reserve.admit() == 1.0
    disk.free += 1
    assert reserve.admit() == 1.0
    watch.seconds += 1.0
    assert reserve.admit() == 0.0
    assert disk.looks == [tmp_path] * 3


def test_the_disk_is_looked_at_once_a_second(tmp_path: Path):
    watch, disk = Watch(), Disk(10**12)
    reserve = DiskReserve(tmp_path / "hub.db", 100, clock=watch, free_bytes=disk)
    for _ in range(1000):
        assert reserve.admit() == 0.0
    assert len(disk.looks) == 1


def test_a_disk_that_cannot_be_looked_at_is_left_to_the_database(tmp_path: Path):
    assert DiskReserve(tmp_path / "hub.db", 100, clock=Watch(), free_bytes=Disk(-1)).admit() == 0.0


def test_no_file_or_no_reserve_is_no_limit(tmp_path: Path):
    disk = Disk(0)
    assert DiskReserve(None, 100, free_bytes=disk).admit() == 0.0
    assert DiskReserve(tmp_path / "hub.db", 0, free_bytes=disk).admit() == 0.0
    assert disk.looks == []


def test_the_real_disk_has_some_room_but_no_end(tmp_path: Path):
    assert DiskReserve(tmp_path / "hub.db", 1).admit() == 0.0
    assert DiskReserve(tmp_path / "hub.db", 10**12).admit() == 1.0
    assert DiskReserve(Path("hub.db"), 10**12).admit() == 1.0
