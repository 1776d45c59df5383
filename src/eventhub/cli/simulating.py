"""``eventhub torture simulate``: small virtual worlds, each drawn from a seed, in which every promise is watched."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from eventhub.cli.output import console, document, plain
from eventhub.cli.progress import bar
from eventhub.errors import SettingsError

__all__ = ["simulate"]

Flag = Annotated[bool, Parameter(negative="", show_default=False)]


def simulate(*, seeds: int = 5000, seed: int = 1, sqlite: Flag = False, json: Flag = False, debug: Flag = False) -> int:
    """Simulate processes on a virtual clock, and watch every promise after every step.

    Publishers, workers, dispatchers, receivers and a janitor crash, lose replies, stand still beyond their leases and
    send twice, while clocks jump. A seed is always the same history. The first that breaks a promise is made as small
    as possible and told step by step, and the exit code is 1.

    Args:
        seeds: How many worlds; thousands take a minute.
        seed: The first of them.
        sqlite: Give every call to a real SQLite store in memory, too, which must stand as the model after every step.
        json: One JSON document on standard output, for programs.
        debug: Show where an error came from.
    """
    from eventhub.testing.simulation.running import simulate as run
    from eventhub.testing.simulation.telling import told

    del debug
    if seeds < 1 or seed < 0:
        raise SettingsError(f"--seeds is {seeds} and --seed is {seed}; give at least 1 seed, from 0 on.")
    with bar("seeds", seeds, quiet=json) as advance:
        done = 0

        def progress(so_far: int, _: int) -> None:
            nonlocal done
            advance(so_far - done)
            done = so_far

        verdict = run(seeds, seed, progress, sqlite=sqlite)
        advance(verdict.seeds - done)
    if json:
        document({"clean": verdict.clean, **msgspec.structs.asdict(verdict)})
    else:
        for line in told(verdict):
            console().print(plain(line))
        word = "clean" if verdict.clean else "VIOLATED"
        console().print(word, style="bold green" if verdict.clean else "bold red")
    return 0 if verdict.clean else 1
