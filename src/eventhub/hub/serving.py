"""The roles of the hub in a process that answers no requests, and their settings."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import timedelta
from typing import Final

from eventhub.config import Settings
from eventhub.handling.logs import get_logger
from eventhub.hub.crew import Crew, CrewSettings
from eventhub.hub.destinations import Destinations
from eventhub.hub.dispatcher import DispatcherTuning
from eventhub.hub.janitor import Keeping
from eventhub.hub.lines import CircuitRules
from eventhub.hub.sealing import Vault
from eventhub.hub.subscribers import SubscriberBook
from eventhub.store import Store

__all__ = ["crew_settings", "run_roles"]

log = get_logger("eventhub.hub")

SIGNAL: Final = 128


def crew_settings(settings: Settings) -> CrewSettings:
    return CrewSettings(
        tuning=DispatcherTuning(concurrency=settings.webhook_concurrency, shutdown_timeout=settings.shutdown_seconds),
        circuit=CircuitRules(failures=settings.circuit_failures, lasting=timedelta(seconds=settings.circuit_seconds)),
        keeping=Keeping(
            workers=timedelta(days=settings.forget_workers_days),
            attempts=_days(settings.keep_attempts_days),
            dead=_days(settings.keep_dead_days),
            keys=_days(settings.keep_idempotency_keys_days),
            audit=_days(settings.keep_audit_days),
        ),
    )


async def run_roles(settings: Settings, store: Store, secret: bytes) -> int:
    """Until a signal says that it is enough; returns the exit code. A second signal ends the process at once."""
    loop, told = asyncio.get_running_loop(), asyncio.Event()

    def stop(number: int) -> None:
        if told.is_set():
            os._exit(SIGNAL + number)  # what is under way is left to its leases
        told.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    async with store:
        destinations = Destinations(settings.private_networks)
        book = SubscriberBook(store, Vault(secret), destinations, queue=settings.work_queue)
        crew = Crew(
            store,
            book,
            destinations,
            queue=settings.work_queue,
            roles=settings.role_names,
            settings=crew_settings(settings),
        )
        await crew.start()
        log.info("at_work", roles=sorted(settings.role_names), store=store.name)
        await told.wait()
        await crew.stop()
    return 0


def _days(days: int) -> timedelta | None:
    return timedelta(days=days) if days else None
