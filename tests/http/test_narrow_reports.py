"""A narrowed key pays one small question for a whole batch of reports."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from eventhub.core.scopes import Scopes
from eventhub.http.problems import Problem
from eventhub.http.routes.work import _check_jobs


class Store:
    """Knows the tags of two events, and nothing else may be asked of it."""

    def __init__(self) -> None:
        self.questions = 0

    async def event_tags(self, event_ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        self.questions += 1
        return {number: tags for number, tags in {1: ("email",), 2: ("bills",)}.items() if number in event_ids}


async def test_all_reports_of_a_batch_are_one_question() -> None:
    store = Store()
    ask: Any = SimpleNamespace(
        principal=SimpleNamespace(scopes=Scopes.parse(["work:email"])), service=SimpleNamespace(store=store)
    )
    await _check_jobs(ask, [1, *range(3, 1000)])
    assert store.questions == 1
    with pytest.raises(Problem) as refused:
        await _check_jobs(ask, [1, 2])
    assert refused.value.status == 403
