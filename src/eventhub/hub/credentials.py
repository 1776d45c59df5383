"""What is secret about a subscriber: its signing secrets, and the values of headers that must not be shown."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import msgspec

from eventhub.core.signing import parse_secret, secret_text
from eventhub.core.subscribers import Subscriber, is_secret_header
from eventhub.errors import InvalidSubscriberError

__all__ = ["HIDDEN", "Credentials", "SigningSecret", "new_secret", "origin", "part"]

HIDDEN: Final = "***"
"""Stands for the value of a secret header. Given back in a change, it means: as it was."""
SECRET_BYTES: Final = 32
LONGEST_OVERLAP: Final = timedelta(days=30)
MOST_SECRETS: Final = 5


class SigningSecret(msgspec.Struct, frozen=True):
    """A secret as its owner has it, and when it ends; the current one does not."""

    key: str
    until: datetime | None = None

    def __repr__(self) -> str:
        return f"<SigningSecret until {self.until}>"

    def is_live(self, now: datetime) -> bool:
        return self.until is None or now < self.until


class Credentials(msgspec.Struct, frozen=True):
    """What is sealed: the signing secrets, the current one first, and values of headers by their names."""

    secrets: tuple[SigningSecret, ...] = ()
    headers: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<Credentials with {len(self.secrets)} secrets>"  # they must not get into a log

    def live(self, now: datetime) -> tuple[bytes, ...]:
        """The keys to sign with at this time."""
        return tuple(parse_secret(secret.key) for secret in self.secrets if secret.is_live(now))

    def rotated(self, key: str, *, overlap: timedelta, now: datetime) -> Credentials:
        """With a new current secret; earlier ones stay for the overlap, unless they end before."""
        if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
            raise InvalidSubscriberError(
                f"The overlap is {overlap}; give from nothing to {LONGEST_OVERLAP.days} days.", field="overlap"
            )
        end = now + overlap
        earlier = [
            SigningSecret(secret.key, end if secret.until is None else min(end, secret.until))
            for secret in self.secrets
            if secret.is_live(now)
        ]
        if any(secret.key == key for secret in earlier):
            raise InvalidSubscriberError("The subscriber has this secret already; give another.", field="secret")
        kept = [secret for secret in earlier if secret.is_live(now)]
        if len(kept) >= MOST_SECRETS:
            raise InvalidSubscriberError(
                f"{len(kept)} earlier secrets are still live; at most {MOST_SECRETS - 1} may be. Wait until one ends, "
                "or rotate without an overlap, which ends them all.",
                field="overlap",
            )
        return msgspec.structs.replace(self, secrets=(SigningSecret(key), *kept))


def new_secret() -> str:
    return secret_text(secrets.token_bytes(SECRET_BYTES))


def origin(url: str) -> tuple[str, str, int | None]:
    """Whom a URL leads to: scheme, host and port."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    return scheme, (parts.hostname or "").rstrip("."), parts.port or {"http": 80, "https": 443}.get(scheme)


def part(wanted: Subscriber, before: Mapping[str, str], *, kept: bool = True) -> tuple[Subscriber, dict[str, str]]:
    """What may be shown of a subscriber, and the values of its secret headers; hidden ones are those from before.

    They are ``kept`` only for whom they were meant: else whoever changes the address would have them sent there.
    """
    known = {name.lower(): value for name, value in before.items()}
    shown: dict[str, str] = {}
    hidden: dict[str, str] = {}
    for name, value in wanted.headers.items():
        if not is_secret_header(name):
            shown[name] = value
            continue
        found = known.get(name.lower()) if value == HIDDEN else value
        if value == HIDDEN and found is not None and not kept:
            raise InvalidSubscriberError(
                f"headers.{name} is a secret that was given for another address, and is not sent to a new scheme, host "
                "or port. Give its value again with the new url, or give headers without it.",
                field=f"headers.{name}",
            )
        if found is None:
            raise InvalidSubscriberError(
                f"headers.{name} is {HIDDEN}, which stands for a value that is kept, and there is none; give one.",
                field=f"headers.{name}",
            )
        shown[name], hidden[name] = HIDDEN, found
    return msgspec.structs.replace(wanted, headers=shown), hidden
