"""Errors cross processes: whatever can be raised can be pickled, and is the same on the other side."""

import copy
import pickle
from typing import Any

import pytest

from eventhub import errors

DETAILS: dict[type[errors.EventHubError], dict[str, Any]] = {
    errors.InvalidSubscriberError: {"field": "url"},
    errors.RemoteError: {"status": 500, "type": "about:odd"},
    errors.Unauthorized: {"status": 401},
    errors.Forbidden: {"status": 403},
    errors.ServerUnavailable: {"retry_after": 2.5},
}


@pytest.mark.parametrize("kind", [getattr(errors, name) for name in errors.__all__], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_can_be_pickled(kind: type[errors.EventHubError], protocol: int) -> None:
    error = kind("what happened", **DETAILS.get(kind, {}))
    error.add_note("a note")
    for again in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error)):
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
