"""Errors as texts that every database takes and people can read."""

from __future__ import annotations

from typing import Final

__all__ = ["clean", "error_text", "readable_value"]

LONGEST: Final = 10_000
"""Characters of an error that are kept; a traceback of megabytes helps nobody and fills the database."""


def error_text(error: BaseException) -> str:
    """The error's type and message."""
    try:
        message = str(error)
    except Exception as broken:  # noqa: BLE001 - a handler's own exception class may be broken
        message = f"(its message cannot be read: {type(broken).__name__})"
    return clean(f"{type(error).__name__}: {message}")


def readable_value(value: object) -> str:
    """What a handler returned, for people to read."""
    try:
        return clean(repr(value))
    except Exception as broken:  # noqa: BLE001 - a handler's own class may be broken
        return f"({type(value).__name__}, which cannot be shown: {type(broken).__name__})"


def clean(text: str) -> str:
    """The text as a database can keep it: well-formed, without NUL, and not endless.

    An error that could not be stored would be retried for ever.
    """
    if len(text) > LONGEST:
        text = text[:LONGEST] + "…"
    if "\x00" in text:
        text = text.replace("\x00", "\\x00")
    return text.encode("utf-8", "backslashreplace").decode()
