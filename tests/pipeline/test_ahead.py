"""Items are fetched before they are asked for, and nothing is left running when nobody asks any more."""

import threading
from collections.abc import Generator

import pytest

from eventhub.pipeline.ahead import fetched_ahead

Numbers = Generator[int, None, None]


def test_the_same_items_in_the_same_order() -> None:
    assert list(fetched_ahead((n for n in range(1000)), most=3)) == list(range(1000))
    assert list(fetched_ahead(n for n in range(0))) == []


def test_the_next_ones_are_fetched_while_the_last_is_in_use() -> None:
    third = threading.Event()

    def numbers() -> Numbers:
        for n in range(5):
            if n == 3:
                third.set()
            yield n

    items = fetched_ahead(numbers(), most=2)
    assert next(items) == 0
    assert third.wait(10)
    assert list(items) == [1, 2, 3, 4]


def test_what_goes_wrong_is_raised_after_what_went_well() -> None:
    def numbers() -> Numbers:
        yield 1
        raise OSError("The line is cut.")

    items = fetched_ahead(numbers())
    assert next(items) == 1
    with pytest.raises(OSError, match="cut"):
        next(items)


def test_who_stops_asking_closes_the_source() -> None:
    closed = threading.Event()

    def numbers() -> Numbers:
        try:
            yield from range(1_000_000)
        finally:
            closed.set()

    before = threading.active_count()
    items = fetched_ahead(numbers(), most=2)
    assert next(items) == 0
    items.close()
    assert closed.is_set()
    assert threading.active_count() == before
