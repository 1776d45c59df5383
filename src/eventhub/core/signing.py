"""Signatures by the Standard Webhooks scheme: HMAC-SHA256 over ``id.timestamp.body``, one for each live secret."""

from __future__ import annotations

import binascii
import hmac
from collections.abc import Sequence
from typing import Final

from eventhub.errors import InvalidSubscriberError

__all__ = ["LONGEST", "PREFIX", "SHORTEST", "parse_secret", "secret_text", "sign"]

PREFIX: Final = "whsec_"
SHORTEST: Final = 24
LONGEST: Final = 64


def sign(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: a signature by each secret in their order, with single spaces."""
    signed = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    if len(secrets) == 1:
        return "v1," + _base64(hmac.digest(secrets[0], signed, "sha256"))
    return " ".join(["v1," + _base64(hmac.digest(secret, signed, "sha256")) for secret in secrets])


def parse_secret(text: object) -> bytes:
    """The key in ``whsec_…``: 24 to 64 bytes in standard base64, which verifiers of every language read alike."""
    if not isinstance(text, str) or not text.startswith(PREFIX):
        raise _refused(f"does not begin with {PREFIX}")
    try:
        secret = binascii.a2b_base64(text[len(PREFIX) :], strict_mode=True)
    except (binascii.Error, ValueError):  # ValueError: not ASCII
        raise _refused("is not standard base64 with its padding") from None
    if _base64(secret) != text[len(PREFIX) :]:
        raise _refused("has stray bits at its end")
    if not SHORTEST <= len(secret) <= LONGEST:
        raise _refused(f"has {len(secret)} bytes")
    return secret


def secret_text(secret: bytes) -> str:
    """The secret as it is shown to its owner."""
    return PREFIX + _base64(secret)


def _base64(raw: bytes) -> str:
    return binascii.b2a_base64(raw, newline=False).decode("ascii")


def _refused(what: str) -> InvalidSubscriberError:
    """The secret itself is in no error."""
    return InvalidSubscriberError(
        f"The secret {what}; give {PREFIX} and the standard base64 of {SHORTEST} to {LONGEST} random bytes, or none to "
        "have one made.",
        field="secret",
    )
