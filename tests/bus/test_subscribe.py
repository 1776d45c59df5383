"""Subscriptions: who is called for what, in which order, until when."""

import asyncio
import functools
import threading
from datetime import datetime
from typing import Any

import pytest

from eventhub.bus import DLQInspector
from eventhub.core.retry import RetryPolicy
from eventhub.errors import InvalidPatternError, SettingsError
from eventhub.queue import EventQueue
from tests.bus.support import Recorder, python, until

PATTERNS = [
    ("user.created", "user.created", True),
    ("user.created", "user.updated", False),
    ("user.*", "user.created", True),
    ("user.*", "user.created.twice", False),
    ("user.*", "user", False),
    ("user.*", "order.created", False),
    ("*", "everything.at.all", True),
    ("order.*.shipped", "order.123.shipped", True),
    ("order.*.shipped", "order.shipped", False),
    ("*.created", "user.created", True),
    ("*.*", "user.created", True),
    ("*.*", "user", False),
    ("user.c+", "user.cc", False),
    ("cre*", "created", False),
    ("user.create?", "user.created", False),
]


@pytest.mark.parametrize(("pattern", "event_type", "wanted"), PATTERNS)
async def test_a_star_is_one_segment_and_all_else_is_literal(bus, pattern, event_type, wanted) -> None:
    handler = Recorder()
    bus.subscribe(pattern, handler)
    await bus.publish(event_type, 1)
    assert len(handler.events) == wanted


@pytest.mark.parametrize("pattern", ["", "a" * 129, ".".join("*" * 9), None])
async def test_a_pattern_that_cannot_work_is_refused(bus, pattern) -> None:
    with pytest.raises(InvalidPatternError):
        bus.subscribe(pattern, Recorder())


async def test_subscriptions_have_ids_of_their_own(bus) -> None:
    handler = Recorder()
    assert bus.subscribe("a", handler) != bus.subscribe("a", handler)
    await bus.publish("a", 1)
    assert len(handler.events) == 2


async def test_an_unsubscribed_handler_is_not_called_any_more(bus) -> None:
    handler = Recorder()
    subscription = bus.subscribe("a", handler)
    await bus.publish("a", 1)
    assert await bus.unsubscribe(subscription) is True
    await bus.publish("a", 2)
    assert handler.payloads == [1]


async def test_unsubscribing_tells_whether_it_was_there(bus) -> None:
    subscription = bus.subscribe("a", Recorder())
    assert await bus.unsubscribe("no such id") is False
    assert await bus.unsubscribe(subscription) is True
    assert await bus.unsubscribe(subscription) is False


async def test_handlers_of_one_event_run_one_after_the_other_in_subscription_order(bus) -> None:
    steps: list[str] = []

    def handler(name: str) -> Any:
        async def run(event: Any) -> None:
            steps.append(f"{name} begins")
            await asyncio.sleep(0)
            steps.append(f"{name} ends")

        return run

    for pattern, name in [("*", "first"), ("a.*", "second"), ("a.b", "third")]:
        bus.subscribe(pattern, handler(name))
    await bus.publish("a.b", 1)
    assert steps == [f"{name} {what}" for name in ("first", "second", "third") for what in ("begins", "ends")]


async def test_plain_functions_run_in_a_thread_and_do_not_hold_up_the_loop(bus) -> None:
    release, threads = threading.Event(), []

    def plain(event: Any) -> None:
        threads.append(threading.current_thread())
        release.wait(10)

    other = Recorder()
    bus.subscribe("plain", plain)
    bus.subscribe("async", other)
    publisher = asyncio.create_task(bus.publish("plain", 1))
    await until(lambda: threads)
    await bus.publish("async", 2)
    assert other.payloads == [2]
    assert not publisher.done()
    release.set()
    await publisher
    assert threads[0] is not threading.main_thread()
    assert threads[0].daemon


class Plain:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def method(self, event: Any) -> str:
        self.seen.append(event.payload)
        return "ignored"

    async def async_method(self, event: Any) -> str:
        self.seen.append(event.payload)
        return "ignored"

    @staticmethod
    async def with_prefix(seen: list[Any], event: Any) -> None:
        seen.append(event.payload)


async def test_every_kind_of_function_is_a_handler(bus) -> None:
    plain = Plain()
    kinds: list[Any] = [
        plain.method,
        plain.async_method,
        functools.partial(Plain.with_prefix, plain.seen),
        lambda event: plain.seen.append(event.payload),
        lambda event: plain.async_method(event),  # noqa: PLW0108 - a plain function around an async one
    ]
    for kind in kinds:
        bus.subscribe("a", kind)
    await bus.publish("a", 1)
    assert plain.seen == [1] * len(kinds)


async def test_what_is_no_function_is_refused(bus) -> None:
    with pytest.raises(SettingsError, match="give a function"):
        bus.subscribe("a", "not a function")


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": "5"},
        {"retry": {"max_tries": 3}},
        {"retry": {"max_retries": -1}},
        {"retry": {"max_retries": 2.5}},
        {"retry": 5},
        {"breaker": True},
        {"breaker": {"min_events": 3}},
    ],
    ids=repr,
)
async def test_terms_that_cannot_work_are_refused(bus, wrong) -> None:
    with pytest.raises(SettingsError):
        bus.subscribe("a", Recorder(), **wrong)


async def test_the_decorator_subscribes_and_leaves_the_function_as_it_is(bus) -> None:
    seen = []

    @bus.on("order.*", timeout=5.0, retry={"max_retries": 5})
    async def ship(event: Any) -> None:
        seen.append(event.payload)

    assert asyncio.iscoroutinefunction(ship)
    await bus.publish("order.paid", 1)
    assert seen == [1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"shutdown_timeout": -1},
        {"on_unmatched": "drop"},
        {"retry_scope": "all"},
        {"name": "white space"},
        {"retry": 5},
        {"retry": {"max_tries": 3}},
        {"breaker": True},
        {"tuning": {"threads": 3}},
    ],
    ids=repr,
)
async def test_a_bus_with_settings_that_cannot_work_is_refused(make_bus, wrong) -> None:
    with pytest.raises(ValueError, match=r"give|usable|it takes"):
        make_bus(**wrong)


async def test_several_overrides_merge_to_the_most_permissive(make_bus) -> None:
    bus = make_bus(retry=RetryPolicy(max_retries=1, base_delay=2.0, max_delay=10.0, multiplier=2.0, jitter=0))
    bus.subscribe("*", Recorder(), retry={"max_retries": 5, "base_delay": 4.0})
    bus.subscribe("a", Recorder(), retry={"base_delay": 0.5, "multiplier": 3.0})
    bus.subscribe("a", Recorder(), retry={"max_retries": 0, "max_delay": 60.0})
    matched = bus._parts.subscriptions.matching("a")
    assert matched is not None
    policy = matched.policy
    assert (policy.max_retries, policy.base_delay, policy.max_delay, policy.multiplier) == (5, 0.5, 60.0, 3.0)


async def test_only_subscriptions_with_overrides_take_part_in_their_merge(make_bus) -> None:
    bus = make_bus(retry=RetryPolicy(max_retries=9, base_delay=2.0))
    bus.subscribe("*", Recorder())
    assert bus._parts.subscriptions.matching("a").policy.max_retries == 9, "without any, the bus's own holds"
    bus.subscribe("*", Recorder(), retry={"max_retries": 0, "base_delay": 5.0})
    policy = bus._parts.subscriptions.matching("a").policy
    assert (policy.max_retries, policy.base_delay) == (0, 5.0)


def generator(event: Any) -> Any:
    yield event


async def async_generator(event: Any) -> Any:
    yield event


class CallableGenerator:
    async def __call__(self, event: Any) -> Any:
        yield event


@pytest.mark.parametrize(
    "wrong",
    [generator, async_generator, CallableGenerator(), functools.partial(generator), functools.partial(async_generator)],
    ids=["generator", "async generator", "object", "partial", "async partial"],
)
async def test_generator_functions_are_refused_since_nothing_of_them_would_run(bus, wrong) -> None:
    with pytest.raises(SettingsError, match="generator function"):
        bus.subscribe("a", wrong)
    with pytest.raises(SettingsError, match="generator function"):
        bus.on("a")(wrong)


async def test_a_handler_that_returns_a_generator_has_failed(make_bus, dlq) -> None:
    bus = await make_bus(retry=RetryPolicy(max_retries=0)).start()
    bus.subscribe("a", lambda event: generator(event))  # noqa: PLW0108 - a plain function around a generator
    (error,) = (await dlq.get(await bus.publish("a", 1))).errors
    assert error.startswith("TypeError: the handler returned <generator")


async def test_the_decorator_without_parentheses_is_refused(bus) -> None:
    with pytest.raises(SettingsError, match=r"@bus\.on\('order\.\*'\)"):

        @bus.on
        async def ship(event: Any) -> None: ...


@pytest.mark.parametrize("value", [0, False, "no", {"success": False}, ValueError("returned"), ...], ids=repr)
async def test_whatever_a_handler_returns_is_a_success(bus, status, value) -> None:
    bus.subscribe("a", lambda _: value)
    assert await status(await bus.publish("a", 1)) == "COMPLETED"


async def test_what_a_handler_changes_in_its_event_no_other_sees(make_bus) -> None:
    seen: list[Any] = []

    async def changes(event: Any) -> None:
        seen.append((event.payload, dict(event.metadata)))
        event.payload["list"].append("changed")
        event.payload["new"] = True
        event.metadata["new"] = "yes"
        if event.attempts == 1:
            raise ValueError("once more")

    bus = await make_bus().start()
    bus.subscribe("*", changes, name="first")
    bus.subscribe("*", changes, name="second")
    payload = {"list": [{"a": 1}]}
    await bus.publish("a", payload, {"k": "v"})
    assert payload == {"list": [{"a": 1}]}
    assert [metadata for _, metadata in seen] == [{"k": "v"}] * 4
    assert len({id(payload) for payload, _ in seen}) == 4
    assert [payload["list"] for payload, _ in seen] == [[{"a": 1}, "changed"]] * 4


class NaiveClock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1)  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize("clock", [NaiveClock(), datetime.now, 5], ids=["naive", "function", "number"])
async def test_a_clock_without_a_time_zone_is_refused_at_once(store, make_bus, clock) -> None:
    with pytest.raises(SettingsError, match="time zone"):
        make_bus(clock=clock)
    with pytest.raises(SettingsError, match="time zone"):
        EventQueue(store, clock=clock)
    with pytest.raises(SettingsError, match="time zone"):
        await EventQueue(store).poll(clock)
    with pytest.raises(SettingsError, match="time zone"):
        DLQInspector(store, clock=clock)


async def test_the_retry_policy_of_a_bus_may_be_a_mapping(make_bus) -> None:
    bus = await make_bus(retry={"max_retries": 1, "base_delay": 0.001}).start()
    handler = Recorder(failures=9)
    bus.subscribe("*", handler)
    await bus.publish("a", 1)
    assert len(handler.events) == 2


BREAKS = [SystemExit(3), BaseException("odd"), GeneratorExit("odd")]


@pytest.mark.parametrize("error", BREAKS, ids=repr)
@pytest.mark.parametrize("kind", ["async", "plain", "plain around async"])
async def test_a_handler_may_fail_in_any_way(make_bus, dlq, error, kind) -> None:
    bus = await make_bus(retry=RetryPolicy(max_retries=0)).start()

    async def breaks(event: Any) -> None:
        raise error

    def plain(event: Any) -> None:
        raise error

    def around(event: Any) -> Any:
        return breaks(event)

    bus.subscribe("a", {"async": breaks, "plain": plain, "plain around async": around}[kind])
    event_id = await bus.publish("a", 1)
    assert (await dlq.get(event_id)).errors == [f"{type(error).__name__}: {error}"]


INTERRUPT = """
import asyncio, sys
from eventhub import EventBus

async def main():
    async with EventBus(sys.argv[1]) as bus:
        async def interrupted(event):
            raise KeyboardInterrupt
        bus.subscribe("a", interrupted, retry={"max_retries": 0})
        await bus.publish("a", 1)
        print((await bus.store.event(1)).errors, flush=True)

asyncio.run(main())
"""


async def test_an_interrupt_that_a_handler_raises_itself_is_its_failure(sqlite_path) -> None:
    process = python(INTERRUPT, str(sqlite_path))
    out, _ = await asyncio.to_thread(process.communicate)
    assert out == "('KeyboardInterrupt: ',)\n"
