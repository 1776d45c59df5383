"""How a planted bug is put in place of what is right; whatever it replaces must be there."""

from types import SimpleNamespace
from typing import Any


def change(statements: SimpleNamespace, name: str, old: str, new: str) -> None:
    """Replace a part of a statement; a bug that changes nothing would prove nothing."""
    text = getattr(statements, name)
    assert old in text, f"{name} does not say {old!r} any more"
    setattr(statements, name, text.replace(old, new))


def put(owner: Any, name: str, new: Any) -> Any:
    """Put something else in its place; what it was must be there."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return old
