"""The matrix of faults is true: whatever it names is there."""

from pathlib import Path

import pytest

from eventhub.testing.torture.faults import FAULTS, KILLS, possible
from eventhub.testing.torture.harm import WAYS

ROOT = Path(__file__).parents[2]


def test_rows_are_numbered_and_each_is_proved_by_something():
    numbers = [fault.number for fault in FAULTS]
    assert numbers == sorted(set(numbers))
    assert [fault.number for fault in FAULTS if not fault.soak and not fault.tests] == []


@pytest.mark.parametrize("place", sorted({test for fault in FAULTS for test in fault.tests if test.endswith(".py")}))
def test_tests_that_are_named_are_there(place: str):
    assert (ROOT / place).is_file()


def test_every_fault_of_a_run_can_be_done_and_nothing_else_is():
    named = [name for fault in FAULTS for name in fault.soak]
    assert len(named) == len(set(named))
    assert set(named) == {*KILLS, *WAYS, "evil-receiver"}


def test_what_needs_a_server_of_its_own_is_done_there_only():
    assert possible("postgres", server=True) - possible("postgres", server=False) == {
        "postgres-crash",
        "postgres-hang",
        "postgres-terminate",
    }
    assert not {"postgres-crash", "postgres-hang", "postgres-terminate"} & possible("sqlite", server=True)
