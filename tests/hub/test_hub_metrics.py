"""The hub in numbers, as Prometheus reads them."""

import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from eventhub import EventQueue, Hub, Subscriber
from eventhub.clock import ManualClock
from eventhub.hub.fan_out import FanOut
from eventhub.hub.numbers import Numbers
from eventhub.observe.hub_counters import HubCounters
from eventhub.observe.metrics import Metrics
from eventhub.store import open_store


def busy() -> Numbers:
    numbers = Numbers()
    numbers.fanned_out(2, 3)
    numbers.attempted(200, None, 0.004)
    numbers.attempted(500, None, 0.3)
    numbers.attempted(None, "timeout", 400.0)
    numbers.arrived(0.5)
    numbers.retried += 1
    numbers.died("gone")
    numbers.in_flight = 4
    return numbers


def test_counters_show_what_the_numbers_grew_by():
    numbers, registry = busy(), CollectorRegistry()
    counters = HubCounters(numbers, registry)
    for _ in range(2):  # a second look adds nothing
        counters.count()
    for outcome in ("completed", "failed", "dead"):
        assert registry.get_sample_value("eventhub_messages_delivered_total", {"outcome": outcome}) == 1
    assert registry.get_sample_value("eventhub_messages_dead_total", {"reason": "gone"}) == 1
    assert registry.get_sample_value("eventhub_messages_dead_total", {"reason": "rejected"}) == 0
    assert registry.get_sample_value("eventhub_webhook_attempts_total", {"result": "5xx"}) == 1
    assert registry.get_sample_value("eventhub_webhook_attempts_total", {"result": "network"}) == 0
    assert registry.get_sample_value("eventhub_fanout_messages_total") == 3
    numbers.in_flight = 2
    numbers.retried += 2
    counters.count()
    assert registry.get_sample_value("eventhub_messages_retried_total") == 3
    assert registry.get_sample_value("eventhub_dispatcher_in_flight") == 2


def test_the_histogram_has_every_value_in_its_bucket():
    numbers, registry = busy(), CollectorRegistry()
    counters = HubCounters(numbers, registry)
    counters.count()
    numbers.attempted(204, None, 0.005)
    counters.count()

    def below(bound: str) -> float | None:
        return registry.get_sample_value("eventhub_delivery_latency_seconds_bucket", {"le": bound})

    assert [below(bound) for bound in ("0.005", "0.25", "0.5", "60.0", "+Inf")] == [2, 2, 3, 3, 4]
    assert registry.get_sample_value("eventhub_delivery_latency_seconds_count") == 4
    total = registry.get_sample_value("eventhub_delivery_latency_seconds_sum")
    assert total is not None
    assert math.isclose(total, 400.309)


async def test_one_page_has_the_process_and_the_database():
    async with open_store(":memory:") as store:
        text, _ = await Metrics(store, waiting=lambda: 0, numbers=busy()).text()
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    (pending,) = families["eventhub_pending_messages"].samples
    assert pending.value == 0
    assert {sample.labels["status"] for sample in families["eventhub_subscribers"].samples} == {
        "active",
        "paused",
        "disabled",
    }
    assert {sample.value for sample in families["eventhub_fanout_lag_seconds"].samples} == {0}
    assert families["eventhub_delivery_latency_seconds"].type == "histogram"


async def test_backlogs_are_told_for_the_hundred_with_the_most():
    async with Hub(":memory:", roles=()) as hub:
        for number in range(103):
            await hub.subscribers.create(Subscriber(name=f"s{number}", url="https://203.0.114.7/", event_type="a.*"))
        await hub.subscribers.create(Subscriber(name="busy", url="https://203.0.114.7/"))
        await hub.publish("a.b", {}, tags="email")
        await hub.publish("c.d", {})
        metrics = Metrics(hub.store, waiting=lambda: 0, numbers=hub.numbers)
        waiting = families_of((await metrics.text())[0])
        assert value(waiting, "eventhub_fanout_pending") == 2
        await FanOut(hub.store, hub.numbers).hand_out()
        told = families_of((await Metrics(hub.store, waiting=lambda: 0, numbers=hub.numbers).text())[0])
    assert value(told, "eventhub_fanout_pending") == 0
    assert value(told, "eventhub_pending_messages") == 103 + 2 + 1  # and the job
    lines = told["eventhub_subscriber_pending_messages"].samples
    assert len(lines) == 100
    assert max(lines, key=lambda line: line.value).labels["name"] == "busy"


async def test_what_is_taken_back_is_counted_whoever_asked(store_url: str):
    clock = ManualClock()
    async with open_store(store_url) as store, EventQueue(store, abandoned_after=60, clock=clock) as queue:
        metrics = Metrics(store, waiting=lambda: 0)
        await queue.publish("order.placed", 1)
        await queue.poll()
        clock.advance(61)
        assert await queue.poll() is not None  # it is the poller who took it back
        for _ in range(2):  # a second look adds nothing
            text, _ = await metrics.text()
            (count,) = [line for line in text.decode().splitlines() if line.startswith("eventhub_abandoned_total ")]
            assert count == "eventhub_abandoned_total 1.0"


def families_of(text: bytes) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text.decode())}


def value(families: dict[str, Any], name: str) -> float:
    (sample,) = families[name].samples
    return float(sample.value)


def test_processes_that_share_a_port_are_added_up(tmp_path: Path):
    script = """
        import asyncio
        from eventhub.hub.numbers import Numbers
        from eventhub.observe.metrics import Metrics
        from eventhub.store import open_store

        async def main():
            numbers = Numbers()
            numbers.attempted(200, None, 0.3)
            numbers.arrived(0.1)
            async with open_store(":memory:") as store:
                print((await Metrics(store, waiting=lambda: 0, numbers=numbers).text())[0].decode())

        asyncio.run(main())
    """
    for processes in (1, 2):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert f'eventhub_messages_delivered_total{{outcome="completed"}} {processes}.0' in done.stdout
        assert f'eventhub_delivery_latency_seconds_bucket{{le="0.5"}} {processes}.0' in done.stdout
        assert 'eventhub_delivery_latency_seconds_bucket{le="0.25"} 0.0' in done.stdout
