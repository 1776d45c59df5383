"""The reference of metrics, from the registries that the server and the pipeline tell them by."""

from typing import Any, cast

from prometheus_client import CollectorRegistry

from eventhub.observe.metrics import Metrics
from eventhub.pipeline.metrics import PipelineMetrics
from eventhub.store import Store

INTRODUCTION = """# Metrics

`GET /metrics` of a server tells the first table (scope `read`), `eventhub pipeline run --metrics-port` the second.
What to watch, and what to do about it: [monitoring and alerts](../how-to/monitoring.md).

Counters and histograms are each process's own: add them up. Gauges about the database are the same from every server of
a hub: take the `max`. A histogram has `_bucket`, `_sum` and `_count`.
"""


def page() -> str:
    nowhere = cast("Store", None)  # nothing is looked up: only names and words are read
    server, pipeline = Metrics(nowhere, waiting=lambda: 0), PipelineMetrics(nowhere)
    return "\n".join(
        [INTRODUCTION, "## Server\n", _table(server._registry), "", "## Pipeline\n", _table(pipeline.registry), ""]  # noqa: SLF001
    )


def _table(registry: CollectorRegistry) -> str:
    rows = []
    for collector in list(cast("Any", registry)._collector_to_names):  # noqa: SLF001
        named = getattr(collector, "_labelnames", None)
        for family in collector.collect():
            labels = named if named is not None else _labels(family)
            shown = ", ".join(f"`{label}`" for label in labels)
            name = family.name + ("_total" if family.type == "counter" else "")
            rows.append(f"| `{name}` | {family.type} | {shown} | {family.documentation} |")
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *sorted(rows)])


def _labels(family: Any) -> tuple[str, ...]:
    return tuple(getattr(family, "_labelnames", ()))
