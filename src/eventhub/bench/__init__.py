"""The benchmark: the public faces under load, and beside each figure what the bare driver reaches in the same run."""

from eventhub.bench.figures import Figure, Outcome, Spread
from eventhub.bench.machine import Facts
from eventhub.bench.running import Result, run_bench
from eventhub.bench.settings import WORKLOADS, BenchSettings

__all__ = ["WORKLOADS", "BenchSettings", "Facts", "Figure", "Outcome", "Result", "Spread", "run_bench"]
