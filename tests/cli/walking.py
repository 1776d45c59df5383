"""Every command of the command line, found by walking it."""

from collections.abc import Iterator

from cyclopts import App

from eventhub.cli import build_app


def commands() -> dict[str, App]:
    """Each command that does something, by its whole name: `dlq retry`."""
    return dict(_below(build_app(), ()))


def _below(app: App, path: tuple[str, ...]) -> Iterator[tuple[str, App]]:
    names = [name for name in app if not name.startswith("-")]
    if path and (not names or app.default_command is not None):
        yield " ".join(path), app
    for name in names:
        yield from _below(app[name], (*path, name))


def flags(app: App) -> set[str]:
    return {name for argument in app.assemble_argument_collection() for name in argument.names}
