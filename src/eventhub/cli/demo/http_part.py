"""Part 3: work over HTTP – two workers share what is published, each customer's mails go out in order."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from eventhub.client import ClaimedEvent, Client, Worker
from eventhub.core.outcomes import HandlerResult, Success, TransientError

if TYPE_CHECKING:
    from eventhub.cli.demo.stage import Stage

__all__ = ["play"]

CUSTOMERS: Final = ("anna", "ben", "carla", "dave")
MAILS: Final = 60
UNLUCKY: Final = 17
"""The number of the mail that fails once."""


class Mailer:
    """The handler of one worker; all of them write into one book."""

    def __init__(self, stage: Stage, name: str, sent: dict[str, list[int]], share: Counter[str]) -> None:
        self._stage, self._name, self._sent, self._share = stage, name, sent, share

    async def handle(self, event: ClaimedEvent) -> HandlerResult:
        number, customer = event.payload["n"], event.payload["customer"]
        if number == UNLUCKY and event.attempt == 1:
            self._stage.narrator.bad(f"{self._name}: mail {number} to {customer} failed; the later ones wait for it")
            return TransientError("mailer", "the mail server is away")
        if number == UNLUCKY:
            self._stage.narrator.good(f"{self._name}: mail {number} to {customer} sent, attempt {event.attempt}")
        self._sent[customer].append(number)
        self._share[self._name] += 1
        self._stage.handled.add(event.id)
        return Success()


async def play(stage: Stage) -> None:
    stage.narrator.chapter(
        "3. Work over HTTP: the hub as a server",
        f"`eventhub serve` is process {stage.hub_pid} at {stage.hub}. Programs in any language",
        f"publish there and take work; here {MAILS} mails for two workers, each customer's in order.",
    )
    sent: dict[str, list[int]] = defaultdict(list)
    share: Counter[str] = Counter()
    async with Client(stage.hub) as client:
        made = await client.publish_many(
            {
                "title": "Newsletter",
                "tags": "email",
                "payload": {"n": number, "customer": CUSTOMERS[number % len(CUSTOMERS)]},
                "ordering_key": CUSTOMERS[number % len(CUSTOMERS)],
            }
            for number in range(MAILS)
        )
    ids = [one.id for one in made]
    stage.book("mails over HTTP", ids)
    names = ("mailer-1", "mailer-2")
    first, second = (
        Worker(stage.hub, "email", Mailer(stage, name, sent, share).handle, worker_id=name, concurrency=2)
        for name in names
    )
    with stage.narrator.waiting("Working …"):
        async with first, second:
            await stage.settled(*ids)
    stage.narrator.good("sent: " + ", ".join(f"{share[name]} by {name}" for name in names))
    stage.expect(
        "Every customer's mails went out in their order, each once, whoever sent them",
        kept=sum(map(len, sent.values())) == MAILS and all(each == sorted(each) for each in sent.values()),
    )
