"""How much a dispatcher takes on."""

import math

from hypothesis import given
from hypothesis import strategies as st

from eventhub.hub.pace import Tokens, share_of, shared_out


class Line:
    def __init__(self, room: int, in_flight: int = 0, *, hungry: bool = False, slow: bool = False) -> None:
        self.room, self.in_flight, self.hungry, self.slow = room, in_flight, hungry, slow


lines = st.builds(Line, st.integers(0, 50), st.integers(0, 20), hungry=st.booleans(), slow=st.booleans())


@given(st.lists(lines, max_size=40), st.integers(1, 600), st.integers(0, 1000))
def test_never_more_places_than_there_are_nor_than_anyone_has_room_for(several: list[Line], places: int, turn: int):
    given_out, free = shared_out(several, places, turn)
    assert all(0 < count <= line.room for line, count in given_out)
    assert free == max(places - sum(line.in_flight for line in several), 0)
    assert sum(count for line, count in given_out if line.hungry) <= free
    assert len({id(line) for line, _ in given_out}) == len(given_out)
    assert [line.hungry for line, _ in given_out] == sorted((line.hungry for line, _ in given_out), reverse=True)


@given(st.lists(lines, max_size=40), st.integers(1, 600), st.integers(0, 1000))
def test_whoever_is_quiet_is_asked_while_there_is_a_place(several: list[Line], places: int, turn: int):
    given_out, free = shared_out(several, places, turn)
    asked = {id(line) for line, _ in given_out}
    if free:
        assert all(id(line) in asked for line in several if line.room and not (line.hungry or line.in_flight))


def test_a_line_that_hangs_never_takes_the_places_of_others():
    hanging = Line(room=468, in_flight=32, hungry=True)
    others = [Line(room=32, hungry=True) for _ in range(49)]
    given_out = {id(line): count for line, count in shared_out([hanging, *others], 500, 0)[0]}
    assert id(hanging) not in given_out
    assert all(given_out[id(line)] >= 9 for line in others)


@given(st.lists(lines, max_size=40), st.integers(1, 600))
def test_however_many_are_slow_they_leave_places_to_those_who_are_not(several: list[Line], places: int):
    for line in several:
        line.in_flight = 0
    for turn in range(10):
        for line, count in shared_out(several, places, turn)[0]:
            if line.hungry:
                line.room, line.in_flight = line.room - count, line.in_flight + count
    slow = [line for line in several if line.slow and line.hungry]
    assert sum(line.in_flight for line in slow) <= places - places // 2 + len(slow)


def test_one_that_hangs_with_many_others_has_one_place_and_a_quick_one_as_many_as_it_can_use():
    hanging = [Line(room=32, in_flight=10, hungry=True, slow=True) for _ in range(25)]
    late, quick = Line(room=32, hungry=True, slow=True), Line(room=32, hungry=True)
    assert dict(shared_out([*hanging, late, quick], 500, 0)[0]) == {late: 1, quick: 18}


def test_a_single_busy_line_gets_most_beside_many_quiet_ones():
    busy = Line(room=100, hungry=True)
    given_out = dict(shared_out([busy, *[Line(room=32) for _ in range(1000)]], 400, 7)[0])
    assert given_out[busy] == 100


def test_the_last_places_are_not_given_to_a_line_that_has_all_the_others():
    greedy = Line(room=1000, hungry=True)
    for _ in range(10):
        given_out, _ = shared_out([greedy, Line(room=32)], 400, 0)
        taken = dict(given_out).get(greedy, 0)
        greedy.room, greedy.in_flight = greedy.room - taken, greedy.in_flight + taken
    assert greedy.in_flight == 350


def test_the_odd_places_are_given_too():
    several = [Line(room=5, hungry=True) for _ in range(30)]
    hanging = Line(room=0, in_flight=33)
    given_out = [count for _, count in shared_out([hanging, *several], 100, 3)[0]]
    assert sorted(given_out) == [2] * 23 + [3] * 7


def test_all_get_their_turn_when_there_are_more_lines_than_places():
    several = [Line(room=5, hungry=True) for _ in range(30)]
    served = {id(line) for turn in range(30) for line, _ in shared_out(several, 7, turn)[0]}
    assert len(served) == 30


@given(st.integers(1, 200), st.integers(1, 12), st.integers(0, 10**6))
def test_the_parts_of_a_limit_add_up_to_it(most: int, count: int, subscriber: int):
    workers = [f"host:{number}" for number in range(count)]
    parts = [share_of(most, worker, workers, subscriber) for worker in workers]
    assert sum(parts) == most
    assert max(parts) - min(parts) <= 1


def test_the_odd_places_do_not_all_go_to_the_same_dispatcher():
    workers = ["a", "b", "c"]
    owners = [next(w for w in workers if share_of(1, w, workers, s)) for s in range(200)]
    assert {owners.count(w) > 30 for w in workers} == {True}


def test_tokens_come_with_time_up_to_one_second_of_them():
    now = 100.0
    tokens = Tokens(10.0, lambda: now)
    assert tokens.left() == 10
    tokens.take(10)
    assert tokens.left() == 0
    assert math.isclose(tokens.wait(), 0.1)
    now += 0.5
    assert tokens.left() == 5
    now += 60
    assert tokens.left() == 10
    assert Tokens(None).left() is None


def test_a_slow_rate_lets_one_through_at_a_time():
    now = 0.0
    tokens = Tokens(0.1, lambda: now)
    assert tokens.left() == 1
    tokens.take(1)
    now += 5
    assert tokens.left() == 0
    assert math.isclose(tokens.wait(), 5.0)
