"""``eventhub listen``: a receiver of webhooks for people who develop one, or want to see what a hub sends."""

from __future__ import annotations

import asyncio
import os
import re
from typing import Annotated, Final

from cyclopts import App, Parameter

from eventhub.cli.receiving import Answering, Order
from eventhub.config import LISTEN_SECRET
from eventhub.errors import EventHubError, SettingsError

__all__ = ["app"]

app = App(
    name="listen",
    help_epilogue="The hub reaches an address of this machine only when it may: "
    "eventhub serve --allow-private 127.0.0.0/8. Ctrl-C ends it with a summary; the exit code is 1 when a signature "
    "was not good or an order was broken.",
)

LARGEST_PORT: Final = 65_535
LONGEST_DELAY: Final = 600
_SHARE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)%\Z")


@app.default
def listen(
    *,
    port: Annotated[int, Parameter(help="The port to listen on; 0 takes a free one.")] = 9000,
    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1",
    secret: Annotated[
        tuple[str, ...],
        Parameter(
            help=f"whsec_…, a secret that requests may be signed with; may be given again. Better in {LISTEN_SECRET}.",
            negative="",
        ),
    ] = (),
    fail: Annotated[str | None, Parameter(help="The share of requests that fail here, such as 20%.")] = None,
    status: Annotated[
        int | None, Parameter(help="The status of failures, 500 unless given; without --fail all requests fail so.")
    ] = None,
    delay: Annotated[float, Parameter(help="Seconds to wait before each answer.")] = 0.0,
    retry_after: Annotated[int | None, Parameter(help="Seconds in the Retry-After header of failures.")] = None,
    key: Annotated[
        str | None,
        Parameter(help="Watch the order of each value of this path, such as payload.customer.id or ordering_key."),
    ] = None,
    ordered: Annotated[bool, Parameter(help="Watch the order of everything, as of one key.", negative="")] = False,
    count: Annotated[int | None, Parameter(help="End after so many requests.")] = None,
    json: Annotated[
        bool, Parameter(help="One JSON object a line, the summary last.", negative="", show_default=False)
    ] = False,
    debug: Annotated[bool, Parameter(help="Show where an error came from.", negative="", show_default=False)] = False,
) -> int:
    """Receive webhooks: check their signatures and order, show them, and fail as you wish."""
    del debug  # the entry point looks for it
    if not 0 <= port <= LARGEST_PORT:
        raise SettingsError(f"--port is {port}; give a number from 0 to {LARGEST_PORT}.")
    if count is not None and count < 1:
        raise SettingsError(f"--count is {count}; give 1 or more, or leave it out.")
    if key is not None and ordered:
        raise SettingsError("--ordered watches everything as one key; give it or --key.")
    answering = _answering(fail, status, delay, retry_after)
    secrets = _secrets(secret)
    order = Order(_checked(key)) if key is not None or ordered else None
    try:
        from eventhub.cli.receiver import Receiver, Showing
    except ImportError as error:
        raise SettingsError("Listening needs more packages: pip install 'eventhub[server]'.") from error
    receiver = Receiver(secrets, answering, order, Showing(json=json), most=count)
    return asyncio.run(receiver.run(host, port))


def _answering(fail: str | None, status: int | None, delay: float, retry_after: int | None) -> Answering:
    share = 0.0 if status is None else 1.0
    if fail is not None:
        found = _SHARE.match(fail.strip())
        share = float(found[1]) / 100 if found else 2.0
        if share > 1:
            raise SettingsError(f"--fail is {fail[:40]!r}; give a share from 0% to 100%, such as 20%.")
    if status is not None and not 200 <= status <= 599:  # noqa: PLR2004 - as HTTP has it
        raise SettingsError(f"--status is {status}; give one from 200 to 599.")
    if not 0 <= delay <= LONGEST_DELAY:
        raise SettingsError(f"--delay is {delay:g}; give seconds from 0 to {LONGEST_DELAY}.")
    if retry_after is not None and retry_after < 0:
        raise SettingsError(f"--retry-after is {retry_after}; give seconds, 0 or more.")
    return Answering(share=share, status=500 if status is None else status, delay=delay, retry_after=retry_after)


def _checked(key: str | None) -> str | None:
    from eventhub.core.ordering import key_path

    try:
        if key is not None:
            key_path(key)
    except ValueError as error:
        raise SettingsError(f"--key is {key!r}, which {error}.") from None
    return key


def _secrets(given: tuple[str, ...]) -> list[bytes]:
    from eventhub.core.signing import parse_secret

    texts = list(given) or re.split(r"[\s,]+", os.environ.get(LISTEN_SECRET, "").strip())
    try:
        return [parse_secret(text) for text in texts if text]
    except EventHubError as error:
        raise SettingsError(f"--secret or {LISTEN_SECRET}: {error}") from None
