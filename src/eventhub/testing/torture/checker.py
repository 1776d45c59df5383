"""Judges the evidence of a run: twelve invariants of the hub and two of the run, each a few named queries that return
violations in words.

The log's ids are its order: whoever acts on what another transaction has committed gets a higher one. Everything is
sorted and scanned, nothing is compared with everything else, so that ten million records take minutes.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from eventhub.testing.torture.evidence import SQL, open_evidence

__all__ = ["INVARIANTS", "Invariant", "Judgement", "Verdict", "check"]

MOST_EXAMPLES: Final = 20


class Invariant(msgspec.Struct, frozen=True):
    """A promise, and the rules that it is judged by: names of queries, none of which may find anything."""

    number: int
    name: str
    words: str
    rules: tuple[str, ...]


INVARIANTS: Final = (
    Invariant(
        1,
        "never lost",
        "every acknowledged event is completed, dead or archived, and was seen to be",
        ("lost", "unsettled", "unseen", "not_handed_out"),
    ),
    Invariant(
        2,
        "nothing invented",
        "what is stored and delivered was published, once, whole and unchanged",
        ("invented", "altered", "arrived_altered", "stored_twice", "halved", "handed_out_twice"),
    ),
    Invariant(
        3,
        "in order",
        "each consumer's ordering keys go in order of publishing, one at a time, retries included",
        ("overtaken", "in_flight", "arrived_overtaken"),
    ),
    Invariant(
        4,
        "attempts counted",
        "attempts are counted one by one, up to the limit and not short of it",
        ("miscounted", "too_many", "too_few"),
    ),
    Invariant(
        5,
        "one end",
        "a delivery ends once, unless somebody begins again; nothing is sent afterwards",
        ("ended_twice", "arrived_late"),
    ),
    Invariant(
        6,
        "claims and fences",
        "claims never overlap, leases are kept, and only reports under the current fence are accepted",
        ("overlapping", "unfenced", "untraced", "zombies", "unreported", "taken_early", "taken_late"),
    ),
    Invariant(7, "log and state", "the log, followed to its end, gives the state", ("begun_wrong", "folded_wrong")),
    Invariant(
        8,
        "dead letters",
        "whatever died has a dead letter, and it is complete; what ends its workers is one",
        ("no_letter", "incomplete_letter", "poison_lived"),
    ),
    Invariant(
        9,
        "the sum",
        "published = completed + dead + open, and the hub's own numbers agree",
        ("unequal", "miscounting"),
    ),
    Invariant(
        10, "the lake", "the lake holds each event once and unchanged, and each row of the log once", ("lake_wrong",)
    ),
    Invariant(11, "drained", "after the healing everything ends in bounded time", ("not_drained",)),
    Invariant(
        12,
        "duplicates",
        "work that was done twice has a reason: an attempt of its own whose end nobody knew",
        ("unexplained", "sent_again", "done_again", "duplicated"),
    ),
    Invariant(13, "exercised", "there was something to do, and what was to be harmed was hit", ("idle", "unharmed")),
    Invariant(
        14,
        "a whole run",
        "the run came to its end, and nobody in it ended, hung or failed by himself",
        ("died_alone", "stuck", "wrote_errors", "broken_off"),
    ),
)
"""Twelve about the hub, and two about the run: without them the others prove nothing."""
UNPROVED: Final = frozenset({"idle", "unharmed", "broken_off"})
"""Rules by which a run proves nothing, though nothing is wrong with the hub."""


class Judgement(msgspec.Struct, kw_only=True):
    """What was found about one invariant; ``rules`` counts the violations of each of its rules."""

    number: int
    name: str
    words: str
    violations: int = 0
    rules: dict[str, int] = {}
    examples: list[str] = []
    seconds: float = 0.0


class Verdict(msgspec.Struct, kw_only=True):
    """All judgements, and the run in numbers."""

    judgements: list[Judgement]
    figures: dict[str, int]
    facts: dict[str, str | int | float]
    seconds: float

    @property
    def clean(self) -> bool:
        return not any(judgement.violations for judgement in self.judgements)

    @property
    def violated(self) -> bool:
        """Whether a promise is broken; else, if it is not clean, it only proves nothing.

        Where a run broke off, something is open or missing for that reason alone.
        """
        return "broken_off" not in self.broken and bool(self.broken - UNPROVED)

    @property
    def broken(self) -> set[str]:
        """The names of the rules that were broken."""
        return {rule for judgement in self.judgements for rule, count in judgement.rules.items() if count}

    @property
    def examples(self) -> list[str]:
        return [f"{j.number}. {j.name}: {words}" for j in self.judgements for words in j.examples]


def check(file: Path, *, progress: Callable[[str], None] = lambda _: None) -> Verdict:
    """Judge a file of evidence; ``progress`` hears what is being judged."""
    began = time.monotonic()
    with contextlib.closing(open_evidence(file)) as connection:
        progress("sorting the evidence")
        if connection.execute(SQL.lost_tails).get:
            connection.execute(SQL.forget_tails)
        connection.execute(SQL.prepare)
        connection.execute(SQL.duplicates)
        judgements = []
        for invariant in INVARIANTS:
            progress(f"{invariant.number}. {invariant.name}")
            judgements.append(_judge(connection, invariant))
        figures = _pairs(connection, SQL.figures)
        facts = _pairs(connection, SQL.facts)
    counted = {rule: count for judgement in judgements for rule, count in judgement.rules.items()}
    figures |= {
        "lost": sum(counted[rule] for rule in ("lost", "not_handed_out")),
        "phantom": sum(counted[rule] for rule in ("invented", "stored_twice", "handed_out_twice")),
        "out of order": sum(counted[rule] for rule in ("overtaken", "in_flight", "arrived_overtaken")),
    }
    return Verdict(judgements=judgements, figures=figures, facts=facts, seconds=time.monotonic() - began)


def _judge(connection: apsw.Connection, invariant: Invariant) -> Judgement:
    judged = Judgement(number=invariant.number, name=invariant.name, words=invariant.words, rules={}, examples=[])
    began = time.monotonic()
    for rule in invariant.rules:
        count = 0
        for (words,) in connection.execute(getattr(SQL, rule)):
            count += 1
            if len(judged.examples) < MOST_EXAMPLES:
                judged.examples.append(f"{rule}: {words}")
        judged.rules[rule] = count
        judged.violations += count
    judged.seconds = time.monotonic() - began
    return judged


def _pairs(connection: apsw.Connection, query: str) -> dict[str, Any]:
    return {str(name): value for name, value in connection.execute(query)}
