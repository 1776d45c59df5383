"""HTML put together from parts, of which every text is escaped: markup comes from ``tag`` alone."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

__all__ = ["Content", "Markup", "raw", "tag"]


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Content = str | int | float | Markup | None | Iterable["Content"]
_EMPTY = frozenset({"meta", "line", "path", "rect", "circle", "br"})


def tag(name: str, /, *content: Content, **attributes: str | float | None) -> Markup:
    """An element. Attributes whose value is None are left out; ``class_`` is class, and ``_`` within is a hyphen."""
    words = "".join(
        f' {key.strip("_").replace("_", "-")}="{_escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(map(_rendered, content))
    if not inside and name in _EMPTY:
        return Markup(f"<{name}{words}/>")
    return Markup(f"<{name}{words}>{inside}</{name}>")


def raw(text: str) -> Markup:
    """Our own text that needs no escaping, such as a style sheet."""
    return Markup(text)


def _rendered(content: Content) -> str:
    if content is None:
        return ""
    if isinstance(content, Markup):
        return content
    if isinstance(content, str | int | float):
        return _escaped(str(content))
    return "".join(map(_rendered, content))


def _escaped(text: str) -> str:
    """Also without what cannot be seen but steers: control characters, and those that turn the direction of text."""
    shown = "".join(
        letter if letter.isprintable() or letter == "\n" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
    return escape(shown, quote=True)
