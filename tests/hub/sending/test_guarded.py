"""What must not be dialled is not dialled: a server on this machine that counts connections receives nothing."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from eventhub.core.verdicts import BLOCKED, NETWORK
from eventhub.hub.destinations import AddressInfo, Destinations
from eventhub.hub.resolving import Resolver
from eventhub.hub.sending import Sender, WebhookRequest
from tests.hub.sending.receiver import Receiver

PUBLIC = "93.184.215.14"


class Watched(Destinations):
    """Remembers every socket that was asked for, and opens none that would leave this machine."""

    def __init__(self) -> None:
        super().__init__()
        self.dialled: list[str] = []

    def open_socket(self, address: AddressInfo) -> socket.socket:
        self.dialled.append(address[4][0])
        if address[4][0] == PUBLIC:
            raise OSError("a test stays at home")
        return super().open_socket(address)


def answers(*addresses: str) -> Callable[..., list[Any]]:
    def lookup(host: str, port: int, **_: Any) -> list[Any]:
        family = {address: socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses}
        return [(family[each], socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (each, port)) for each in addresses]

    return lookup


async def send(sender: Sender, url: str) -> Any:
    await sender.start()
    try:
        return await sender.send(WebhookRequest(url, {}, b"{}", total_timeout=2, connect_timeout=1))
    finally:
        await sender.close()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "0",
        "127.0.0.1.", "localhost", "LOCALHOST", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
        "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::1]", "[::]", "[fe80::1%25lo]", "[::1%25lo]", "[::1%lo]",
    ],
)  # fmt: skip
async def test_no_spelling_of_this_machine_is_dialled(host: str):
    guard = Watched()
    async with Receiver() as receiver:
        got = await send(Sender(guard), f"http://{host}:{receiver.port}/")
        assert (got.status, got.failure) == (None, BLOCKED), got
        assert receiver.connections == 0
    assert guard.dialled == []


@pytest.mark.parametrize("found", [("127.0.0.1",), (PUBLIC, "127.0.0.1"), ("127.0.0.1", PUBLIC), (PUBLIC, "::1")])
async def test_a_name_with_any_bad_address_is_not_dialled_at_all(found: tuple[str, ...]):
    guard = Watched()
    async with Receiver() as receiver:
        got = await send(Sender(guard, lookup=answers(*found)), f"http://hooks.example.com:{receiver.port}/")
        assert got.failure == BLOCKED
        assert "hooks.example.com" in (got.error or "")
        assert receiver.connections == 0
    assert guard.dialled == []


async def test_a_name_that_turns_bad_after_it_was_checked_is_refused_when_it_is_dialled(
    monkeypatch: pytest.MonkeyPatch,
):
    guard = Watched()

    async def lying(self: Resolver, host: str, port: int) -> list[AddressInfo]:
        found: list[AddressInfo] = answers("127.0.0.1")(host, port)
        return found

    monkeypatch.setattr(Resolver, "resolve", lying)
    async with Receiver() as receiver:
        got = await send(Sender(guard), f"http://hooks.example.com:{receiver.port}/")
        assert got.failure == BLOCKED
        assert receiver.connections == 0
    assert guard.dialled == ["127.0.0.1"]


async def test_a_name_that_is_looked_up_again_is_judged_again():
    found = [("127.0.0.1",), (PUBLIC,)]

    def changing(host: str, port: int, **_: Any) -> list[Any]:
        return answers(*found.pop(0))(host, port)

    resolver = Resolver(Destinations.parse(["127.0.0.0/8"]), lookup=changing)
    assert (await resolver.resolve("hooks.example.com", 80))[0][4] == ("127.0.0.1", 80)
    assert (await resolver.resolve("hooks.example.com", 80))[0][4] == ("127.0.0.1", 80)
    assert len(found) == 1
    resolver._known[("hooks.example.com", 80)].until = 0
    assert (await resolver.resolve("hooks.example.com", 80))[0][4] == (PUBLIC, 80)


async def test_where_it_is_allowed_a_name_is_looked_up_and_sent_as_host():
    guard = Destinations.parse(["127.0.0.0/8"])
    async with Receiver() as receiver:
        for name in ("hooks.example.com", "localhost"):
            got = await send(Sender(guard, lookup=answers("127.0.0.1")), f"http://{name}:{receiver.port}/")
            assert got.status == 200, got
            assert receiver.requests[-1][1]["host"] == f"{name}:{receiver.port}"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com:25/", "https://example.com:22/", "http://example.com:1023/", "http://example.com:0/",
        "ftp://example.com/", "http://user@example.com/", "http:///x", "http://exa mple.com/", "http://ex\r\nample.com/",
        "http://%31%32%37.0.0.1/", "http://[::1", "http://-x-/", "http://a..b/", "file:///etc/passwd", "",
    ],
)  # fmt: skip
async def test_a_url_that_can_never_be_right_is_blocked(url: str):
    guard = Watched()
    got = await send(Sender(guard, lookup=answers(PUBLIC)), url)
    assert got.failure == BLOCKED, got
    assert guard.dialled == []


async def test_a_name_without_an_address_is_a_failure_of_the_network():
    def unknown(*_: Any, **__: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    got = await send(Sender(Watched(), lookup=unknown), "http://nobody.example.com/")
    assert got.failure == NETWORK
    assert "name was not found" in (got.error or "")
    assert (await send(Sender(Watched(), lookup=answers()), "http://nobody.example.com/")).failure == NETWORK
