"""What a dispatcher keeps in mind about a subscriber."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from eventhub.core.subscribers import Subscriber
from eventhub.hub.lines import CircuitRules, Line
from eventhub.hub.subscribers import ReadySubscriber
from eventhub.store.messages import SubscriberRow, routes_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RULES = CircuitRules(failures=3, lasting=timedelta(0), rest=timedelta(seconds=10))


def row(**fields: Any) -> SubscriberRow:
    return SubscriberRow(id=1, name="one", document="{}", sealed=None, created_at=NOW, updated_at=NOW, **fields)


def ready(**fields: Any) -> ReadySubscriber:
    subscriber = Subscriber(name="one", url="https://example.com/", **fields)
    return ReadySubscriber(
        id=1, subscriber=subscriber, policy=subscriber.policy, secrets=(b"s",), headers={}, routes=routes_of(1)
    )


def line(**fields: Any) -> Line:
    return Line(row(), ready(**fields), most=4, resting=0.0, rules=RULES)


def fail(one: Line, times: int) -> list[bool]:
    tripped = []
    for _ in range(times):
        one.taken(1)
        tripped.append(one.ended(delivered=False))
    return tripped


def test_the_circuit_should_open_after_failures_in_a_row():
    one = line()
    assert fail(one, 2) == [False, False]
    one.taken(1)
    assert not one.ended(delivered=True)
    assert fail(one, 3) == [False, False, True]


def test_a_circuit_that_was_closed_elsewhere_begins_anew():
    one = line()
    fail(one, 3)
    one.update(row(circuit="open"), ready(), most=4, resting=10.0)
    assert (one.room, one.may_probe) == (0, False)
    one.update(row(circuit="closed"), ready(), most=4, resting=0.0)
    assert one.room == 4
    assert fail(one, 1) == [False]


def test_who_was_enabled_begins_anew():
    one = line()
    fail(one, 2)
    one.update(row(status="disabled"), ready(), most=4, resting=0.0)
    assert one.room == 0
    one.update(row(status="active"), ready(), most=4, resting=0.0)
    assert fail(one, 1) == [False]


def test_an_open_circuit_lets_one_probe_through():
    one = line()
    one.update(row(circuit="open"), ready(), most=4, resting=0.0)
    assert (one.room, one.may_probe) == (0, True)
    one.probing = True
    assert one.room == 1
    one.taken(1)
    assert one.room == 0
    assert not one.ended(delivered=False)
    assert one.room == 0


def test_a_rest_grows_up_to_five_minutes():
    rests = [RULES.rest_after(opens).total_seconds() for opens in (0, 1, 2, 5, 50)]
    assert rests == [10, 20, 40, 300, 300]


def test_a_probe_is_never_more_than_one_although_the_row_is_read_again():
    one = line()
    one.update(row(circuit="open"), ready(), most=4, resting=0.0)
    one.probing = True
    one.taken(1)
    one.update(msgspec.structs.replace(row(circuit="open"), circuit_opens=2), ready(), most=4, resting=5.0)
    assert one.room == 0


def test_who_has_not_answered_soon_is_slow():
    one, slow = line(), []
    slow.append(one.slow)  # nobody knows yet
    one.taken(2)
    one.ended(delivered=True, seconds=0.1)
    slow.append(one.slow)
    one._moved -= 5.0
    slow.append(one.slow)  # something is under way and nothing ends
    one.ended(delivered=False, seconds=5.1)
    slow.append(one.slow)
    one.taken(1)
    one.ended(delivered=False, seconds=0.1)
    slow.append(one.slow)  # to refuse is an answer
    assert slow == [True, False, True, True, False]
