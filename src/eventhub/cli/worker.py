"""``eventhub worker``: runs a program, in any language, for each event with one of the tags."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import Annotated

from cyclopts import App, Parameter

from eventhub.cli.remote import Remote
from eventhub.errors import SettingsError

__all__ = ["app"]

app = App(
    name="worker",
    help_epilogue="The program gets the payload as JSON on its standard input, and in its environment "
    "EVENTHUB_EVENT_ID, EVENTHUB_EVENT_TYPE, EVENTHUB_TITLE, EVENTHUB_TAGS, EVENTHUB_ATTEMPT, EVENTHUB_WORKER_ID and, "
    "for a traced event, TRACEPARENT, but not EVENTHUB_KEY and EVENTHUB_DB. Exit code 0 completes the event; any other "
    "fails it, with the last lines of standard error, and the hub tries again later.",
)


@app.default
def worker(
    *command: Annotated[
        str, Parameter(name="COMMAND", help="After --: the program and its arguments.", allow_leading_hyphen=True)
    ],
    tags: Annotated[str, Parameter(help="Take events with any of these tags, such as email,sms.")],
    concurrency: Annotated[int, Parameter(help="How many programs run at a time.")] = 1,
    lease: Annotated[
        float, Parameter(help="Seconds after which others get the event if this process dies; extended meanwhile.")
    ] = 300.0,
    worker_id: Annotated[str | None, Parameter(help="Who works; by default HOST:PID.")] = None,
    shutdown_timeout: Annotated[
        float, Parameter(help="Seconds that programs may go on after SIGTERM; then they are ended and given back.")
    ] = 30.0,
    common: Remote | None = None,
) -> None:
    """Run a program for each event, as a worker of a hub."""
    common = common or Remote()
    if common.db is not None:
        raise SettingsError("A worker speaks to a hub over HTTP; give --url instead of --db.")
    if common.json:
        raise SettingsError("A worker prints no document. For a log in JSON give --log-format json.")
    if not command:
        raise SettingsError("There is no program to run; give one after --, such as: -- ./handler.sh")
    if shutil.which(command[0]) is None:
        raise SettingsError(f"The program {command[0]} is not there, or is not executable.")
    loaded = common.load()
    settings = loaded.settings
    from eventhub.cli.programs import Program, without_secrets
    from eventhub.client.worker import Worker, new_worker_id

    name = worker_id or new_worker_id()
    program = Program(command, {**without_secrets(os.environ), "EVENTHUB_WORKER_ID": name})
    running = Worker(
        settings.url,
        tags,
        program,
        key=loaded.key_for_url(),
        worker_id=name,
        concurrency=concurrency,
        lease=lease,
        shutdown_timeout=shutdown_timeout,
    )
    asyncio.run(running.run())
