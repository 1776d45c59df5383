"""For peers whose calls block: publishing from threads, which is what their users do."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

__all__ = ["publish_in_threads"]


def publish_in_threads(publish: Callable[[], Any], count: int, at_once: int) -> float:
    """Call ``publish`` so often, from so many threads; returns the seconds it took."""
    numbers = iter(range(count))
    lock = threading.Lock()
    failures: list[BaseException] = []

    def publisher() -> None:
        try:
            while True:
                with lock:
                    if next(numbers, None) is None:
                        return
                publish()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    threads = [threading.Thread(target=publisher) for _ in range(at_once)]
    gc.collect()
    started = monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = monotonic() - started
    if failures:
        raise failures[0]
    return took
