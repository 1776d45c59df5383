"""Made-up histories: as rich as real ones, true to the rules, the same for the same seed, and wholly settled."""

import asyncio
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from eventhub.pipeline.synth import Made, synthesize
from eventhub.pipeline.synth.histories import Plan, histories
from eventhub.pipeline.synth.world import TYPES
from eventhub.store import open_store
from eventhub.store.ledger import DATASETS
from eventhub.store.messages import DeadFilter
from tests.pipeline.support import numbered, publish
from tests.pipeline.test_loading import rows_of, told

UNTIL = datetime(2026, 3, 2, tzinfo=UTC)
EVENTS = 3000
ENDS = {"COMPLETED", "FAILED", "ABANDONED", "RELEASED"}


def made_in(url: str, **more: Any) -> Made:
    publish(url, [])  # the tables
    return synthesize(url, EVENTS, until=UNTIL, fail=0.2, seed=7, **more)


def stories(log: pa.Table) -> dict[int, list[dict[str, Any]]]:
    found = defaultdict(list)
    for row in log.to_pylist():
        found[row["delivery_id"]].append(row)
    return found


def test_every_story_is_one_that_the_hub_could_have_told() -> None:
    (part,) = histories(Plan(events=EVENTS, until=UNTIL, days=3, fail=0.3, seed=1, subscribers=(11, 12)))
    assert {row["type"] for row in part.events.to_pylist()} == {kind.name for kind in TYPES}
    actions = set(part.entries.column("action").to_pylist())
    assert actions == {"PUBLISHED", "PICKED", "STARTED", "DEAD", "RETRIED", *ENDS}
    assert max(part.entries.column("created_at").to_pylist()) < UNTIL
    dead = 0
    for delivery, story in stories(pa.Table.from_batches([part.entries])).items():
        is_message = delivery >= EVENTS
        steps = [row["action"] for row in story]
        assert (steps[0] == "PUBLISHED") != is_message
        assert {row["subscriber"] is not None for row in story if row["action"] == "PICKED"} <= {is_message}
        picked = [row["fence"] for row in story if row["action"] == "PICKED"]
        assert picked == list(range(1, len(picked) + 1))
        assert [row["fence"] for row in story if row["action"] in ENDS and row["fence"] is not None] == picked
        assert steps[-1] in ("COMPLETED", "DEAD") or steps == ["PUBLISHED"]
        assert steps.count("DEAD") - steps.count("RETRIED") == (steps[-1] == "DEAD")
        dead += steps[-1] == "DEAD"
    assert dead == part.dead > 0


def test_a_hub_with_a_made_up_history_is_whole(store_url: str) -> None:
    publish(store_url, numbered(1))
    made = made_in(store_url)
    events, log = rows_of(store_url, "events"), rows_of(store_url, "event_log")
    assert events.num_rows == EVENTS + 1
    assert log.num_rows == made.entries + 1
    assert made.messages > 0
    assert made.first_id is not None
    assert events["id"].to_pylist()[1] == made.first_id

    async def work() -> None:
        async with open_store(store_url) as store:
            page = await store.dead_letters(DeadFilter(limit=1000))
            assert page.total == len(page.letters) == made.dead
            for letter in page.letters:
                assert len(letter.errors) == letter.attempts == letter.retry_count == 4
            keyed = next(letter for letter in page.letters if letter.ordering_key and letter.subscriber is None)
            message = next(letter for letter in page.letters if letter.subscriber is not None)
            again = [keyed.delivery_id, message.delivery_id]
            assert await store.retry_dead(again, by="me") == set(again)
            claims = await store.claim(str(keyed.queue), worker="w", lease=timedelta(minutes=1), limit=5)
            assert [(claim.held.id, claim.held.lane is not None) for claim in claims] == [(keyed.id, True)]

    asyncio.run(work())
    assert publish(store_url, numbered(1))[0] >= made.first_id + EVENTS + made.messages


def test_the_same_seed_gives_the_same_history(sqlite_path: Path, postgres_url: str) -> None:
    urls = str(sqlite_path), postgres_url
    for url in urls:
        made_in(url)
    for dataset in DATASETS:
        one, other = (told(rows_of(url, dataset)) for url in urls)
        assert one == other


def test_another_seed_gives_another_history() -> None:
    first, second = (next(histories(Plan(events=10, until=UNTIL, seed=seed))) for seed in (1, 2))
    assert first.events != second.events


def test_load_follows_the_hours_of_the_day() -> None:
    (part,) = histories(Plan(events=EVENTS, until=UNTIL, days=4))
    hours = Counter(moment.hour for moment in part.events.column("created_at").to_pylist())
    assert sum(hours[hour] for hour in range(10, 16)) > 3 * sum(hours[hour] for hour in range(6))
