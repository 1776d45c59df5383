"""The hub in numbers, as Prometheus reads them."""

import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

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


def test_processes_that_share_a_port_are_added_up(tmp_path: Path):
    script = """
        import asyncio, sys
        from prometheus_client import CollectorRegistry
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
