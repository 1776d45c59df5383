"""What is sealed opens under the same secret, about the same thing, unchanged; and in no other case."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.errors import SettingsError
from eventhub.hub.sealing import Vault

VAULT = Vault(b"a" * 32)


@given(st.binary(max_size=500), st.text(max_size=20).filter(lambda text: text.isascii()))
def test_what_is_sealed_opens_again(plain: bytes, about: str):
    sealed = VAULT.seal(plain, about=about)
    assert Vault(b"a" * 32).open(sealed, about=about) == plain
    assert len(plain) < 4 or plain not in sealed


def test_no_two_seals_are_alike():
    assert len({VAULT.seal(b"same", about="x") for _ in range(100)}) == 100


@pytest.mark.parametrize("other", [b"b" * 32, b"a" * 31 + b"b", b"a" * 33])
def test_another_secret_opens_nothing(other: bytes):
    with pytest.raises(SettingsError, match="EVENTHUB_SECRET_FILE"):
        Vault(other).open(VAULT.seal(b"x", about="subscriber:1"), about="subscriber:1")


def test_what_is_about_one_subscriber_cannot_be_put_in_anothers_place():
    with pytest.raises(SettingsError, match="subscriber:2"):
        VAULT.open(VAULT.seal(b"x", about="subscriber:1"), about="subscriber:2")


@given(st.data())
def test_whatever_is_changed_it_does_not_open(data: st.DataObject):
    sealed = bytearray(VAULT.seal(b"a secret", about="x"))
    place = data.draw(st.integers(0, len(sealed) - 1))
    sealed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(SettingsError):
        VAULT.open(bytes(sealed), about="x")


@pytest.mark.parametrize("damaged", [b"", b"\x01", b"\x01" * 12, b"\x01" * 20, b"\x02" * 60, b"plain text"])
def test_what_was_never_sealed_does_not_open(damaged: bytes):
    with pytest.raises(SettingsError):
        VAULT.open(damaged, about="x")


def test_a_secret_that_is_too_short_is_refused():
    with pytest.raises(SettingsError, match="at least 16"):
        Vault(b"short")
