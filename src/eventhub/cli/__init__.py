"""The command line: ``eventhub <group> <command>``, one module a group, imported only when it is used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cyclopts import App

__all__ = ["EXIT_CODES", "GROUPS", "build_app", "main"]

GROUPS: Final = {
    "serve": "Run the hub as a server: publish, work and operate over HTTP.",
    "demo": "See what the hub does, end to end, in a minute or two.",
    "publish": "Publish an event, over HTTP or into a database.",
    "worker": "Run a program for each event, as a worker of a hub.",
    "events": "Look at events: what is there, and what happened to one.",
    "subscribers": "Who gets events as webhooks: add, change, pause, look.",
    "messages": "Messages to subscribers: what is on its way, and what was.",
    "dlq": "The dead letter queue: look, give another chance, throw away.",
    "listen": "Receive webhooks here: check, show and answer them.",
    "keys": "API keys: who may use the server, and for what.",
    "audit": "Who did what: every administrative act, and when.",
    "stats": "Every queue in numbers.",
    "pipeline": "The history on Spark: keep it in a lake, and use it.",
    "migrate": "Create the tables, or bring them up to date.",
    "restored": "Say that the database was restored from a backup.",
    "doctor": "Check the database, versions and settings, and say what to do.",
    "bench": "Measure how fast the hub is on this machine.",
    "torture": "Harm a hub on this machine, and see whether it keeps its word.",
    "completion": "Print the script by which a shell completes commands.",
}
"""Command group → what it is for. Each is the ``app`` of the module ``eventhub.cli.<group>``."""

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
EXIT_CODES: Final = {
    OK: "It worked.",
    FAILED: "It failed, or found what it was to look for: a problem, a refusal, an unreachable database.",
    USAGE: "It was called the wrong way, or a setting cannot work; nothing was done.",
    INTERRUPTED: "It was interrupted (Ctrl-C) before its end.",
}
"""What the end of every command means; no command ends with another code by itself."""


def build_app() -> App:
    """The whole command line, with groups that import themselves on first use."""
    from cyclopts import App

    from eventhub._version import __version__

    app = App(
        name="eventhub",
        version=__version__,
        help="Durable events: publish, handle, retry, and never lose one.",
        help_epilogue="The database is --db, EVENTHUB_DB, or db in eventhub.toml; else eventhub.db in this directory. "
        "Exit codes: 0 it worked, 1 it failed or found a problem, 2 it was called the wrong way, 130 interrupted.",
        help_format="plaintext",
        suppress_keyboard_interrupt=False,  # main says that it was interrupted
    )
    for place, (group, purpose) in enumerate(GROUPS.items()):
        if find_spec(f"eventhub.cli.{group}"):
            app.command(f"eventhub.cli.{group}:app", name=group, help=purpose, sort_key=place)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    from cyclopts import CycloptsError

    from eventhub.errors import EventHubError, SettingsError

    given = list(sys.argv[1:] if arguments is None else arguments)
    tokens = _common_last(given)
    try:
        result = build_app()(
            tokens, exit_on_error=False, print_error=False, result_action="return_value", backend="asyncio"
        )
    except CycloptsError as error:
        command = " ".join(["eventhub", *(error.command_chain or ())])
        return _complain(f"{error}\nTry: {command} --help", USAGE)
    except EventHubError as error:
        if "--debug" in given:
            raise
        return _complain(str(error), USAGE if isinstance(error, SettingsError) else FAILED)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        _silence()
        return OK
    return result if isinstance(result, int) else OK


def _complain(message: str, code: int) -> int:
    print(f"eventhub: {message}", file=sys.stderr)  # noqa: T201
    return code


def _silence() -> None:
    """Whatever is still to be written has no reader; the interpreter must not trip over it at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _common_last(tokens: list[str]) -> list[str]:
    """Options that every command has may come before it too: ``eventhub --db app.db stats``."""
    from eventhub.config import Settings

    with_value = {f"--{name.replace('_', '-')}" for name in Settings.__struct_fields__}
    plain = {"--json", "--debug"}
    place = 0
    while place < len(tokens):
        name, equals, _ = tokens[place].partition("=")
        if name in with_value:
            place += 1 if equals else 2
        elif name in plain:
            place += 1
        else:
            break
    front, rest = tokens[:place], tokens[place:]
    if not rest:
        return tokens
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *front, *rest[end:]]
