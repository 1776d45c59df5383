"""What schemathesis has to know of the hub: it shall not wait for work or for streams, nor end its own key."""

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
    """A wait that is allowed costs up to a minute, a stream up to a day; a hundredth of a second shows as much."""
    if case.operation.path == "/live" and (not case.query or _is_long(case.query.get("seconds"), 86_400)):
        case.query = {**(case.query or {}), "seconds": 0.01}
    for asked in (case.query, case.body):
        if isinstance(asked, dict) and _is_long(asked.get("wait"), 60):
            asked["wait"] = 0.01


def _is_long(wait: Any, most: float) -> bool:
    with suppress(TypeError, ValueError):
        return not isinstance(wait, bool) and 0.01 < float(wait) <= most
    return False
