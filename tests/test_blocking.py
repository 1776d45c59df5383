"""The blocking faces: the same classes without an event loop, safe with threads, forks and interrupts."""

import asyncio
import http.server
import multiprocessing
import signal
import threading
import time
from pathlib import Path
from typing import cast

import pytest

from eventhub import Subscriber, blocking
from eventhub.core.events import Status
from eventhub.errors import EventNotFound


@pytest.fixture
def queue(store_url):
    with blocking.EventQueue(store_url) as opened:
        yield opened


def wait_for(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.005)


def test_publish_poll_and_finalize_block_until_they_are_done(queue):
    event = queue.publish({"type": "a", "payload": {"n": 1}})
    polled = queue.poll()
    assert (polled.id, polled.payload) == (event.id, {"n": 1})
    queue.finalize(polled.id, success=True)
    assert queue.store.event(event.id).status is Status.COMPLETED
    assert queue.poll() is None


def test_errors_reach_the_caller(queue):
    with pytest.raises(EventNotFound, match="Event with id 4711 not found"):
        queue.finalize(4711)


def test_attributes_pass_through(queue):
    assert queue.name == "default"
    assert isinstance(queue.store, blocking.Store)
    assert queue.store.engine in ("sqlite", "postgres")
    assert "publish_many" in dir(queue)
    assert "Take the oldest event" in queue.poll.__doc__
    with pytest.raises(AttributeError):
        _ = queue.no_such_thing


def test_faces_share_a_store(store_url):
    with blocking.open_store(store_url) as store:
        queue = blocking.EventQueue(store)
        event = queue.publish("a", 1)
        queue.poll()
        queue.finalize(event.id, success=False)
        page = blocking.DLQInspector(store).list()
        assert [dead.id for dead in page.events] == [event.id]


def test_a_store_given_back_by_its_own_method_is_the_same_face(store_url):
    store = blocking.open_store(store_url)
    assert store.open() is store
    store.close()


def test_a_manager_runs_plain_handlers_that_use_blocking_faces_themselves(queue):
    manager = blocking.EventManager(queue)
    guard = blocking.IdempotencyGuard(queue)

    @manager.on("order.placed")
    def bill(event):
        if guard(event, "bill"):
            queue.publish("order.billed", event.payload)

    billed = []
    manager.register("list", "order.billed", lambda event: billed.append(event.payload))
    queue.publish_many([{"type": "order.placed", "payload": n} for n in range(20)])
    manager.run_until_empty()
    assert sorted(billed) == list(range(20))
    assert manager.numbers.completed == 40


def test_a_manager_runs_until_it_is_stopped_from_another_thread(queue):
    manager, handled = blocking.EventManager(queue), threading.Event()
    manager.register("h", "a", lambda event: handled.set())
    running = threading.Thread(target=manager.run)
    running.start()
    queue.publish("a", 1)
    assert handled.wait(10)
    manager.stop()
    running.join(10)
    assert not running.is_alive()


def test_a_manager_runs_in_the_background_of_a_with_block(queue):
    manager, handled = blocking.EventManager(queue), threading.Event()
    manager.register("h", "a", lambda event: handled.set())
    with manager:
        queue.publish("a", 1)
        assert handled.wait(10)
    assert not manager.running


def test_a_context_manager_of_a_method_works_with_with(queue):
    guard, event = blocking.IdempotencyGuard(queue), queue.publish("a", 1)
    with guard.once(event, "step") as first:
        assert first
    with guard.once(event, "step") as first:
        assert not first

    def fail_inside():
        with guard.once(event, "other"):
            raise KeyError("lost")

    with pytest.raises(KeyError):
        fail_inside()
    assert not guard.is_guarded(event, "other")


def test_a_bus_blocks_until_the_event_is_handled(store_url):
    with blocking.EventBus(store_url) as bus:
        seen = []
        bus.subscribe("user.*", lambda event: seen.append(event.payload))
        event_id = bus.publish("user.created", {"id": 7})
        assert seen == [{"id": 7}]
        assert bus.store.event(event_id).status is Status.COMPLETED


def test_a_blocking_call_on_the_loop_itself_is_refused_with_a_reason(queue):
    manager = blocking.EventManager(queue)

    async def wrong(event):
        queue.poll()

    manager.register("wrong", "a", wrong)
    event = queue.publish("a", 1)
    manager.run_until_empty()
    (error,) = queue.store.event(event.id).errors
    assert "RuntimeError: A blocking call was made on the hub's own event loop" in error


def test_many_threads_share_a_face(queue):
    taken: list[int] = []

    def work():
        for n in range(5):
            queue.publish("n", n)
        while (event := queue.poll()) is not None:
            taken.append(event.id)
            queue.finalize(event)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(taken) == len(set(taken)) == 40


class _Interrupting:
    """A loop to which something is handed over by a thread that is interrupted just before, or just after."""

    def __init__(self, loop, when):
        self._loop, self._when = loop, when

    def call_soon_threadsafe(self, *args, **kwargs):
        when, self._when = self._when, None
        if when != "before":
            self._loop.call_soon_threadsafe(*args, **kwargs)
        if when:
            raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_as_the_call_is_handed_over_leaves_nothing_running(when):
    seen, loop = [], asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def work():
        seen.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    with pytest.raises(KeyboardInterrupt):
        blocking._Call(work, (), {}).run(cast("asyncio.AbstractEventLoop", _Interrupting(loop, when)))
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01), loop).result()  # whatever was begun has begun
    running = [task for task in asyncio.all_tasks(loop) if not task.done()]
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert (running, seen) in (([], []), ([], ["begun", "ended"]))


@pytest.fixture
def interruptible():
    """Shells start background jobs with interrupts ignored; this test must have them all the same."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_cancels_what_blocks(queue, interruptible):
    manager, started = blocking.EventManager(queue, shutdown_timeout=0), threading.Event()

    async def endless(event):
        import asyncio

        started.set()
        await asyncio.Event().wait()

    manager.register("endless", "a", endless)
    event = queue.publish("a", 1)

    main = threading.get_ident()

    def interrupt():
        started.wait(10)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        manager.run()
    after = queue.store.event(event.id)
    assert (after.status, after.attempts) == (Status.PENDING, 0)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_uses_a_loop_and_connections_of_its_own(queue):
    event = queue.publish("a", 1)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    manager = blocking.EventManager(queue)

    def child():
        try:
            polled = queue.poll()
            queue.finalize(polled)
            answers.put(polled.id)
            manager.run_until_empty()
        except Exception as error:  # noqa: BLE001 - the parent looks at it
            answers.put(f"{type(error).__name__}: {error}")

    process = context.Process(target=child)
    process.start()
    assert answers.get() == event.id
    assert "was made before the process forked" in answers.get()
    process.join(10)
    assert queue.store.event(event.id).status is Status.COMPLETED
    assert queue.publish("b", 2).id > event.id


def test_a_hub_without_an_event_loop(tmp_path: Path) -> None:
    came = threading.Event()

    class Consumer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204)
            self.end_headers()
            came.set()

        def log_message(self, *_: object) -> None:
            """Nothing to the terminal."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Consumer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with blocking.Hub(tmp_path / "hub.db", allow_private=["127.0.0.0/8"]) as hub:
            url = f"http://127.0.0.1:{server.server_address[1]}/"
            view, secret = hub.subscribers.create(Subscriber(name="one", url=url))
            assert secret.startswith("whsec_")
            assert hub.subscribers.get(view.id).status == "active"
            hub.publish("a", {"x": 1})
            assert came.wait(20)
    finally:
        server.shutdown()
        server.server_close()
