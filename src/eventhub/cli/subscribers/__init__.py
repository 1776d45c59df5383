"""``eventhub subscribers``: who gets events as webhooks, and how they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from cyclopts import App

from eventhub.cli.subscribers import configuring, keys, moving

__all__ = ["app"]

app = App(name="subscribers")

_COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "list": configuring.list_subscribers,
    "show": configuring.show_subscriber,
    "add": configuring.add_subscriber,
    "edit": configuring.edit_subscriber,
    "remove": configuring.remove_subscriber,
    "pause": moving.pause,
    "resume": moving.resume,
    "disable": moving.disable,
    "enable": moving.enable,
    "rotate-secret": moving.rotate_secret,
    "test": moving.send_test,
    "stats": keys.stats,
    "keys": keys.list_keys,
    "retry-key": keys.retry_key,
    "skip-key": keys.skip_key,
    "unpark-key": keys.unpark_key,
}
for _place, (_name, _command) in enumerate(_COMMANDS.items()):
    app.command(_command, name=_name, sort_key=_place)
