"""Running the installed command as anyone would, and a hub with something in it."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventhub import EventBus, EventQueue, PermanentError, RetryPolicy
from tests.cli.forking import run_forked

LONGEST = 100.0
EVENTHUB = Path(sys.executable).with_name("eventhub")


class Command:
    """The `eventhub` command in a directory of its own, without settings of the caller.

    ``afresh`` starts the installed program itself, as a shell would; else it is forked, which is ten times as fast.
    """

    def __init__(self, directory: Path, *, afresh: bool = False) -> None:
        self.directory = directory
        self._afresh = afresh
        self.timeout = LONGEST
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EVENTHUB_")}
        self.environment = {**kept, "NO_COLOR": "1"}
        self.environment.pop("COLUMNS", None)

    def __call__(
        self, *arguments: str, env: Mapping[str, str] | None = None, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        environment = {**self.environment, **(env or {})}
        if not self._afresh:
            return run_forked(arguments, cwd=self.directory, env=environment, stdin=stdin or "", timeout=self.timeout)
        return subprocess.run(
            [EVENTHUB, *arguments],
            cwd=self.directory,
            env=environment,
            input=stdin or "",
            capture_output=True,
            text=True,
            timeout=self.timeout,
            check=False,
        )

    def json(self, *arguments: str, code: int = 0, env: Mapping[str, str] | None = None) -> Any:
        """The one JSON document of a command; nothing else may be on standard output."""
        done = self(*arguments, "--json", env=env)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)


class Filled:
    """The ids of what `fill` put into a store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.completed: list[int] = []
        self.dead: list[int] = []
        self.with_errors = 0
        self.pending = 0
        self.claimed = 0


def fill(url: str) -> Filled:
    """Two completed and three dead events of a bus; in the queue `jobs` one of each other kind."""
    return asyncio.run(_fill(url))


async def _fill(url: str) -> Filled:
    filled = Filled(url)
    async with EventBus(url, retry=RetryPolicy(max_retries=1, base_delay=0.0)) as bus:

        @bus.on("user.*")
        async def greet(event: object) -> None: ...

        @bus.on("bad.*")
        async def fail(event: object) -> None:
            raise ValueError("broken [bold]beyond[/bold] repair \x1b[31m")

        filled.completed = [await bus.publish("user.created", {"id": number}) for number in (1, 2)]
        filled.dead = [
            await bus.publish("bad.thing", {"id": number}, metadata={"source": "test"}, ordering_key="k")
            for number in (1, 2, 3)
        ]
    async with EventQueue(url, queue="jobs") as queue:
        wrong = await queue.publish("job.run", {"n": 0})
        await queue.finalize(wrong.id, errors=[PermanentError("mailer", "no such address")])
        filled.with_errors = wrong.id
        filled.claimed = (await queue.publish("job.run", {"n": 1})).id
        await queue.poll()
        filled.pending = (await queue.publish("job.run", {"n": 2}, delay=3600, title="Later")).id
        await queue.store.tend()
    return filled
