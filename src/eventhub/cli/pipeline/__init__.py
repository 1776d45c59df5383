"""``eventhub pipeline``: the history of the hub in a lake, on Spark.

Each command is a module here that is imported when it is called: most of them need Spark, which is an extra.
"""

from __future__ import annotations

from typing import Final

from cyclopts import App

__all__ = ["app"]

app = App(name="pipeline")

_COMMANDS: Final[dict[str, str]] = {
    "run": "Bring the lake up to date: copy, derive, tidy up.",
    "status": "How far the lake is, what waits, and what it holds.",
    "synth": "Fill a hub with a made-up history, to try things on.",
    "archive": "Let old days leave the database once the lake has them for certain.",
    "restore": "Bring archived days back.",
    "replay": "Publish events of the past again.",
    "report": "Write a report of the last days, with charts.",
}
"""Command → what it is for. Each is the function of its own name in the module of its own name here."""
for _place, (_name, _purpose) in enumerate(_COMMANDS.items()):
    app.command(f"eventhub.cli.pipeline.{_name}:{_name}", name=_name, help=_purpose, sort_key=_place)
