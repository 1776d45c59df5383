"""API keys as the store keeps them: nothing is lost, nothing lives longer, nothing moves backwards."""

import asyncio

import msgspec
import pytest

from eventhub.errors import StoreError
from eventhub.store import Store
from eventhub.store.values import ApiKey
from tests.conformance.conftest import OpenAnother
from tests.conformance.support import START, at, seconds

KEY = ApiKey(
    id="k1",
    name="the shop – “quoted” 🙂",
    digest=bytes(range(256)),
    scopes=("work", "publish:a,b", 'odd"one'),
    created_at=START,
    expires_at=at(1000),
    rotated_from="k0",
)


def key(key_id: str, *, created: float = 0, **rest: object) -> ApiKey:
    return msgspec.structs.replace(KEY, id=key_id, created_at=at(created), **rest)


async def test_a_key_comes_back_as_it_was_given(store: Store) -> None:
    await store.add_key(KEY)
    bare = ApiKey(id="k2", name="", digest=b"", scopes=(), created_at=at(1))
    await store.add_key(bare)
    assert await store.key("k1") == KEY
    assert await store.key("k2") == bare
    assert await store.key("k3") is None
    assert await store.key("") is None


async def test_keys_are_listed_newest_first(store: Store) -> None:
    assert await store.keys() == []
    for number, created in enumerate([5, 1, 9, 5]):
        await store.add_key(key(f"k{number}", created=created))
    assert [each.id for each in await store.keys()] == ["k2", "k3", "k0", "k1"]


async def test_an_id_is_given_only_once(store: Store) -> None:
    await store.add_key(KEY)
    with pytest.raises(StoreError, match="an API key with the id k1 already"):
        await store.add_key(key("k1", name="another"))
    assert await store.keys() == [KEY]


async def test_whether_there_are_keys(store: Store) -> None:
    assert (await store.has_keys(), await store.any_keys()) == (False, False)
    await store.add_key(KEY)
    assert (await store.has_keys(), await store.any_keys()) == (True, True)
    await store.revoke_key("k1", at(1))
    assert (await store.has_keys(), await store.any_keys()) == (False, True)


async def test_a_key_is_revoked_once_and_for_good(store: Store) -> None:
    await store.add_key(KEY)
    assert await store.revoke_key("k1", at(5))
    assert not await store.revoke_key("k1", at(6))
    assert not await store.revoke_key("unknown", at(6))
    assert not await store.expire_key("k1", at(7))
    assert await store.key("k1") == msgspec.structs.replace(KEY, revoked_at=at(5))


async def test_without_a_time_a_key_is_revoked_by_the_databases_clock(store: Store) -> None:
    await store.add_key(KEY)
    before = await store.now()
    await store.revoke_key("k1")
    revoked = await store.key("k1")
    assert revoked is not None
    assert revoked.revoked_at is not None
    assert before <= revoked.revoked_at <= await store.now()


async def test_of_many_who_revoke_at_once_one_did_it(store: Store, open_another: OpenAnother) -> None:
    stores = [store, await open_another(), await open_another()]
    await store.add_key(KEY)
    did = await asyncio.gather(*(stores[n % 3].revoke_key("k1", at(n)) for n in range(30)))
    assert sum(did) == 1
    revoked = await store.key("k1")
    assert revoked is not None
    assert revoked.revoked_at == at(did.index(True))


async def test_an_end_is_only_ever_moved_forward_in_time_to_now(store: Store) -> None:
    await store.add_key(KEY)
    assert await store.expire_key("k1", at(2000)), "it ends before that anyway"
    assert (await store.keys())[0].expires_at == at(1000)
    assert await store.expire_key("k1", at(500))
    assert (await store.keys())[0].expires_at == at(500)
    assert not await store.expire_key("unknown", at(500))


async def test_a_key_without_end_gets_one(store: Store) -> None:
    await store.add_key(key("k1", expires_at=None))
    assert await store.expire_key("k1", at(500))
    assert (await store.keys())[0].expires_at == at(500)


async def test_uses_are_noted_and_never_move_backwards(store: Store) -> None:
    for number in range(3):
        await store.add_key(key(f"k{number}"))
    await store.touch_keys({"k0": at(5), "k1": at(6), "unknown": at(7)})
    await store.touch_keys({"k0": at(4), "k1": at(8)})
    await store.touch_keys({})
    assert {each.id: each.last_used_at for each in await store.keys()} == {"k0": at(5), "k1": at(8), "k2": None}


async def test_many_who_note_uses_at_once_agree_on_the_last(store: Store, open_another: OpenAnother) -> None:
    stores = [store, await open_another(), await open_another()]
    names = [f"k{number}" for number in range(8)]
    for name in names:
        await store.add_key(key(name))

    async def touch(number: int) -> None:
        order = names[number % 8 :] + names[: number % 8]
        await stores[number % 3].touch_keys(dict.fromkeys(order, at(number * 37 % 60)))

    await asyncio.gather(*(touch(number) for number in range(60)), store.revoke_key("k3", at(60)))
    assert {each.last_used_at for each in await store.keys()} == {START + seconds(59)}
    assert [each.id for each in await store.keys() if each.revoked_at is not None] == ["k3"]
