"""A narrowed key pays one small question for a whole batch of reports, and reports on no other work."""

from types import SimpleNamespace
from typing import Any

import pytest

from eventhub.core.scopes import Scopes
from eventhub.http.problems import Problem
from eventhub.http.routes.work import _check_jobs
from eventhub.queue import EventQueue
from eventhub.store import open_store


async def test_all_reports_of_a_batch_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    async with open_store(":memory:") as store:
        tags_of = store.event_tags

        async def counted(event_ids: Any) -> Any:
            asked.append(len(event_ids))
            return await tags_of(event_ids)

        monkeypatch.setattr(store, "event_tags", counted)
        queue = EventQueue(store, queue="work")
        mail = (await queue.publish("job", 1, tags="email,now")).id
        bill = (await queue.publish("job", 2, tags="bills")).id
        principal = SimpleNamespace(scopes=Scopes.parse(["work:email"]))
        ask: Any = SimpleNamespace(principal=principal, service=SimpleNamespace(store=store))
        await _check_jobs(ask, [mail, *range(1000, 1999)])
        assert asked == [1000]
        with pytest.raises(Problem) as refused:
            await _check_jobs(ask, [mail, bill])
        assert refused.value.status == 403
