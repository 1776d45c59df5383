"""The states of a delivery, the moves between them, and the status an event has from its deliveries."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.events import Action, Status
from eventhub.core.lifecycle import GONE, MOVES, Move, State, event_status, public_status

FAILED, PARTLY = Status.FAILED, Status.COMPLETED_WITH_ERRORS


@pytest.mark.parametrize(
    ("open_states", "dead", "completed", "expected"),
    [
        # nothing open, nothing dead
        ([], [], True, Status.COMPLETED),
        ([], [], False, Status.COMPLETED),
        # something is being worked on
        ([State.LEASED], [], False, Status.PROCESSING),
        ([State.LEASED, State.READY, State.WAITING], [], True, Status.PROCESSING),
        ([State.LEASED], [FAILED], True, Status.PROCESSING),
        # something is still to be done
        ([State.READY], [], False, Status.PENDING),
        ([State.BEHIND], [], False, Status.PENDING),
        ([State.WAITING], [], False, Status.PENDING),
        ([State.WAITING], [FAILED], True, Status.PENDING),
        ([State.READY, State.PARKED], [FAILED], True, Status.PENDING),
        # settled
        ([], [FAILED], False, Status.FAILED),
        ([State.PARKED], [FAILED], False, Status.FAILED),
        ([], [FAILED], True, PARTLY),
        ([State.PARKED], [FAILED], True, PARTLY),
        ([], [PARTLY], False, PARTLY),
        ([], [PARTLY, FAILED], False, PARTLY),
    ],
)
def test_an_events_status_follows_its_deliveries(
    open_states: list[State], dead: list[Status], *, completed: bool, expected: Status
) -> None:
    assert event_status(open_states=frozenset(open_states), dead=frozenset(dead), completed=completed) is expected


@given(
    st.frozensets(st.sampled_from(list(State))),
    st.frozensets(st.sampled_from([FAILED, PARTLY])),
    st.booleans(),
)
def test_an_event_never_hangs_in_processing(
    open_states: frozenset[State],
    dead: frozenset[Status],
    completed: bool,  # noqa: FBT001
) -> None:
    status = event_status(open_states=open_states, dead=dead, completed=completed)
    assert (status is Status.PROCESSING) == (State.LEASED in open_states)
    working = open_states - {State.PARKED}
    assert (status in {Status.PENDING, Status.PROCESSING}) == bool(working)


def test_every_state_has_a_public_status() -> None:
    assert {state: public_status(state) for state in State} == {
        State.READY: Status.PENDING,
        State.LEASED: Status.PROCESSING,
        State.BEHIND: Status.PENDING,
        State.WAITING: Status.PENDING,
        State.PARKED: Status.FAILED,
    }


def test_the_states_are_numbered_as_the_tables_hold_them() -> None:
    assert {state.name: state.value for state in State} == {
        "READY": 0,
        "LEASED": 1,
        "BEHIND": 2,
        "WAITING": 3,
        "PARKED": 4,
    }


def test_there_are_five_statuses_and_no_other_word() -> None:
    assert [str(status) for status in Status] == [
        "PENDING",
        "PROCESSING",
        "COMPLETED",
        "COMPLETED_WITH_ERRORS",
        "FAILED",
    ]


def test_the_table_of_moves_is_complete() -> None:
    assert set(MOVES) == set(Move)
    for sources, targets, _ in MOVES.values():
        assert sources
        assert targets
        assert all(isinstance(source, State) for source in sources)
        assert all(target is GONE or isinstance(target, State) for target in targets)


def test_every_state_can_be_left_and_only_settling_ends_a_delivery() -> None:
    for state in State:
        assert any(state in sources and targets != {state} for sources, targets, _ in MOVES.values())
    assert {move for move, (_, targets, _) in MOVES.items() if GONE in targets} >= {Move.COMPLETE, Move.BURY}


def test_only_a_claim_leads_to_a_lease() -> None:
    leading = {move for move, (_, targets, _) in MOVES.items() if State.LEASED in targets}
    assert leading == {Move.CLAIM, Move.EXTEND}
    assert MOVES[Move.CLAIM][0] == {State.READY}


def test_reports_of_a_worker_need_its_lease() -> None:
    for move in (Move.RETRY, Move.RELEASE, Move.ABANDON, Move.EXTEND, Move.RESET):
        assert MOVES[move][0] == {State.LEASED}


def test_every_end_of_an_attempt_is_told_apart_in_the_log() -> None:
    ends = [MOVES[move][2] for move in (Move.COMPLETE, Move.RETRY, Move.BURY, Move.RELEASE, Move.ABANDON, Move.RESET)]
    assert all(isinstance(action, Action) for action in ends)
    assert all(one != other for one, other in combinations(ends, 2))
