"""API keys on both engines: what is stored, what is accepted, what is refused, and what all of it costs."""

import asyncio
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import apsw
import msgspec
import pytest

from eventhub import secret_file
from eventhub.clock import ManualClock
from eventhub.errors import InvalidKeyError, KeyNotFound, SettingsError, StoreClosed
from eventhub.keys import LONGEST_LIFE, MOST_REMEMBERED, NOBODY, OWNER, REMEMBERED, KeyRing
from eventhub.store import Store, open_store
from eventhub.store.sqlite import SqliteStore
from eventhub.store.values import ApiKey

SECRET = bytes(range(32))
TEXT = re.compile(r"eh_([A-Za-z0-9]+)_([A-Za-z0-9]+)\Z")
DAY = timedelta(days=1)


class Watch:
    """The seconds by which the ring remembers; they pass when they are told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Noticing(SqliteStore):
    """The real store, which also notes what it was asked, and can be slow to answer."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.looks: list[str] = []
        self.touches: list[dict[str, datetime]] = []
        self.asked_whether = 0
        self.read = asyncio.Event()
        self.answer = asyncio.Event()
        self.answer.set()

    async def key(self, key_id: str) -> ApiKey | None:
        self.looks.append(key_id)
        found = await super().key(key_id)
        self.read.set()
        await self.answer.wait()
        return found

    async def has_read(self) -> None:
        """Waits until the next key was read; its answer may still be held back."""
        self.read.clear()
        await self.read.wait()

    async def any_keys(self) -> bool:
        self.asked_whether += 1
        return await super().any_keys()

    async def touch_keys(self, uses: Mapping[str, datetime]) -> None:
        self.touches.append(dict(uses))
        await super().touch_keys(uses)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[Store]:
    async with open_store(store_url) as opened:
        yield opened


@pytest.fixture
async def ring(store: Store, clock: ManualClock, watch: Watch) -> AsyncIterator[KeyRing]:
    made = KeyRing(store, SECRET, clock=clock, monotonic=watch)
    yield made
    await made.close()


@pytest.fixture
async def noticing(sqlite_path: Path) -> AsyncIterator[Noticing]:
    async with Noticing(str(sqlite_path)) as opened:
        yield opened


@pytest.fixture
async def its_ring(noticing: Noticing, clock: ManualClock, watch: Watch) -> AsyncIterator[KeyRing]:
    made = KeyRing(noticing, SECRET, clock=clock, monotonic=watch)
    yield made
    await made.close()


def names_in(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def tampered(text: str) -> str:
    """The same key with another last letter."""
    return text[:-1] + ("a" if text[-1] != "a" else "b")


# ------------------------------------------------------------------- making


async def test_a_key_opens_what_its_scopes_say(ring: KeyRing, clock: ManualClock):
    key, text = await ring.create("mailer", ["work:email", "read"])
    principal = await ring.verify(text)
    assert principal is not None
    assert (principal.id, principal.name, principal.scopes.texts) == (key.id, "mailer", ("work:email", "read"))
    assert (key.created_at, key.expires_at, key.revoked_at) == (clock.now(), None, None)


async def test_the_text_has_enough_chance_in_it_and_only_letters_and_digits(ring: KeyRing):
    texts = [(await ring.create("n", ["read"]))[1] for _ in range(20)]
    parts = [TEXT.match(text) for text in texts]
    assert all(parts)
    assert len({part[1] for part in parts if part}) == len({part[2] for part in parts if part}) == 20
    assert all(62 ** len(part[2]) > 2**160 for part in parts if part)


async def test_the_store_has_an_hmac_under_the_pepper_and_never_the_text(ring: KeyRing, store: Store):
    key, text = await ring.create("n", ["read"])
    (stored,) = await store.keys()
    assert stored == key
    assert len(stored.digest) == 32
    assert stored.digest not in (hashlib.sha256(text.encode()).digest(), hmac.digest(SECRET, text.encode(), "sha256"))
    secret = text.rpartition("_")[2]
    assert secret not in repr(stored)
    assert secret.encode() not in msgspec.msgpack.encode(stored)


async def test_a_key_is_worth_nothing_under_another_secret(ring: KeyRing, store: Store, clock: ManualClock):
    _, text = await ring.create("n", ["read"])
    assert await KeyRing(store, bytes(32), clock=clock).verify(text) is None


@pytest.mark.parametrize(
    ("name", "scopes", "expires_at", "said"),
    [
        ("", ["read"], None, "name '' is not usable"),
        ("x" * 101, ["read"], None, "is not usable"),
        (" n", ["read"], None, "name ' n' is not usable"),
        ("a\nb", ["read"], None, "is not usable"),
        ("a\x1b[31m", ["read"], None, "is not usable"),
        ("\ud800", ["read"], None, "is not usable"),
        ("n", [], None, "no scope"),
        ("n", ["write"], None, "no scope 'write'"),
        ("n", ["read"], datetime(2026, 1, 1, tzinfo=UTC), "give a time to come"),
        ("n", ["read"], datetime(2030, 1, 1), "give a time to come, with zone"),  # noqa: DTZ001
        ("n", ["read"], datetime.max.replace(tzinfo=UTC), "at most ten years ahead"),
        ("n", ["read"], datetime.max.replace(tzinfo=timezone(-DAY / 2)), "at most ten years ahead"),
        ("n", ["read"], datetime.min.replace(tzinfo=timezone(DAY / 2)), "give a time to come"),
    ],
)
async def test_what_a_key_cannot_be_is_refused(
    ring: KeyRing, name: str, scopes: list[str], expires_at: datetime | None, said: str
):
    with pytest.raises(InvalidKeyError) as caught:
        await ring.create(name, scopes, expires_at)
    assert said in str(caught.value)
    assert await ring.list() == []
    assert await ring.keyless()


# ----------------------------------------------------------------- refusing


async def test_whatever_is_wrong_with_a_key_the_answer_is_none(ring: KeyRing, clock: ManualClock, watch: Watch):
    _, text = await ring.create("n", ["read"])
    revoked, revoked_text = await ring.create("n", ["read"])
    await ring.revoke(revoked.id)
    _, expired_text = await ring.create("n", ["read"], clock.now() + DAY)
    assert await ring.verify(expired_text)
    clock.advance(DAY)
    _, id_, secret = text.split("_")
    wrong = [
        tampered(text),
        revoked_text,
        expired_text,
        f"eh_{revoked.id}_{secret}",
        f"eh_{'A' * len(id_)}_{secret}",
        f"EH_{id_}_{secret}",
        f"eh_{id_}_{secret} ",
        f"eh_{id_}_{secret}\n",
        f"eh_{id_}_{secret}x",
        f"eh_{id_}_",
        f"eh__{secret}",
        "",
        "eh_",
        "none",
        "eh_none_",
        "\x00",
        "ü" * 100,
        "\ud800",
        "x" * 1_000_000,
        text * 1000,
        f"eh_{id_}_{secret[:-1]}'",
    ]
    for given in wrong:
        assert await ring.verify(given) is None, given[:100]
    assert await ring.verify(text)


async def test_every_refusal_costs_one_look_and_a_good_key_none(
    noticing: Noticing, its_ring: KeyRing, clock: ManualClock
):
    good, text = await its_ring.create("n", ["read"])
    revoked, revoked_text = await its_ring.create("n", ["read"])
    await its_ring.revoke(revoked.id)
    expired, expired_text = await its_ring.create("n", ["read"], clock.now() + DAY)
    clock.advance(DAY)
    assert await its_ring.verify(text)
    noticing.looks.clear()
    for given, looked_for in [
        (tampered(text), good.id),
        (revoked_text, revoked.id),
        (expired_text, expired.id),
        (f"eh_{'A' * 12}_{'b' * 32}", "A" * 12),
        ("malformed", "none"),
        ("", "none"),
    ]:
        for _ in range(3):
            assert await its_ring.verify(given) is None
        assert noticing.looks == [looked_for] * 3
        noticing.looks.clear()
    for _ in range(100):
        assert await its_ring.verify(text)
    assert noticing.looks == []


async def test_a_key_expires_to_the_microsecond(ring: KeyRing, clock: ManualClock):
    _, text = await ring.create("n", ["read"], clock.now() + DAY)
    clock.advance(DAY - timedelta(microseconds=1))
    assert await ring.verify(text)
    clock.advance(timedelta(microseconds=1))
    assert await ring.verify(text) is None


async def test_scopes_of_a_later_version_open_nothing(ring: KeyRing, store: Store):
    key, text = await ring.create("n", ["read"])
    foreign = msgspec.structs.replace(key, id="B" * 12, scopes=("read", "fly"))
    text = f"eh_{foreign.id}_{text.rpartition('_')[2]}"
    await store.add_key(msgspec.structs.replace(foreign, digest=ring._digest(text)))
    assert await ring.verify(text) is None


# -------------------------------------------------------------- remembering


async def test_a_good_key_needs_no_round_trip_for_two_seconds(ring: KeyRing, store: Store, watch: Watch):
    _, text = await ring.create("n", ["read"])
    assert await ring.verify(text)
    await ring.close()
    await store.close()
    watch.seconds += REMEMBERED - 0.001
    assert await ring.verify(text)
    watch.seconds += 0.001
    with pytest.raises(StoreClosed):
        await ring.verify(text)


async def test_what_another_process_revokes_ends_within_two_seconds(
    ring: KeyRing, store: Store, clock: ManualClock, watch: Watch
):
    key, text = await ring.create("n", ["read"])
    assert await ring.verify(text)
    await KeyRing(store, SECRET, clock=clock).revoke(key.id)
    watch.seconds += REMEMBERED
    assert await ring.verify(text) is None


async def test_what_this_process_revokes_ends_at_once(ring: KeyRing):
    key, text = await ring.create("n", ["read"])
    assert await ring.verify(text)
    await ring.revoke(key.id)
    assert await ring.verify(text) is None
    await ring.revoke(key.id)  # twice is as good
    assert [(found.id, found.revoked_at is not None) for found in await ring.list()] == [(key.id, True)]


async def test_a_key_that_is_revoked_while_it_is_read_is_not_remembered(noticing: Noticing, its_ring: KeyRing):
    key, text = await its_ring.create("n", ["read"])
    noticing.answer.clear()
    reading = asyncio.create_task(its_ring.verify(text))
    await noticing.has_read()
    await its_ring.revoke(key.id)
    late = asyncio.create_task(its_ring.verify(text))  # does not join the look from before
    await noticing.has_read()
    noticing.answer.set()
    await reading
    assert await late is None
    assert await its_ring.verify(text) is None


async def test_those_who_come_at_once_share_one_look(noticing: Noticing, its_ring: KeyRing):
    key, text = await its_ring.create("n", ["read"])
    assert all(await asyncio.gather(*(its_ring.verify(text) for _ in range(100))))
    assert noticing.looks == [key.id]


async def test_one_who_goes_away_takes_the_answer_from_nobody(noticing: Noticing, its_ring: KeyRing):
    key, text = await its_ring.create("n", ["read"])
    noticing.answer.clear()
    first, second = (asyncio.create_task(its_ring.verify(text)) for _ in range(2))
    await noticing.has_read()
    first.cancel()
    noticing.answer.set()
    assert await second
    assert noticing.looks == [key.id]
    assert first.cancelled()


async def test_a_key_of_another_process_is_good_as_soon_as_it_is_made(ring: KeyRing, store: Store, clock: ManualClock):
    assert await ring.verify("eh_unknown") is None
    _, text = await KeyRing(store, SECRET, clock=clock).create("n", ["read"])
    assert await ring.verify(text)


async def test_unknown_keys_take_no_room_and_known_ones_a_bounded_one(noticing: Noticing, its_ring: KeyRing):
    _, text = await its_ring.create("n", ["read"])
    for number in range(500):
        await its_ring.verify(f"eh_{number:012}_{'x' * 32}")
    assert await its_ring.verify(text)
    assert len(its_ring._remembered) == 1 <= MOST_REMEMBERED
    assert its_ring._looks == {}


# ---------------------------------------------------------------- last used


async def test_a_use_is_noted_at_most_once_a_minute(ring: KeyRing, store: Store, clock: ManualClock, watch: Watch):
    key, text = await ring.create("n", ["read"])

    async def last_used() -> datetime | None:
        await ring.close()
        found = await store.key(key.id)
        assert found is not None
        return found.last_used_at

    assert await ring.verify(tampered(text)) is None
    assert await last_used() is None
    first = clock.now()
    assert await ring.verify(text)
    assert await last_used() == first
    clock.advance(59)
    watch.seconds += 59
    assert await ring.verify(text)
    assert await last_used() == first
    clock.advance(1)
    assert await ring.verify(text)
    assert await last_used() == clock.now()


async def test_uses_of_many_keys_are_written_together(noticing: Noticing, its_ring: KeyRing, clock: ManualClock):
    made = [await its_ring.create("n", ["read"]) for _ in range(50)]
    for _, text in made:
        assert await its_ring.verify(text)
    await its_ring.close()
    noticing.touches.clear()
    clock.advance(60)
    for _ in range(3):
        for _, text in made:
            assert await its_ring.verify(text)
    await its_ring.close()
    assert noticing.touches == [{key.id: clock.now() for key, _ in made}]


async def test_what_another_process_has_noted_is_not_noted_again(
    noticing: Noticing, its_ring: KeyRing, clock: ManualClock
):
    _, text = await its_ring.create("n", ["read"])
    assert await its_ring.verify(text)
    await its_ring.close()
    noticing.touches.clear()
    clock.advance(30)
    other = KeyRing(noticing, SECRET, clock=clock)
    assert await other.verify(text)
    await other.close()
    assert noticing.touches == []


# ------------------------------------------------------------------- keyless


async def test_keyless_is_a_store_that_never_had_a_key(ring: KeyRing):
    assert await ring.keyless()
    key, _ = await ring.create("n", ["read"])
    assert not await ring.keyless()
    await ring.revoke(key.id)
    assert not await ring.keyless()


async def test_ended_keys_keep_the_door_shut_after_a_restart(ring: KeyRing, store: Store, clock: ManualClock):
    revoked, _ = await ring.create("n", ["read"])
    await ring.create("n", ["read"], clock.now() + DAY)
    await ring.revoke(revoked.id)
    clock.advance(DAY)
    assert not await KeyRing(store, SECRET, clock=clock).keyless()


async def test_keyless_is_asked_every_two_seconds_and_never_again_once_there_is_a_key(
    noticing: Noticing, its_ring: KeyRing, clock: ManualClock, watch: Watch
):
    for _ in range(100):
        assert await its_ring.keyless()
    assert noticing.asked_whether == 1
    await KeyRing(noticing, SECRET, clock=clock).create("n", ["read"])
    watch.seconds += REMEMBERED
    assert not await its_ring.keyless()
    assert noticing.asked_whether == 2
    watch.seconds += 1000
    assert not await its_ring.keyless()
    assert noticing.asked_whether == 2


async def test_a_store_that_does_not_answer_opens_nothing(ring: KeyRing, store: Store, watch: Watch):
    assert await ring.keyless()
    await store.close()
    watch.seconds += REMEMBERED
    with pytest.raises(StoreClosed):
        await ring.keyless()


async def test_an_end_is_kept_in_utc_and_lies_ten_years_ahead_at_most(ring: KeyRing, clock: ManualClock):
    end = clock.now() + LONGEST_LIFE
    key, text = await ring.create("n", ["read"], end.astimezone(timezone(-DAY / 2)))
    assert key.expires_at == end
    assert key.expires_at.tzinfo is UTC
    assert [one.expires_at for one in await ring.list()] == [end]
    assert await ring.verify(text)
    with pytest.raises(InvalidKeyError, match="at most ten years ahead"):
        await ring.create("n", ["read"], end + timedelta(microseconds=1))


# ------------------------------------------------------------------ rotating


async def test_two_keys_live_while_one_takes_over(ring: KeyRing, clock: ManualClock):
    old, old_text = await ring.create("mailer", ["work:email", "read"])
    new, new_text = await ring.rotate(old.id, DAY)
    assert (new.name, new.scopes, new.expires_at, new.rotated_from) == (old.name, old.scopes, None, old.id)
    assert new.id != old.id
    clock.advance(DAY - timedelta(seconds=1))
    assert await ring.verify(old_text)
    assert await ring.verify(new_text)
    clock.advance(1)
    assert await ring.verify(old_text) is None
    assert await ring.verify(new_text)


async def test_without_an_overlap_the_old_key_ends_at_once(ring: KeyRing):
    old, old_text = await ring.create("n", ["read"])
    assert await ring.verify(old_text)
    _, new_text = await ring.rotate(old.id, timedelta(0))
    assert await ring.verify(old_text) is None
    assert await ring.verify(new_text)


async def test_a_successor_is_given_as_long_a_life_and_the_old_one_no_longer_one(ring: KeyRing, clock: ManualClock):
    old, _ = await ring.create("n", ["read"], clock.now() + 90 * DAY)
    clock.advance(89 * DAY)
    new, _ = await ring.rotate(old.id, 7 * DAY)
    assert new.expires_at == clock.now() + 90 * DAY
    assert {key.id: key.expires_at for key in await ring.list()}[old.id] == old.expires_at
    told, _ = await ring.rotate(new.id, DAY, expires_at=clock.now() + 5 * DAY)
    assert told.expires_at == clock.now() + 5 * DAY
    assert {key.id: key.expires_at for key in await ring.list()}[new.id] == clock.now() + DAY


async def test_the_successor_of_a_key_without_bounds_has_bounds(ring: KeyRing, store: Store, clock: ManualClock):
    made, _ = await ring.create("n", ["read"])
    old = msgspec.structs.replace(made, id="a" * 12, expires_at=datetime(9998, 1, 1, tzinfo=UTC))
    await store.add_key(old)  # as keys could be made once
    new, _ = await ring.rotate(old.id, DAY)
    assert new.expires_at == clock.now() + LONGEST_LIFE


@pytest.mark.parametrize("written", [-(2**63), 2**63 - 1, 253402344000000000])
async def test_an_end_that_is_no_time_stops_no_other_key(sqlite_path: Path, clock: ManualClock, written: int):
    async with SqliteStore(str(sqlite_path)) as store:
        ring = KeyRing(store, SECRET, clock=clock)
        bad, _ = await ring.create("bad", ["read"], clock.now() + DAY)
        _, good_text = await ring.create("good", ["read"])
        other = apsw.Connection(str(sqlite_path))
        other.execute("UPDATE eventhub_api_keys SET expires_at = ? WHERE id = ?", (written, bad.id))
        other.close()
        assert {key.name for key in await ring.list()} == {"bad", "good"}
        assert await ring.verify(good_text)
        await ring.revoke(bad.id)
        await ring.close()


async def test_what_has_ended_or_never_was_cannot_be_rotated(ring: KeyRing, clock: ManualClock):
    revoked, _ = await ring.create("n", ["read"])
    await ring.revoke(revoked.id)
    expired, _ = await ring.create("n", ["read"], clock.now() + DAY)
    clock.advance(DAY)
    with pytest.raises(InvalidKeyError, match="was revoked and has nothing to hand on"):
        await ring.rotate(revoked.id, DAY)
    with pytest.raises(InvalidKeyError, match="expired and has nothing to hand on"):
        await ring.rotate(expired.id, DAY)
    for unknown in ("nobody", "", "x" * 100_000, "'; --", "\x00", "\ud800", f"{revoked.id}\n"):
        with pytest.raises(KeyNotFound, match="There is no API key with the id"):
            await ring.rotate(unknown, DAY)
        with pytest.raises(KeyNotFound, match="There is no API key with the id"):
            await ring.revoke(unknown)
    live, _ = await ring.create("n", ["read"])
    with pytest.raises(InvalidKeyError, match="give 0 or more"):
        await ring.rotate(live.id, -DAY)
    with pytest.raises(InvalidKeyError, match="up to ten years"):
        await ring.rotate(live.id, timedelta.max)
    assert len(await ring.list()) == 3


# ------------------------------------------------------- the secret they need


async def test_the_secret_is_made_when_it_is_first_needed_and_kept(store: Store, tmp_path: Path):
    path = tmp_path / "own.secret"
    _, text = await (await KeyRing.open(store, path)).create("n", ["read"])
    again = await KeyRing.open(store, path)
    assert await again.verify(text)
    await again.close()


async def test_a_lost_secret_is_not_silently_replaced(store: Store, tmp_path: Path):
    path = tmp_path / "own.secret"
    key, _ = await (await KeyRing.open(store, path)).create("n", ["read"])
    path.unlink()
    with pytest.raises(SettingsError, match="If it is lost, nobody can use these keys any more"):
        await KeyRing.open(store, path)
    assert "own.secret" not in names_in(tmp_path)
    await store.revoke_key(key.id)
    ring = await KeyRing.open(store, path)
    _, text = await ring.create("n", ["read"])
    assert await ring.verify(text)
    await ring.close()


async def test_a_secret_that_is_not_that_of_the_keys_is_told_apart(store: Store, tmp_path: Path):
    ring = await KeyRing.open(store, tmp_path / "ours.secret")
    made = [(await ring.create("n", ["read"]))[0].id for _ in range(3)]
    secret_file.read_or_create(tmp_path / "theirs.secret")
    with pytest.raises(SettingsError, match=r"3 of 3 API keys, such as \w+, were made under another secret"):
        await KeyRing.open(store, tmp_path / "theirs.secret")
    for key_id in made:
        await ring.revoke(key_id)
    await KeyRing.open(store, tmp_path / "theirs.secret")


async def test_a_store_in_memory_needs_no_file(tmp_path: Path):
    async with open_store(":memory:") as store:
        ring = await KeyRing.open(store, tmp_path / "own.secret")
        _, text = await ring.create("n", ["read"])
        assert await ring.verify(text)
        await ring.close()
    assert names_in(tmp_path) == []


def test_the_owner_may_do_everything_and_nobody_nothing():
    for scope in ("publish", "work", "read", "admin"):
        assert OWNER.scopes.allows(scope)
        assert not NOBODY.scopes.allows(scope)
