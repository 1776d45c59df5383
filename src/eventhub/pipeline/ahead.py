"""Fetching what comes next while the last is in use: the database reads on while files are written."""

from __future__ import annotations

import atexit
from collections.abc import Generator
from queue import Queue
from threading import Event, Thread
from typing import Final, TypeVar

__all__ = ["fetched_ahead"]

T = TypeVar("T")
MOST_WAITING: Final = 8


class _End:
    """There is no more, or this went wrong."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def fetched_ahead(items: Generator[T, None, None], most: int = MOST_WAITING) -> Generator[T, None, None]:
    """The same items in the same order, up to ``most`` of them fetched by a thread before they are asked for.

    Whoever stops asking ends the thread, and with it the generator, which only the thread has run.
    """
    fetched: Queue[T | _End] = Queue(most)
    unwanted = Event()

    def fetch() -> None:
        end = _End()
        try:
            for item in items:
                fetched.put(item)
                if unwanted.is_set():
                    break
            items.close()
        except BaseException as error:  # noqa: BLE001 - it is raised where the items are used
            end = _End(error)
        fetched.put(end)

    def leave() -> None:
        """Room for the thread to come to its end. Also when Python ends: later, the thread would not run any more."""
        unwanted.set()
        while not isinstance(end := fetched.get(), _End):
            pass
        thread.join()
        fetched.put(end)

    thread = Thread(target=fetch, name="eventhub-ahead", daemon=True)
    thread.start()
    atexit.register(leave)
    try:
        while not isinstance(item := fetched.get(), _End):
            yield item
    except BaseException:
        leave()
        raise
    finally:
        atexit.unregister(leave)
    thread.join()
    if item.error is not None:
        raise item.error
