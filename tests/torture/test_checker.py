"""The checker itself: it accepts an honest story and catches every lie that is planted in one."""

import asyncio
import contextlib
import itertools
import re
import shutil
from datetime import timedelta
from functools import partial
from pathlib import Path

import apsw
import pytest

from eventhub.core.lifecycle import Bury, Complete, Outcome, Reason, Retry
from eventhub.core.subscribers import Subscriber
from eventhub.errors import SchemaMismatch
from eventhub.hub import Hub
from eventhub.hub.directory import Directory
from eventhub.queue import EventQueue
from eventhub.store import Store
from eventhub.store.messages import WantedMessages
from eventhub.store.values import Report
from eventhub.testing.torture.checker import INVARIANTS, Verdict, check
from eventhub.testing.torture.evidence import gather, gather_from
from eventhub.testing.torture.history import Facts, History, hash_of
from eventhub.testing.torture.recording import recorded
from eventhub.testing.torture.roles.publisher import Plan, attempt, into_queue
from eventhub.testing.torture.roles.worker import Arguments, Worker
from tests.torture.honest import write

LEASE = timedelta(seconds=60)
CALLS = itertools.count(1)
OUTCOMES: dict[tuple[int, int], Outcome] = {(2, 1): Retry("not now"), (5, 1): Bury("never", Reason.FINALIZED)}


def _event(token: str, key: str | None = None, *, keyed: bool = True) -> Facts:
    event: Facts = {"type": "crash.test", "payload": {"token": token, "key": key}}
    return event | ({"ordering_key": key} if key else {}) | ({"idempotency_key": token} if keyed else {})


async def _work(store: Store, history: History, directory: Path) -> None:
    """Events 1 and 2 share a key, and 2 needs a second attempt; 3, 4 and 5 are one call, and 5 dies."""
    queue = EventQueue(store, queue="crash", max_attempts=3)
    batch = [_event(f"p-3-{place}", keyed=False) for place in range(3)]
    with History(directory, "publisher-a.1") as publisher:
        for plan in (
            Plan(1, [_event("p-1-0", "key")], 3, keyed=True),
            Plan(2, [_event("p-2-0", "key")], 3, keyed=True),
            Plan(3, batch, 3, keyed=False),
        ):
            await attempt(partial(into_queue, queue), plan, "p", publisher)
    settings = Arguments(process="worker-a.1", directory="", url="", seed=1, style="bare", hold=0)
    worker = Worker(settings, history)
    while claims := await store.claim("crash", worker="worker-a.1", lease=LEASE):
        for claim in claims:
            outcome = OUTCOMES.get((claim.held.id, claim.event.attempts), Complete())
            if isinstance(outcome, Complete):
                await worker.handle(claim.event, claim.held.fence)
            elif isinstance(outcome, Bury):
                facts: Facts = {"id": claim.held.id, "fence": claim.held.fence}
                history.invoke("handle", [facts]).ok([{**facts, "outcome": "permanent"}])
            await store.settle([Report(claim.held, outcome)])


async def _deliver(store: Store, history: History) -> None:
    """Events 7 and 8 share a key and go to subscriber 6; message 9 needs a second attempt, then 10 follows it."""
    hub = Hub(store, secret=bytes(32), roles=(), allow_private=["127.0.0.0/8"])
    ordered = Subscriber(name="a", url="http://127.0.0.1:9999/a", event_type="hook.*", ordering_key="ordering_key")
    await hub.subscribers.create(ordered)
    for number in (1, 2):
        event = {**_event(f"h-{number}-0", "key"), "type": "hook.test"}
        plan = Plan(number, [event], None, keyed=True, broadcast=True)
        await attempt(lambda plan: hub.publish_many(plan.events), plan, "h", history)
    version, rows = await store.subscribers()
    await store.fan_out(Directory(version, rows).plan())
    wanted = [WantedMessages(rows[0].id, 10)]
    while claims := await store.claim_messages(wanted, worker="dispatcher", lease=LEASE):
        for claim in claims:
            fails = (claim.held.id, claim.attempts) == (9, 1)
            token = f"h-{claim.event_id - 6}-0"
            facts = {"token": token, "key": "key", "hash": hash_of({"token": token, "key": "key"})}
            history.note("arrive", id=claim.held.id, worker="/a", outcome="500" if fails else "200", **facts)
            await store.settle([Report(claim.held, Retry("500", status_code=500) if fails else Complete())])


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("story")
    asyncio.run(_play(directory))
    return directory / "evidence.db"


async def _play(directory: Path) -> None:
    with History(directory, "worker-a.1") as history:
        async with recorded(f"sqlite:///{directory / 'hub.db'}", history) as store:
            await _work(store, history, directory)
            await _deliver(store, history)
            facts = {"drain.seconds": 1.0, "metric.eventhub_dlq_size": 1}
            await gather_from(store, directory, directory / "evidence.db", facts=facts)


@pytest.fixture
def evidence(honest: Path, tmp_path: Path) -> Path:
    copied = tmp_path / "evidence.db"
    shutil.copy(honest, copied)
    return copied


def _told(file: Path, lie: str) -> Verdict:
    with contextlib.closing(apsw.Connection(str(file))) as connection:
        connection.execute(lie)
        assert connection.total_changes() > 0, "the lie changes nothing"
    return check(file)


def test_an_honest_story_breaks_no_promise(evidence: Path) -> None:
    verdict = check(evidence)
    assert verdict.examples == []
    assert verdict.clean
    expected = {"events": 7, "acknowledged": 7, "completed": 6, "dead: finalized": 1, "messages": 2, "arrivals": 3}
    assert verdict.figures | expected == verdict.figures


def _lies() -> dict[str, tuple[str, str]]:
    """By their words: the rule that must catch it, and the statement."""
    text = (Path(__file__).parent / "lies.sql").read_text()
    found = re.findall(r"^-- lie: ([^\n]+) → (\w+)\n(.+?);$", text, re.MULTILINE | re.DOTALL)
    return {words: (rule, change) for words, rule, change in found}


LIES = _lies()


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_caught(evidence: Path, lie: str) -> None:
    rule, change = LIES[lie]
    assert rule in _told(evidence, change).broken


def test_what_a_run_archives_is_not_lost(evidence: Path) -> None:
    moved = "INSERT INTO lake_events SELECT id, hash, 1 FROM events WHERE id = 1; DELETE FROM events WHERE id = 1"
    verdict = _told(evidence, f"INSERT INTO facts VALUES ('archives', 1); {moved}")
    assert not {"lost", "lake_wrong"} & verdict.broken


@pytest.mark.parametrize(("of", "excused"), [(9, True), (5, False)])
def test_only_a_message_that_was_given_up_with_its_dispatcher_may_come_late(
    evidence: Path, of: int, *, excused: bool
) -> None:
    late = "UPDATE records SET time = time + 1000 WHERE op = 'arrive' AND id = 9"
    letter = f"UPDATE dead_letters SET id = 5, delivery_id = {of}, reason = 'worker_lost'"
    assert ("arrived_overtaken" not in _told(evidence, f"{late}; {letter}").broken) is excused


DOUBLED = "UPDATE records SET outcome = '200' WHERE op = 'arrive'"
"""Message 9 is taken well twice: its first claim failed with an answer, so that nothing explains it."""
ENDED = "UPDATE log SET {} WHERE delivery_id = {} AND action = 'FAILED'"


def _ordered(op: str, whom: str, *, since: float = 0.0) -> str:
    """As if somebody had been harmed, so many seconds after message 9 arrived."""
    return f"""INSERT INTO records (process, call, kind, op, time, wall, worker)
        SELECT 'orders', 1, 'ok', '{op}', time, wall + {since}, '{whom}' FROM records WHERE op = 'arrive' LIMIT 1"""


def _fault(name: str, whom: str, hits: int, *, since: float = 0.0) -> str:
    return f"""INSERT INTO records (process, call, kind, op, time, wall, worker, outcome, size)
        SELECT 'orders', {next(CALLS)}, kind.value, 'fault', time, wall + {since}, '{whom}', '{name}', {hits}
        FROM (SELECT * FROM records WHERE op = 'arrive' LIMIT 1), json_each('["invoke", "ok"]') kind"""


@pytest.mark.parametrize(
    ("story", "explained"),
    [
        (ENDED.format("action = 'ABANDONED'", 9), True),
        (ENDED.format("action = 'RELEASED'", 9), True),
        (ENDED.format("status_code = NULL", 9), True),
        (ENDED.format("action = 'ABANDONED'", 2), False),
        (_ordered("kill", "worker-a.1"), False),
        (_fault("reply-lost", "database", 1), False),
    ],
)
def test_a_duplicate_is_explained_by_an_unknown_attempt_of_its_own(
    evidence: Path, story: str, *, explained: bool
) -> None:
    verdict = _told(evidence, f"{DOUBLED}; {story}")
    assert (verdict.figures["duplicates"], verdict.figures["duplicates explained"]) == (1, explained)
    assert ("duplicated" not in verdict.broken) is explained


def test_one_unknown_attempt_explains_one_duplicate(evidence: Path) -> None:
    again = """INSERT INTO records (process, call, kind, op, time, wall, id, worker, key, token, outcome)
        SELECT process, call, kind, op, time, wall, id, worker, key, token, outcome
        FROM records WHERE op = 'arrive' AND id = 9 LIMIT 1"""
    lost = ENDED.format("action = 'ABANDONED'", 9)
    verdict = _told(evidence, f"{DOUBLED}; {lost}; {again}")
    assert (verdict.figures["duplicates"], verdict.figures["duplicates explained"]) == (2, 1)
    assert "duplicated" in verdict.broken


AGAIN = """INSERT INTO records (process, call, kind, op, time, wall, id, fence, outcome)
    VALUES ('worker-b.1', 1, 'ok', 'handle', 0, 0, 1, 2, 'success')"""
"""Event 1 is handled well once more, under a second claim."""


def _handled(op: str, whom: str, *, since: float = 0.0) -> str:
    return f"""INSERT INTO records (process, call, kind, op, time, wall, worker)
        SELECT 'orders', 1, 'ok', '{op}', time, wall + {since}, '{whom}'
        FROM records WHERE op = 'handle' AND id = 1 LIMIT 1"""


@pytest.mark.parametrize(
    ("fault", "explained"),
    [
        (_handled("kill", "worker-a.1"), True),
        (_handled("stop", "worker-a.1", since=-100), True),
        (_handled("kill", "worker-a.1", since=-100), False),
        (_handled("kill", "worker-a.1", since=+100), False),
        (_handled("kill", "worker-b.1"), False),
        (_fault("reply-lost", "database", 0), False),
        (_fault("reply-lost", "database", 1, since=-100), False),
        (_fault("stop-worker", "worker-b", 1), False),
    ],
)
def test_only_what_was_in_hand_when_a_fault_struck_may_be_done_again(
    evidence: Path, fault: str, *, explained: bool
) -> None:
    assert ("done_again" not in _told(evidence, f"{AGAIN}; {fault}").broken) is explained


def test_faults_are_counted_once_and_by_what_they_hit(evidence: Path) -> None:
    several = (_fault("reset", "servers", 7), _fault("reply-lost", "servers", 0), _ordered("stop", "worker-a.1"))
    figures = _told(evidence, "; ".join((*several, _fault("stop-worker", "worker-a", 1)))).figures
    expected = {"fault: reset": 7, "fault: reply-lost": 0, "fault: stop-worker": 1, "fault: evil-receiver": 1}
    assert figures | expected | {"stops": 1, "other faults": 7} == figures


@pytest.mark.parametrize("worker", ["host:17:machine-1-1", "worker-a.1", "a:b"])
def test_claims_of_the_dead_are_taken_early_where_their_name_tells_that_they_died(evidence: Path, worker: str) -> None:
    named = f"UPDATE records SET worker = '{worker}' WHERE op = 'claim' AND id = 2"
    taken = "UPDATE log SET action = 'ABANDONED' WHERE delivery_id = 2 AND action = 'FAILED'"
    verdict = _told(evidence, f"{named}; {taken}; {_ordered('kill', 'worker-a.1', since=-100)}")
    assert ("taken_early" in verdict.broken) is (worker != "host:17:machine-1-1")


@pytest.mark.parametrize("name", ["postgres-crash", "blackhole", "latency"])
def test_claims_may_be_taken_late_when_the_database_was_away(evidence: Path, name: str) -> None:
    taken = "UPDATE log SET action = 'ABANDONED', created = created + 76 WHERE delivery_id = 2 AND action = 'FAILED'"
    verdict = _told(evidence, f"{taken}; {_fault(name, 'database', 1, since=70)}")
    assert ("taken_late" in verdict.broken) is (name == "latency")


def test_who_dies_of_poison_is_excused_and_the_poison_is_a_letter(evidence: Path) -> None:
    handled = """INSERT INTO records (process, call, kind, op, time, wall, token)
        VALUES ('worker-b.1', 1, 'invoke', 'handle', 8, 8, 'poison-1')"""
    acknowledged = "UPDATE records SET token = 'poison-1' WHERE op = 'publish' AND token = 'p-3-2'"
    letter = "UPDATE dead_letters SET reason = 'worker_lost'"
    verdict = _told(evidence, "; ".join((handled, acknowledged, letter, _ordered("died", "worker-b.1"))))
    assert not {"died_alone", "poison_lived"} & verdict.broken


async def test_a_run_in_which_nothing_happened_proves_nothing(tmp_path: Path) -> None:
    await gather(tmp_path, str(tmp_path / "hub.db"), tmp_path / "evidence.db")
    verdict = check(tmp_path / "evidence.db")
    assert not verdict.clean
    assert verdict.broken == {"idle"}


def test_evidence_of_another_version_is_refused(evidence: Path) -> None:
    with contextlib.closing(apsw.Connection(str(evidence))) as connection:
        connection.pragma("user_version", 1)
    with pytest.raises(SchemaMismatch, match="was not gathered by this version"):
        check(evidence)


def test_every_rule_has_a_lie() -> None:
    rules = [rule for invariant in INVARIANTS for rule in invariant.rules]
    assert {rule for rule, _ in LIES.values()} == set(rules)
    assert [invariant.number for invariant in INVARIANTS] == list(range(1, 15))
    assert len(rules) == len(set(rules))


async def test_a_long_history_is_judged_whole(tmp_path: Path) -> None:
    records = await write(tmp_path, 5000)
    await gather(tmp_path, str(tmp_path / "hub.db"), tmp_path / "evidence.db")
    verdict = check(tmp_path / "evidence.db")
    assert verdict.clean, verdict.examples
    assert verdict.figures["records"] == records >= 5000
    assert verdict.figures["acknowledged"] == verdict.figures["events"] > 500
    assert verdict.figures["arrivals"] == verdict.figures["messages"] > 50
