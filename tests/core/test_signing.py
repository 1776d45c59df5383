"""Signatures by the Standard Webhooks scheme, checked against its published vector and its public library."""

import base64
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from eventhub.core.signing import parse_secret, secret_text, sign
from eventhub.errors import InvalidSubscriberError

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
KEYS = st.binary(min_size=24, max_size=64)


def test_the_published_vector():
    signature = sign([parse_secret(SECRET)], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@given(KEYS, st.integers(1, 2**63), st.text(max_size=200))
def test_the_public_library_verifies_what_we_sign(key: bytes, number: int, text: str):
    body, now = text.encode(), int(time.time())
    headers = {
        "webhook-id": f"msg_{number}",
        "webhook-timestamp": str(now),
        "webhook-signature": sign([key], f"msg_{number}", now, body),
    }
    Webhook(secret_text(key)).verify(body, headers, json_parse=False)
    for name, other in (("webhook-id", "msg_0"), ("webhook-timestamp", str(now - 1))):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret_text(key)).verify(body, {**headers, name: other}, json_parse=False)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret_text(key)).verify(body + b"x", headers, json_parse=False)


@given(st.lists(KEYS, min_size=2, max_size=5, unique=True))
def test_each_of_several_live_secrets_verifies_and_the_current_one_is_first(keys: list[bytes]):
    now = int(time.time())
    signature = sign(keys, "msg_1", now, b"{}")
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(now), "webhook-signature": signature}
    for key in keys:
        Webhook(secret_text(key)).verify(b"{}", headers)
    assert signature.split(" ") == [sign([key], "msg_1", now, b"{}") for key in keys]


@given(KEYS)
def test_a_secret_is_read_as_it_was_shown(key: bytes):
    assert parse_secret(secret_text(key)) == key


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "whsec_",
        SECRET.removeprefix("whsec_"),
        "WHSEC_" + SECRET.removeprefix("whsec_"),
        SECRET + " ",
        " " + SECRET,
        SECRET + "\n",
        SECRET[:-1],
        "whsec_" + base64.b64encode(b"x" * 23).decode(),
        "whsec_" + base64.b64encode(b"x" * 65).decode(),
        "whsec_" + base64.b64encode(b"x" * 25).decode().rstrip("="),
        "whsec_" + base64.urlsafe_b64encode(b"\xff" * 24).decode(),
        "whsec_" + base64.b64encode(b"x" * 25).decode()[:-3] + "B==",
        "whsec_" + "ä" * 32,
        None,
        b"whsec_x",
        7,
    ],
)
def test_a_secret_that_verifiers_could_read_differently_is_refused_without_being_shown(bad: object):
    with pytest.raises(InvalidSubscriberError) as caught:
        parse_secret(bad)
    assert caught.value.field == "secret"
    assert str(bad) == "" or len(str(bad)) < 8 or str(bad) not in str(caught.value)
