"""The Python reference, from signatures and docstrings."""

import ast
import enum
import inspect
import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any

import eventhub
from eventhub.blocking import Face

INTRODUCTION = """# Python

Everything here can be imported from the module whose heading it stands under, and is the whole public interface: what
is not named here may change. Times are aware `datetime`s in UTC.
"""
MODULES = {
    "eventhub": "The faces of the hub, and what they take and give.",
    "eventhub.blocking": "The same for programs without an event loop: each call waits for its result.",
    "eventhub.errors": "Everything that is raised on purpose; what to do about each is in [errors](errors.md).",
    "eventhub.pipeline": "Spark: a session that just runs, and the data source `eventhub`.",
}
INTERNAL = ("Store",)
"""What is handed from one to another; what it can do is the hub's own business."""


def page() -> str:
    parts = [INTRODUCTION]
    for name, words in MODULES.items():
        module = import_module(name)
        parts.append(f"## {name}\n\n{words}\n")
        public = [item for item in module.__all__ if not item.startswith("__")]
        parts += ["\n".join(_item(name, item, getattr(module, item))) for item in public]
    return "\n".join(parts)


def _item(module: str, name: str, item: Any) -> Iterator[str]:
    anchor = f"{module}.{name}"
    yield f"### `{name}` {{#{anchor}}}\n"
    if not inspect.isclass(item):
        yield from _function(name, item)
        return
    if issubclass(item, enum.Enum):
        yield from _documented(item)
        yield "One of " + ", ".join(f"`{member.value}`" for member in item) + ".\n"
        return
    if issubclass(item, Face) and hasattr(eventhub, name):
        yield from _face(name, getattr(eventhub, name))
        return
    bases = f"({item.__bases__[0].__name__})" if issubclass(item, BaseException) else _signature(item)
    yield _code(f"class {name}{bases}")
    yield from _documented(item)
    fields = _field_words(item)
    if fields:
        yield "| field | meaning |\n|---|---|"
        for field, words in fields.items():
            yield f"| `{field}` | {words} |"
        yield ""
    for method in [] if item.__name__ in INTERNAL else _methods(item):
        called = method.__name__
        yield from _function(called, method, heading=f"#### `{name}.{called}` {{#{anchor}.{called}}}")


def _face(name: str, original: type) -> Iterator[str]:
    """A blocking class has the methods of the one that it stands for; what they do is told there."""
    yield _code(f"class {name}{_signature(original)}")
    yield f"Stands for [`{name}`](#eventhub.{name}), where each method is told; these wait for their result:\n"
    called = [f"{method.__name__}{_signature(method)}".partition(" -> ")[0] for method in _methods(original)]
    yield "```text\n" + "\n".join(called) + "\n```\n"


def _function(name: str, function: Any, heading: str = "") -> Iterator[str]:
    if heading:
        yield f"{heading}\n"
    word = "async def" if inspect.iscoroutinefunction(inspect.unwrap(function)) else "def"
    yield _code(f"{word} {name}{_signature(function)}")
    yield from _documented(function)


def _signature(item: Any) -> str:
    try:
        text = str(inspect.signature(item))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"""(: |-> )(?:'([^']*)'|"([^"]*)")""", r"\1\2\3", text)
    text = re.sub(r"<factory>|<[\w.]+ object at 0x[0-9a-f]+>|<[\w. ]+>", "…", text)
    return re.sub(r"\((?:self|cls)(?:, )?", "(", text)


def _code(line: str) -> str:
    """One line, or an argument a line when it is long."""
    if len(line) > 100:  # noqa: PLR2004
        line = _broken(line)
    return f"```text\n{line}\n```\n"


def _broken(line: str) -> str:
    start = line.index("(") + 1
    depth, pieces, begin = 1, [], start
    end = start
    for end in range(start, len(line)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(line[end], 0)
        if depth == 0:
            break
        if depth == 1 and line[end] == ",":
            pieces.append(line[begin:end].strip())
            begin = end + 1
    pieces.append(line[begin:end].strip())
    return line[:start] + "".join(f"\n    {piece}," for piece in pieces if piece) + "\n" + line[end:]


def _documented(item: Any) -> Iterator[str]:
    words = item.__doc__
    if words and not words.startswith(f"{getattr(item, '__name__', '')}("):
        yield _prose(inspect.cleandoc(words)) + "\n"


def _prose(text: str) -> str:
    """A docstring as Markdown: what is indented is a drawing or an example."""
    made = []
    for block in re.split(r"\n\s*\n", text):
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines):
            made.append(f"```text\n{textwrap.dedent(block)}\n```")
        else:
            made.append(block.replace("``", "`"))
    return "\n\n".join(made)


def _methods(item: type) -> list[Any]:
    """Public methods of a class and of those of ours that it is made of, in the order of their source."""
    found: dict[str, Any] = {}
    for owner in reversed(item.__mro__):
        if not owner.__module__.startswith("eventhub") or issubclass(item, BaseException):
            continue
        for name, value in vars(owner).items():
            plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not name.startswith("_") and inspect.isfunction(plain):
                found[name] = plain
    return list(found.values())


def _field_words(item: type) -> dict[str, str]:
    """What the text after each field of a class says."""
    found: dict[str, str] = {}
    for owner in reversed(item.__mro__):
        if not owner.__module__.startswith("eventhub"):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        lines = body.body if isinstance(body, ast.ClassDef) else []
        for before, after in pairwise(lines):
            if isinstance(before, ast.AnnAssign) and isinstance(after, ast.Expr):
                name, words = ast.unparse(before.target), getattr(after.value, "value", None)
                if isinstance(words, str) and not name.startswith("_"):
                    found[name] = " ".join(words.split()).replace("``", "`").replace("|", "\\|")
    return found
