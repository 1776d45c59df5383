"""The hub for programs without an event loop: the same classes, whose methods block until they are done.

One background loop in a daemon thread runs the real, asynchronous objects; a face stands for one of them and passes
every call on. There is no second implementation, and nothing here knows what the methods do.

    your thread:  queue.poll() ──▶ Face ──call──▶ the loop's thread:  await EventQueue.poll()
                      waits for ◀───────answer────────┘

Handlers are plain functions and run in threads of their own, so they may use blocking faces too.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterator
from contextvars import copy_context
from typing import Any, ClassVar, Final, Self

from eventhub import bus, queue, store

__all__ = [
    "Client",
    "DLQInspector",
    "EventBus",
    "EventManager",
    "EventQueue",
    "Hub",
    "IdempotencyGuard",
    "Store",
    "Worker",
    "open_store",
]

PATIENCE: Final = 3
"""The first interrupt cancels the work, the second hurries it, and this one does not wait for it any more."""


class _Call:
    """One call on its way to the loop and back."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._work = function, args, kwargs
        self._begun = False
        self._task: asyncio.Task[Any] | None = None
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self, loop: asyncio.AbstractEventLoop) -> Any:
        """Make the call on the loop and wait for its answer; an interrupt cancels it and waits for its end.

        An interrupt may come at any moment, also right after the call was handed over: the loop begins it once.
        """
        interrupt: BaseException | None = None
        for _ in range(PATIENCE):
            try:
                loop.call_soon_threadsafe(self._start, context=copy_context())
                self._done.wait()
                break
            except BaseException as error:  # noqa: BLE001 - KeyboardInterrupt, or what a signal handler raised
                interrupt = error
                loop.call_soon_threadsafe(self._cancel)
        if interrupt is not None:
            raise interrupt
        if self._error is not None:
            raise self._error
        return self._value

    def _start(self) -> None:
        if self._begun:
            return
        self._begun = True
        function, args, kwargs = self._work
        try:
            self._value = function(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            self._error = error
        if self._error is None and inspect.isawaitable(self._value):
            work = self._value if inspect.iscoroutine(self._value) else _awaited(self._value)
            self._task = asyncio.get_running_loop().create_task(work)
            self._task.add_done_callback(self._finish)
        else:
            self._done.set()

    def _finish(self, task: asyncio.Task[Any]) -> None:
        self._error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._value = None if self._error is not None else task.result()
        self._done.set()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        elif not self._begun:
            self._begun = True
            self._done.set()


async def _awaited(work: Any) -> Any:
    return await work


class _Background:
    """The loop of this process, started when it is first needed; a forked child starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        loop = self._started()
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "A blocking call was made on the hub's own event loop, which would wait for itself for ever. "
                "Use the asynchronous classes of eventhub there, or make the handler a plain function."
            )
        return _Call(function, args, kwargs).run(loop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="eventhub-blocking", daemon=True)
                self._thread.start()
            return self._loop


_background = _Background()
_left_to_the_parent: list[object] = []
"""After a fork the parent's loop and connections must be neither used nor cleaned up by the child: keep them."""


def _after_fork() -> None:
    global _background  # noqa: PLW0603 - one loop for each process
    _left_to_the_parent.append(_background)
    _background = _Background()


os.register_at_fork(after_in_child=_after_fork)


class Face:
    """Stands for an asynchronous object: its methods block, its other attributes are passed through.

    Use it in a ``with`` block where the original wants ``async with``.
    """

    _original: ClassVar[Callable[..., Any]]
    _survives_fork: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        def make() -> Any:
            given = {name: _unwrapped(arg) for name, arg in kwargs.items()}
            return _background.call(self._original, *map(_unwrapped, args), **given)

        self._stand_for(make)

    @classmethod
    def _of(cls, find: Callable[[], Any]) -> Self:
        """A face for an object that exists already; after a fork it is looked for again."""
        face = cls.__new__(cls)
        face._stand_for(find)  # noqa: SLF001 - our own class
        return face

    def _stand_for(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._process = os.getpid()
        self._made = make()

    def _target(self) -> Any:
        if self._process != os.getpid():
            name = type(self).__name__
            if not self._survives_fork:
                raise RuntimeError(
                    f"This {name} was made before the process forked, and its handlers belong to the parent. "
                    f"Make the {name} after the fork."
                )
            _left_to_the_parent.append(self._made)
            self._stand_for(self._make)
        return self._made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = getattr(self._target(), name)
        if inspect.ismethod(value):
            return self._method(name)
        return _wrapped(value, lambda: getattr(self._target(), name))

    def _method(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            target = self._target()
            given = {key: _unwrapped(arg) for key, arg in kwargs.items()}
            answer = _background.call(getattr(target, name), *map(_unwrapped, args), **given)
            return self if answer is target else _wrapped(answer, lambda: answer)

        call.__name__ = name
        call.__doc__ = getattr(getattr(self._target(), name), "__doc__", None)
        return call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._method("__call__")(*args, **kwargs)

    def __enter__(self) -> Any:
        return self._method("__aenter__")()

    def __exit__(self, *raised: object) -> Any:
        return self._method("__aexit__")(*raised)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target()) if not name.startswith("_")]

    def __repr__(self) -> str:
        return f"<blocking {self._made!r}>"


class _Part(Face):
    """An asynchronous context manager that a method returned, or a part of a face that has methods of its own."""


def _unwrapped(value: Any) -> Any:
    return value._target() if isinstance(value, Face) else value  # noqa: SLF001 - our own class


def _wrapped(value: Any, find: Callable[[], Any]) -> Any:
    """The value as a blocking caller can use it."""
    for original, face in _FACES.items():
        if isinstance(value, original):
            return face._of(find)  # noqa: SLF001 - our own class
    if hasattr(value, "__anext__"):
        return _iterated(value)
    if hasattr(value, "__aenter__") or _is_asynchronous(type(value)):  # type: ignore[arg-type] # types are hashable
        return _Part._of(find)  # noqa: SLF001 - our own class
    return value


@functools.cache
def _is_asynchronous(kind: type) -> bool:
    """Whether it is a part of ours whose methods must be waited for, such as a hub's book of subscribers."""
    return kind.__module__.startswith("eventhub.") and any(
        inspect.iscoroutinefunction(getattr(kind, name)) for name in dir(kind) if not name.startswith("_")
    )


def _iterated(values: Any) -> Iterator[Any]:
    while True:
        try:
            yield _background.call(values.__anext__)
        except StopAsyncIteration:
            return


class Store(Face):
    """A database of events and deliveries; see ``eventhub.store.Store``."""

    _original = staticmethod(store.open_store)


class EventBus(Face):
    """Handlers in this process, on a durable store; see ``eventhub.EventBus``."""

    _original = bus.EventBus
    _survives_fork = False


class DLQInspector(Face):
    """What is in the dead letter queue; see ``eventhub.DLQInspector``."""

    _original = bus.DLQInspector


class EventQueue(Face):
    """A work queue to publish to and poll from; see ``eventhub.EventQueue``."""

    _original = queue.EventQueue


class EventManager(Face):
    """Runs handlers for the events of a queue; see ``eventhub.EventManager``."""

    _original = queue.EventManager
    _survives_fork = False


class IdempotencyGuard(Face):
    """Marks the steps of an event that are done; see ``eventhub.IdempotencyGuard``."""

    _original = queue.IdempotencyGuard


def _client(*args: Any, **kwargs: Any) -> Any:
    from eventhub.client import Client as Original

    return Original(*args, **kwargs)


def _worker(*args: Any, **kwargs: Any) -> Any:
    from eventhub.client import Worker as Original

    return Original(*args, **kwargs)


def _hub(*args: Any, **kwargs: Any) -> Any:
    from eventhub.hub import Hub as Original

    return Original(*args, **kwargs)


class Hub(Face):
    """Broadcasts to webhook subscribers; see ``eventhub.Hub``."""

    _original = staticmethod(_hub)
    _survives_fork = False


class Client(Face):
    """A hub that is elsewhere, over HTTP; see ``eventhub.Client``."""

    _original = staticmethod(_client)


class Worker(Face):
    """Runs a handler for work from a hub that is elsewhere; see ``eventhub.Worker``."""

    _original = staticmethod(_worker)
    _survives_fork = False


_FACES: Final[dict[type, type[Face]]] = {
    store.Store: Store,
    bus.EventBus: EventBus,
    queue.EventQueue: EventQueue,
    queue.EventManager: EventManager,
}


def open_store(url: str | os.PathLike[str], **options: Any) -> Store:
    """The store that the URL names; it opens itself on first use."""
    return Store(url, **options)
