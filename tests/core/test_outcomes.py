"""From the answers of all handlers to one verdict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.core.outcomes import HandlerResult, PermanentError, Success, TransientError, Verdict, verdict

GOOD = Success()
LATER = TransientError("mail", "try later")
NEVER = PermanentError("invoice", "no such customer")
WORSE = PermanentError("ledger", "closed")
RESULTS = st.sampled_from([GOOD, LATER, NEVER, WORSE])


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([], Verdict("complete")),
        ([GOOD], Verdict("complete")),
        ([GOOD, GOOD], Verdict("complete")),
        ([LATER], Verdict("retry", (LATER,))),
        ([GOOD, LATER, GOOD], Verdict("retry", (LATER,))),
        ([LATER, LATER], Verdict("retry", (LATER, LATER))),
        ([NEVER], Verdict("errors", (NEVER,))),
        ([LATER, NEVER, GOOD], Verdict("errors", (NEVER,))),
        ([WORSE, LATER, NEVER], Verdict("errors", (WORSE, NEVER))),
    ],
)
def test_verdicts(results: list[HandlerResult], expected: Verdict) -> None:
    assert verdict(results) == expected
    assert verdict(iter(results)) == expected


@given(st.lists(RESULTS))
def test_the_worst_answer_decides_whatever_the_order(results: list[HandlerResult]) -> None:
    found = verdict(results)
    kinds = {result.kind for result in results}
    worst = "errors" if "permanent" in kinds else "retry" if "transient" in kinds else "complete"
    assert found.kind == worst == verdict(results[::-1]).kind
    assert found.errors[::-1] == verdict(results[::-1]).errors


def test_answers_tell_their_kind_and_their_words() -> None:
    assert [result.kind for result in (GOOD, LATER, NEVER)] == ["success", "transient", "permanent"]
    assert [str(LATER), str(NEVER)] == ["mail: try later", "invoice: no such customer"]
