"""Many small worlds keep every promise, a seed is always the same history, and mistakes are found within few seeds."""

import json
import os
import subprocess
import sys

import pytest

from eventhub.cli import main
from eventhub.store.sqlite.publishing import SQL
from eventhub.testing.simulation.running import replay, simulate, smaller
from eventhub.testing.simulation.setup import Setup
from eventhub.testing.simulation.sqlite_twin import SqliteTwin
from eventhub.testing.simulation.telling import told
from eventhub.testing.simulation.watcher import Broken
from eventhub.testing.simulation.world import World
from tests.simulation.mutations import MUTATIONS, Patch, _nobody_steps_forward, _report_without_fence

SEEDS = int(os.environ.get("EVENTHUB_SIMULATE_SEEDS", "250"))
WITHIN = 300
"""Seeds in which every mistake must have shown itself."""


def test_every_promise_is_kept_in_many_worlds() -> None:
    verdict = simulate(SEEDS, 1)
    assert verdict.clean, "\n".join(told(verdict))
    for fault in ("crash", "lost", "pause", "jump", "late", "duplicates", "dead"):
        assert verdict.figures[fault] > 0, f"no {fault} in {SEEDS} seeds: nothing was tried"


def test_sqlite_stands_as_the_model_after_every_step() -> None:
    verdict = simulate(max(SEEDS // 25, 10), 1, sqlite=True)
    assert verdict.clean, "\n".join(told(verdict))


def test_a_seed_is_the_same_history_in_every_process() -> None:
    code = (
        "from eventhub.testing.simulation.running import replay\n"
        "from eventhub.testing.simulation.setup import Setup\n"
        "print(*replay(Setup.drawn(7))[0], sep='\\n')"
    )
    histories = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    (history,) = histories
    assert history.splitlines() == replay(Setup.drawn(7))[0]
    assert len(history.splitlines()) > 20


def _first_broken(seeds: int, *, sqlite: bool = False) -> tuple[int, Broken]:
    for seed in range(seeds):
        twin = SqliteTwin(Setup.drawn(seed)) if sqlite else None
        try:
            World(Setup.drawn(seed), twin=twin).run()
        except Broken as broken:
            return seed, broken
        finally:
            if twin is not None:
                twin.close()
    pytest.fail(f"nothing was found in {seeds} seeds")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__.strip("_"))
def test_a_mistake_is_found_within_few_seeds(mutation: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    _, broken = _first_broken(WITHIN)
    assert broken.invariant in MUTATIONS[mutation], broken.words


@pytest.mark.parametrize(
    ("query", "old", "new"),
    [
        ("release", "attempts = attempts - 1", "attempts = attempts"),
        ("ended_leases", "due < :now", "due <= :now"),
        ("advance", "state = 2", "state = 3"),
        ("drop_markers", "IN (SELECT value FROM carray(:ids))", "= (SELECT max(value) FROM carray(:ids))"),
    ],
)
def test_a_statement_that_is_wrong_is_found_beside_the_model(
    query: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(SQL, query)
    assert old in right
    monkeypatch.setattr(SQL, query, right.replace(old, new, 1))
    _, broken = _first_broken(60, sqlite=True)
    assert broken.invariant == 0


def test_what_fails_is_made_smaller_and_told_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    _report_without_fence(monkeypatch)
    seed, broken = _first_broken(WITHIN)
    whole = Setup.drawn(seed)
    small = smaller(whole, broken.invariant)
    assert small.faults < whole.faults
    trace, again = replay(small)
    assert again is not None
    assert again.invariant == broken.invariant
    assert "Settle(" in trace[-1]


def test_the_first_failure_ends_the_run_and_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    _nobody_steps_forward(monkeypatch)
    verdict = simulate(WITHIN, 0)
    assert verdict.failure is not None
    assert verdict.seeds < WITHIN
    assert verdict.failure.name == "everything comes to its end in bounded time"
    lines = list(told(verdict))
    assert f"Seed {verdict.failure.seed} broke a promise" in "\n".join(lines)
    assert lines[-1] == f"      ✗  {verdict.failure.words}"


def test_the_command_says_whether_all_was_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["torture", "simulate", "--seeds", "3"]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["seeds"] == 3
    assert main([*command, "--sqlite"]) == 0
    assert capsys.readouterr().out.endswith("clean\n")
    _nobody_steps_forward(monkeypatch)
    assert main(command) == 1
    assert "broke a promise at step" in capsys.readouterr().out
    assert main([*command[:3], "0"]) == 2
