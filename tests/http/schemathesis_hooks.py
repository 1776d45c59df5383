"""What schemathesis has to know of the hub: it shall not wait for work, and not end the key it works with."""

import os
from contextlib import suppress
from typing import Any

import schemathesis

OWN_KEY = os.environ["SCHEMATHESIS_OWN_KEY_ID"]


@schemathesis.hook
def filter_case(context: Any, case: Any) -> bool:
    return OWN_KEY not in str((case.path_parameters or {}).get("key_id", ""))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """A wait that is allowed costs up to a minute; a hundredth of a second shows as much."""
    for asked in (case.query, case.body):
        if isinstance(asked, dict) and _is_long(asked.get("wait")):
            asked["wait"] = 0.01


def _is_long(wait: Any) -> bool:
    with suppress(TypeError, ValueError):
        return not isinstance(wait, bool) and 0.01 < float(wait) <= 60
    return False
