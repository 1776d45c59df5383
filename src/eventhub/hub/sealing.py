"""Secrets that must be readable again: AES-256-GCM under a key that is derived from the server's secret file.

    1 | nonce, 12 bytes | ciphertext and tag

What a text is about is authenticated with it, so that one subscriber's secrets cannot be put in another's place.
"""

from __future__ import annotations

import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from eventhub.errors import SettingsError

__all__ = ["Vault"]

_FORM: Final = b"\x01"
_NONCE: Final = 12
_KEY: Final = 32
_INFO: Final = b"eventhub: secrets of subscribers, 1"
_SHORTEST: Final = 16


class Vault:
    """Seals and opens under one secret, which all processes of a hub have."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < _SHORTEST:
            raise SettingsError(f"The server's secret has {len(secret)} bytes; give at least {_SHORTEST}.")
        self._cipher = AESGCM(HKDF(algorithm=SHA256(), length=_KEY, salt=None, info=_INFO).derive(secret))

    def seal(self, plain: bytes, *, about: str) -> bytes:
        nonce = secrets.token_bytes(_NONCE)
        return _FORM + nonce + self._cipher.encrypt(nonce, plain, about.encode())

    def open(self, sealed: bytes, *, about: str) -> bytes:
        """Raises SettingsError when it was sealed under another secret, about something else, or is damaged."""
        start = len(_FORM) + _NONCE
        if sealed[:1] == _FORM:
            try:
                return self._cipher.decrypt(sealed[1:start], sealed[start:], about.encode())
            except (InvalidTag, ValueError):
                pass
        raise SettingsError(
            f"The secrets of {about} cannot be opened: they were sealed under another secret file, or are damaged. "
            "Name the right file with EVENTHUB_SECRET_FILE. If it is lost, remove the subscriber and make it anew."
        )
