"""Planted bugs: the checker finds each of them by the invariant that it breaks, and finds nothing without them."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from eventhub.queue import EventQueue
from eventhub.store.sqlite.ledger import SqliteLedger
from eventhub.testing.postgres_standby import PostgresStandby, failover_url
from eventhub.testing.torture.checker import INVARIANTS, Verdict, check
from eventhub.testing.torture.children import Nursery
from eventhub.testing.torture.evidence import gather
from eventhub.testing.torture.power_loss import Recording, judge
from eventhub.testing.torture.roles.pipeline import copy_the_rest
from tests.postgres_cluster import PostgresCluster
from tests.torture import planted, planted_ways_out
from tests.torture.plays import Cast, Play

AT_ONCE = 4
"""Plays that run at the same time: their processes mostly wait."""
SEED = 8
PUBLISHER = {"pause": 0.02}
BATCHES = {"pause": 0.05, "sizes": [3, 7]}
BARE = {"style": "bare", "lease": 0.4, "longest": 0.01}
"""A worker that reports by itself, so that nothing stands between it and the store."""
SLOW = BARE | {"lease": 0.2, "chances": {"success": 0.7, "slow": 0.3}}
FAILING = BARE | {"chances": {"success": 0.3, "transient": 0.6, "permanent": 0.1}}
STEADY = BARE | {"lease": 5.0, "hold": 0.01}
QUICK = STEADY | {"hold": 0.001}
MANAGER = {"style": "manager", "lease": 1.0, "concurrency": 1, "hold": 0.01, "shutdown_timeout": 0.01}
HUB = {"roles": "fanout,dispatcher,janitor", "shutdown_seconds": 1.0}

WORK = Cast(slots={"publisher-a": PUBLISHER, "worker-a": BARE, "worker-b": BARE}, killed="worker")
LATE = Cast(slots={"publisher-a": PUBLISHER, "worker-a": SLOW, "worker-b": SLOW, "worker-c": BARE})
HELD = Cast(
    slots={"publisher-a": PUBLISHER, **{f"worker-{name}": BARE | {"hold": 0.1, "lease": 0.25} for name in "abc"}},
    events=60,
)
FAILURES = Cast(slots={"publisher-a": PUBLISHER, "worker-a": FAILING, "worker-b": FAILING})
LEASES = Cast(slots={"publisher-a": PUBLISHER, "worker-a": STEADY, "worker-b": STEADY})
PUBLISHERS = Cast(
    slots={"publisher-a": BATCHES, "publisher-b": BATCHES, "worker-a": QUICK, "worker-b": QUICK},
    killed="publisher",
    harms=16,
)
LONELY = Cast(slots={"publisher-a": BATCHES, "worker-a": STEADY}, killed="publisher", harms=10, events=0)
"""Nobody else waits for the publisher's transactions."""
ENDINGS = Cast(
    slots={"publisher-a": PUBLISHER, "worker-a": MANAGER, "worker-b": MANAGER}, terminated="worker-a", harms=6
)
WEBHOOKS = Cast(
    slots={"publisher-a": BATCHES | {"way": "hub"}, "receiver-a": {"evil": True}, "server-a": HUB}, events=300
)
LONG = Cast(
    slots={"publisher-a": BATCHES | {"way": "hub"}, "receiver-a": {"evil": False}, "server-a": HUB}, events=1500
)
"""So long that what is late for its lease comes while everybody is still there."""
CUT_OFF = Cast(
    slots={"publisher-a": BATCHES, "worker-a": STEADY}, killed="publisher", harms=10, events=0, engine="postgres"
)
"""The same where connections are shared out."""
KEYS = Cast(
    slots={
        **{f"worker-{name}": QUICK for name in "abc"},
        **{f"publisher-{name}": {"pause": 0.08, "sizes": [1]} for name in "abc"},
    },
    engine="postgres",
    events=200,
)
"""Publishers no faster than workers, so that they meet at the keys."""
BROADCASTERS = {f"publisher-{name}": {"pause": 0.02, "way": "hub"} for name in "abcde"}
BROADCASTS = Cast(
    slots={**BROADCASTERS, "receiver-a": {"evil": False}, "server-a": HUB, "server-b": HUB}, engine="postgres"
)
LONE = Cast(slots={**BROADCASTERS, "receiver-a": {"evil": False}, "server-a": HUB}, engine="postgres", events=600)
FAILOVER = Cast(
    slots={
        **{name: BROADCASTERS[name] for name in ("publisher-a", "publisher-b")},
        "publisher-c": {"pause": 0.02},
        "worker-a": STEADY | {"lease": 1.0},
        "receiver-a": {"evil": False},
        "server-a": HUB,
    },
    engine="postgres",
    events=400,
    fails_over=True,
)
CASTS = (WORK, LATE, HELD, FAILURES, LEASES, PUBLISHERS, ENDINGS, WEBHOOKS, LONG, KEYS, CUT_OFF, BROADCASTS, LONE)

BUGS: dict[Callable[[], None], tuple[Cast, set[int]]] = {
    # the bug: who shows it, and the invariants that may find it
    planted.acknowledge_before_commit: (LONELY, {1}),
    planted.hand_on_open_transactions: (CUT_OFF, {1}),
    planted.never_promote_retries: (FAILURES, {1}),
    planted_ways_out.free_keys_without_lock: (KEYS, {1, 3}),
    planted_ways_out.pass_over_late_commits: (LONE, {1}),
    planted.remember_the_old_incarnation: (FAILOVER, {1, 2}),
    planted_ways_out.lose_a_subscriber: (WEBHOOKS, {1}),
    planted_ways_out.answer_without_sending: (WEBHOOKS, {1}),
    planted.complete_without_handling: (ENDINGS, {1}),
    planted.ignore_idempotency_keys: (PUBLISHERS, {2}),
    planted.publish_in_two_transactions: (PUBLISHERS, {2}),
    planted_ways_out.hand_out_without_lock: (BROADCASTS, {2}),
    planted_ways_out.alter_payloads: (WORK, {2}),
    planted_ways_out.alter_messages: (WEBHOOKS, {2}),
    planted_ways_out.let_retries_be_overtaken: (FAILURES, {3}),
    planted_ways_out.send_blocked_keys: (WEBHOOKS, {3}),
    planted.abandon_uncounted: (WORK, {4}),
    planted.allow_one_more: (FAILURES, {4}),
    planted.give_up_early: (FAILURES, {4}),
    planted.charge_releases: (ENDINGS, {4}),
    planted.log_the_end_twice: (WORK, {5}),
    planted_ways_out.send_after_the_lease: (LONG, {5}),
    planted.settle_without_fence: (LATE, {6}),
    planted.sweep_by_id_alone: (HELD, {6}),
    planted.abandon_within_the_lease: (LEASES, {6}),
    planted.claim_what_is_claimed: (LATE, {6}),
    planted.reset_the_fence: (FAILURES, {6}),
    planted.forget_completions: (WORK, {7}),
    planted.bury_without_errors: (FAILURES, {8}),
    planted.bury_nothing: (FAILURES, {8}),
    planted.remove_the_neighbour: (WORK, {9}),
    planted_ways_out.send_twice: (WEBHOOKS, {12}),
    planted_ways_out.misread_answers: (WEBHOOKS, {12}),
}


class Result(msgspec.Struct):
    """What became of a play, and what of it is told."""

    name: str
    verdict: Verdict

    def found(self, numbers: set[int]) -> int:
        return sum(judged.violations for judged in self.verdict.judgements if judged.number in numbers)


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    with Nursery(tmp_path, packages=["tests.torture"]) as made:
        yield made


@pytest.fixture
def perform(nursery: Nursery, tmp_path: Path, postgres: PostgresCluster) -> Callable[..., object]:
    async def performed(plays: dict[str, tuple[Cast, str | None]]) -> list[Result]:
        room = asyncio.Semaphore(AT_ONCE)

        async def one(name: str, cast: Cast, plant: str | None) -> Result:
            async with room:
                directory = tmp_path / name
                directory.mkdir()
                url = f"sqlite:///{directory / 'hub.db'}"
                if cast.engine == "postgres" and not cast.fails_over:
                    url = postgres.create_database(f"play_{name}")
                with contextlib.ExitStack() as servers:
                    pair = None
                    if cast.fails_over:
                        pair = await asyncio.to_thread(_pair, servers)
                        url = failover_url(*pair, database="play")
                    play = Play(cast, nursery, directory=directory, url=url, plant=plant, seed=SEED, pair=pair)
                    return Result(name, await play.perform())

        return await asyncio.gather(*(one(name, *play) for name, play in plays.items()))

    return performed


def _pair(servers: contextlib.ExitStack) -> tuple[PostgresCluster, PostgresStandby]:
    primary = servers.enter_context(PostgresCluster(tcp=True))
    primary.create_database("play")
    return primary, servers.enter_context(PostgresStandby(primary))


@pytest.mark.alone
@pytest.mark.timeout(300)
async def test_every_planted_bug_is_found(perform, say) -> None:
    results = await perform(
        {bug.__name__: (cast, f"{bug.__module__}:{bug.__name__}") for bug, (cast, _) in BUGS.items()}
    )
    missed = []
    for result, (_, numbers) in zip(results, BUGS.values(), strict=True):
        broken = ", ".join(sorted(result.verdict.broken))
        events = result.verdict.figures["events"]
        say(f"{result.name:30} {result.found(numbers):5} of {numbers} in {events} events ({broken})")
        if not result.found(numbers):
            missed.append(result.name)
    say(f"score: {len(results) - len(missed)} of {len(results)} planted bugs were found")
    assert not missed


@pytest.mark.alone
@pytest.mark.timeout(120)
async def test_without_a_bug_nothing_is_found(perform, nursery: Nursery, say) -> None:
    results = await perform({f"clean_{place}": (cast, None) for place, cast in enumerate(CASTS)})
    for result in results:
        say(f"{result.name}: {result.verdict.figures}")
        assert result.verdict.clean, "\n".join([result.name, *result.verdict.examples])
        assert result.verdict.figures["acknowledged"] > 10
    assert nursery.errors() == ""


@pytest.mark.alone
@pytest.mark.timeout(120)
async def test_a_failover_that_loses_the_last_commits_is_outlasted(perform, say) -> None:
    """Nothing is found; its processes say that the database is another incarnation."""
    (result,) = await perform({"clean_failover": (FAILOVER, None)})
    say(f"{result.name}: {result.verdict.figures}")
    assert result.verdict.clean, "\n".join(result.verdict.examples)
    assert result.verdict.figures["acknowledged"] > 200
    assert result.verdict.figures["fault: failover-with-loss"] == 1


def test_a_hub_that_does_not_sync_is_found(tmp_path: Path) -> None:
    recording = tmp_path / "recording"
    bug = "from tests.torture.planted_ways_out import never_sync; never_sync()"
    work = f"from eventhub.testing.torture.power_loss import _main; _main({str(recording)!r}, 'OFF', '60', '8')"
    subprocess.run([sys.executable, "-c", f"{bug}\n{work}"], check=True)
    verdict = judge(msgspec.msgpack.decode(recording.read_bytes(), type=Recording), count=60, seed=SEED)
    assert verdict.lost + verdict.damaged > 10


@pytest.mark.parametrize("doubles", [20, 0])
async def test_a_lake_that_copies_twice_is_found(doubles: int, tmp_path: Path, monkeypatch) -> None:
    """A copy whose end was not written down is made again; only the lake's own numbers keep it from doubling."""
    url, lake, evidence = str(tmp_path / "hub.db"), tmp_path / "lake", tmp_path / "evidence.db"
    async with EventQueue(url) as queue:
        await queue.publish_many([{"type": "torture.test", "payload": {"token": str(n)}} for n in range(20)])
    with monkeypatch.context() as crash:
        crash.setattr(SqliteLedger, "finish_commit", _killed)
        with pytest.raises(KeyboardInterrupt):
            await copy_the_rest(url, lake)
    if doubles:
        planted_ways_out.number_copies_anew(monkeypatch.setattr)
    await copy_the_rest(url, lake)
    await gather(tmp_path, url, evidence, lake=lake)
    verdict = check(evidence)
    assert (verdict.figures["events in the lake"], verdict.figures["log rows in the lake"]) == (20, 20)
    assert verdict.judgements[9].violations == doubles


async def test_what_the_lake_changed_or_left_out_is_found(tmp_path: Path) -> None:
    url, lake, evidence = str(tmp_path / "hub.db"), tmp_path / "lake", tmp_path / "evidence.db"
    async with EventQueue(url) as queue:
        await queue.publish_many([{"type": "torture.test", "payload": {"token": str(n)}} for n in range(3)])
        await copy_the_rest(url, lake)
        await queue.publish({"type": "torture.test", "payload": {"token": "3"}})
    with contextlib.closing(apsw.Connection(url)) as connection:
        connection.execute("UPDATE eventhub_events SET payload = replace(payload, '0', '9')")
    await gather(tmp_path, url, evidence, lake=lake)
    words = [example.rpartition("lake_wrong: ")[2] for example in check(evidence).judgements[9].examples]
    assert words == [
        "the lake lacks event 4",
        "the lake has event 1 with another payload",
        "the lake lacks row 4 of the log",
    ]


async def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_bugs_of_every_invariant_are_planted() -> None:
    """Beside them the lake has its own; the drain is late whenever something hangs; the last two are about the run."""
    assert set().union(*(numbers for _, numbers in BUGS.values()), {10, 11, 13, 14}) == {i.number for i in INVARIANTS}
