"""How hard to search: the same examples in every run of the suite, many more and other ones by ``make fuzz``.

EVENTHUB_FUZZ_TIMES=50 pytest tests/fuzz
"""

import os

from hypothesis import HealthCheck, settings

TIMES = int(os.environ.get("EVENTHUB_FUZZ_TIMES", "1"))


def effort(examples: int) -> settings:
    """So many examples, or so many times more."""
    return settings(
        max_examples=examples * TIMES,
        deadline=None,
        derandomize=TIMES == 1,
        suppress_health_check=list(HealthCheck),
    )
