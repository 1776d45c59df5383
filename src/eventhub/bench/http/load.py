"""The load, a process of its own: ``python -m eventhub.bench.http.load`` reads orders and writes a report, in JSON."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec

from eventhub.bench.figures import share
from eventhub.bench.http.driving import Driver, Script
from eventhub.bench.http.long_poll import long_poll
from eventhub.bench.http.scripts import Publishing, WorkingInBatches, WorkingOneByOne, publish_request
from eventhub.bench.http.usage import cpu_seconds, memory_mb
from eventhub.bench.settings import BATCH

__all__ = ["TAKE", "LoadReport", "Orders", "apply"]

Kind = Literal["publish", "publish-batch", "work", "work-batch", "long-poll"]

TAKE: Final = 100
"""Jobs that a worker takes at once when it works in batches."""
WARM_UP: Final = 20
"""Requests on each connection that are not counted."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What load to make. ``process`` is the server's; ``rate`` is events a second for waiting workers."""

    kind: Kind
    host: str
    port: int
    process: int
    connections: int
    count: int
    rate: float = 50.0


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it. Times are milliseconds, shares of a core are percent; None where nobody can tell."""

    events: int
    seconds: float
    p50: float
    p99: float
    server_cpu: float | None = None
    load_cpu: float | None = None
    server_memory_mb: float | None = None


def apply(orders: Orders) -> LoadReport:
    """Make the load and measure it."""
    with Driver(orders.host, orders.port) as driver:
        if orders.kind == "long-poll":
            return _wait_for_work(driver, orders)
        if orders.kind in ("publish", "publish-batch"):
            return _publish(driver, orders)
        return _work(driver, orders)


def _host(orders: Orders) -> str:
    return f"{orders.host}:{orders.port}"


def _publish(driver: Driver, orders: Orders) -> LoadReport:
    batch = BATCH if orders.kind == "publish-batch" else 0
    publish = publish_request(_host(orders), batch=batch)
    connections = driver.connect(orders.connections)

    def scripts(count: int) -> list[Script]:
        left = iter(range(count))
        return [Publishing(publish, left) for _ in connections]

    driver.run(connections, scripts(len(connections) if batch else WARM_UP * len(connections)))
    events = orders.count * (batch or 1)
    return _measured(orders, lambda: (events, *driver.run(connections, scripts(orders.count))))


def _work(driver: Driver, orders: Orders) -> LoadReport:
    """Until there is nothing left: whoever ordered has put the jobs there."""
    connections = driver.connect(orders.connections)
    workers: list[WorkingOneByOne | WorkingInBatches] = []
    for number in range(len(connections)):
        name = f"load-{os.getpid()}:{number}"
        workers.append(
            WorkingOneByOne(_host(orders), name)
            if orders.kind == "work"
            else WorkingInBatches(_host(orders), name, TAKE)
        )

    def run() -> tuple[int, float, Sequence[float]]:
        seconds, times = driver.run(connections, workers)
        return sum(worker.completed for worker in workers), seconds, times

    report = _measured(orders, run)
    if report.events != orders.count:
        raise RuntimeError(f"{report.events:,} jobs were completed instead of {orders.count:,}.")
    return report


def _wait_for_work(driver: Driver, orders: Orders) -> LoadReport:
    times = long_poll(driver, _host(orders), workers=orders.connections, events=orders.count, rate=orders.rate)
    return msgspec.structs.replace(
        _report(orders, len(times), orders.count / orders.rate, times), server_memory_mb=memory_mb(orders.process)
    )


def _measured(orders: Orders, run: Callable[[], tuple[int, float, Sequence[float]]]) -> LoadReport:
    gc.collect()
    gc.freeze()
    mine, theirs = cpu_seconds(os.getpid()), cpu_seconds(orders.process)
    events, seconds, times = run()
    return _report(
        orders,
        events,
        seconds,
        times,
        load_cpu=_share(mine, cpu_seconds(os.getpid()), seconds),
        server_cpu=_share(theirs, cpu_seconds(orders.process), seconds),
    )


def _report(
    orders: Orders,
    events: int,
    seconds: float,
    times: Sequence[float],
    *,
    load_cpu: float | None = None,
    server_cpu: float | None = None,
) -> LoadReport:
    if not times:
        raise RuntimeError(f"No request of the load {orders.kind!r} was answered.")
    ordered = sorted(times)
    return LoadReport(
        events=events,
        seconds=seconds,
        p50=share(ordered, 0.5) * 1000,
        p99=share(ordered, 0.99) * 1000,
        load_cpu=load_cpu,
        server_cpu=server_cpu,
    )


def _share(before: float | None, after: float | None, seconds: float) -> float | None:
    return None if before is None or after is None else (after - before) / seconds * 100


def main() -> None:
    orders = msgspec.json.decode(sys.stdin.buffer.read(), type=Orders)
    sys.stdout.buffer.write(msgspec.json.encode(apply(orders)))


if __name__ == "__main__":
    main()
