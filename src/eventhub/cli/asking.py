"""Before something is done that cannot be taken back: who does it, and whether they mean it."""

from __future__ import annotations

import getpass
import sys

from eventhub.errors import SettingsError

__all__ = ["confirmed", "operator"]


def operator(by: str | None) -> str:
    """Who does it, for the record."""
    if by:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "eventhub"


def confirmed(question: str, what: str) -> bool:
    """Ask whoever sits there; a program has to say it beforehand."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise SettingsError(f"{what} asks before it does this: add --yes when nobody is there to be asked.")
    shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in question)
    sys.stderr.write(f"{shown} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
