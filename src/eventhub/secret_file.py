"""The server's secret: 32 random bytes in a file that its owner alone may read, made at the first start.

All processes and hosts of one hub must have the same file. It is written beside its place under another name and then
linked there, so that of several processes that start at once one makes it, and nobody ever reads half of it.
"""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from eventhub.errors import SettingsError

if TYPE_CHECKING:
    from eventhub.config import Loaded
    from eventhub.store import Store

__all__ = ["SIZE", "locate", "read", "read_or_create"]

SIZE: Final = 32
LEAST_DIFFERENT: Final = 16
"""Values among the bytes; random ones have fewer once in 10²⁰ times."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_AT_MOST: Final = 4096


def locate(loaded: Loaded, store: Store) -> Path:
    """Where the secret is: as the setting says; by default beside an SQLite file, else in the working directory."""
    path = Path(loaded.settings.secret_file)
    if loaded.is_default("secret_file") and store.engine == "sqlite" and store.url != ":memory:":
        return Path(store.url).absolute().parent / path.name
    return path.absolute()


def read_or_create(path: Path) -> bytes:
    """The secret in the file; if there is none yet, a new one."""
    try:
        return _read(path)
    except FileNotFoundError:
        _create(path)
    return read(path)


def read(path: Path) -> bytes:
    """The secret in the file, which must be there already."""
    try:
        return _read(path)
    except FileNotFoundError:
        raise SettingsError(
            f"There is no secret file at {path}, but there are API keys that were made under one. Copy it from where "
            "the server runs, or name it with EVENTHUB_SECRET_FILE. If it is lost, nobody can use these keys any more: "
            "revoke them with `eventhub keys revoke ID` and make new ones."
        ) from None


def _read(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            info = os.fstat(descriptor)
            if not stat.S_ISREG(info.st_mode):
                raise SettingsError(f"The secret file {path} is no file. Name another with EVENTHUB_SECRET_FILE.")
            if info.st_mode & _OTHERS:
                raise SettingsError(
                    f"The secret file {path} can be used by others (mode {stat.S_IMODE(info.st_mode):04o}). "
                    f"Run: chmod 600 {path}"
                )
            content = file.read(_AT_MOST)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unusable(path, "read", error) from error
    return _decoded(path, content)


def _decoded(path: Path, content: bytes) -> bytes:
    with suppress(binascii.Error):
        secret = base64.b64decode(content.strip(), validate=True)
        if len(secret) == SIZE:
            _check_random(path, secret)
            return secret
    raise SettingsError(
        f"The secret file {path} is damaged: {len(content)} bytes that are not the base64 of {SIZE}. Restore it from a "
        "backup. Without one, remove it: the next start makes a new one, and every API key must be made anew."
    )


def _check_random(path: Path, secret: bytes) -> None:
    """Of 32 random bytes next to none are the same; in an example, or in something that was typed, many are."""
    if len(set(secret)) < LEAST_DIFFERENT:
        raise SettingsError(
            f"The secret in {path} is an example that everybody knows, or nothing random. Make one of your own: "
            f"head -c {SIZE} /dev/urandom | base64 > {path}"
        )


def _create(path: Path) -> None:
    """Put a new secret there, unless somebody else was faster."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(8)}")
    try:
        _make_directory(path.parent)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(base64.b64encode(secrets.token_bytes(SIZE)) + b"\n")
                file.flush()
                os.fsync(descriptor)
            with suppress(FileExistsError):
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        _sync_directory(path.parent)
    except OSError as error:
        raise _unusable(path, "written", error) from error


def _make_directory(directory: Path) -> None:
    missing = [place for place in (directory, *directory.parents) if not place.exists()]
    for place in reversed(missing):
        place.mkdir(mode=0o700, exist_ok=True)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, what: str, error: OSError) -> SettingsError:
    return SettingsError(
        f"The secret file {path} cannot be {what} ({error.strerror}). Check the path and its permissions, or name "
        "another with EVENTHUB_SECRET_FILE."
    )
