"""Names and TLS: nobody is waited for longer than was said, and who is not who they say gets nothing."""

import asyncio
import datetime as dt
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from eventhub.core.verdicts import NETWORK, TIMEOUT
from eventhub.hub import resolving
from eventhub.hub.destinations import Destinations
from eventhub.hub.resolving import Resolver
from eventhub.hub.sending import Sender, WebhookRequest
from tests.hub.sending.receiver import Receiver, then_silence

NAME = "hooks.example.com"
HOME = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for the name, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return path


@pytest.fixture
def served(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def at_home(host: str, port: int, **_: Any) -> list[Any]:
    return [(*HOME, ("127.0.0.1", port))]


@pytest.fixture
async def trusting(certificate: Path) -> AsyncIterator[Sender]:
    context = ssl.create_default_context(cafile=certificate)
    sender = Sender(Destinations.parse(["127.0.0.0/8"]), tls=context, lookup=at_home)
    await sender.start()
    yield sender
    await sender.close()


def request(url: str, **times: float) -> WebhookRequest:
    return WebhookRequest(url, {"authorization": "secret"}, b"{}", **{"total_timeout": 5.0, **times})


async def test_tls_is_spoken_with_the_name_of_the_url(trusting: Sender, served: ssl.SSLContext):
    asked: list[str | None] = []
    served.sni_callback = lambda _, name, __: asked.append(name)
    async with Receiver(tls=served) as receiver:
        for _ in range(2):
            got = await trusting.send(request(f"https://{NAME}:{receiver.port}/"))
            assert got.status == 200, got
        assert receiver.connections == 1
    assert asked == [NAME]


@pytest.mark.parametrize("host", ["other.example.com", "127.0.0.1"])
async def test_a_certificate_for_another_name_is_refused_before_anything_is_sent(
    trusting: Sender, served: ssl.SSLContext, host: str
):
    async with Receiver(tls=served) as receiver:
        got = await trusting.send(request(f"https://{host}:{receiver.port}/"))
    assert got.failure == NETWORK
    assert "certificate" in (got.error or "")
    assert receiver.requests == []


async def test_a_certificate_that_nobody_vouches_for_is_refused(sender: Sender, served: ssl.SSLContext):
    async with Receiver(tls=served) as receiver:
        got = await sender.send(request(f"https://127.0.0.1:{receiver.port}/"))
    assert got.failure == NETWORK
    assert "certificate" in (got.error or "")
    assert receiver.requests == []


async def test_a_server_without_tls_is_a_failure_of_the_network(sender: Sender):
    async with Receiver() as receiver:
        server = await asyncio.start_server(_plain, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            got = await sender.send(request(f"https://127.0.0.1:{port}/"))
    assert (got.status, got.failure) == (None, NETWORK)
    assert receiver.connections == 0


async def test_a_handshake_that_never_ends_is_given_up_after_the_time_to_connect(sender: Sender):
    async with Receiver(then_silence()) as receiver:
        got = await sender.send(request(f"https://127.0.0.1:{receiver.port}/", connect_timeout=0.1))
    assert got.failure == TIMEOUT
    assert "no connection" in (got.error or "")
    assert got.dns_ms is not None
    assert got.connect_ms is None
    assert got.total_ms < 3000


@pytest.fixture
def stuck() -> Iterator[threading.Event]:
    """Names that begin with ``slow`` are found only when this is set."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_name_that_is_not_found_in_time_delays_nobody_else(stuck: threading.Event):
    looked_up: list[str] = []

    def lookup(host: str, port: int, **_: Any) -> list[Any]:
        looked_up.append(host)
        if host.startswith("slow"):
            stuck.wait(20)
        return at_home(host, port)

    sender = Sender(Destinations.parse(["127.0.0.0/8"]), lookup=lookup)
    await sender.start()
    async with Receiver() as receiver:
        slow = [
            sender.send(request(f"http://slow{number % 20}.example.com:{receiver.port}/", connect_timeout=1.5))
            for number in range(60)
        ]
        waiting = asyncio.gather(*slow)
        quick = await sender.send(request(f"http://quick.example.com:{receiver.port}/"))
        assert quick.status == 200
        assert not waiting.done()
        for got in await waiting:
            assert got.failure == TIMEOUT
            assert "name" in (got.error or "")
        assert len(looked_up) == 21
    await sender.close()


async def test_those_who_ask_together_ask_once():
    looked_up: list[str] = []

    def lookup(host: str, port: int, **_: Any) -> list[Any]:
        looked_up.append(host)
        return at_home(host, port)

    sender = Sender(Destinations.parse(["127.0.0.0/8"]), lookup=lookup)
    await sender.start()
    async with Receiver() as receiver:
        url = f"http://{NAME}:{receiver.port}/"
        answers = await asyncio.gather(*(sender.send(request(url)) for _ in range(20)))
        assert {answer.status for answer in answers} == {200}
    assert looked_up == [NAME]
    await sender.close()


async def _plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(5)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    writer.close()


async def test_names_that_hang_do_not_take_the_turns_of_others(monkeypatch: pytest.MonkeyPatch):
    """More names than there are turns, none of which is ever answered, beside one that is."""
    monkeypatch.setattr(resolving, "HANGS_AFTER", 0.02)
    answer = threading.Event()

    def lookup(host: str, port: int, **_: Any) -> list[Any]:
        if host != NAME:
            answer.wait(30)
        return [(*HOME, ("127.0.0.1", port))]

    resolver = Resolver(Destinations.parse(["127.0.0.0/8"]), lookup=lookup)
    hanging = [
        asyncio.create_task(resolver.resolve(f"hangs-{number}.example.com", 80))
        for number in range(2 * resolving.MOST_LOOKUPS)
    ]
    await asyncio.sleep(0)  # all have asked
    try:
        async with asyncio.timeout(10):
            assert await resolver.resolve(NAME, 80) == [(*HOME, ("127.0.0.1", 80))]
        assert not any(task.done() for task in hanging)
    finally:
        answer.set()
        await asyncio.gather(*hanging)
        resolver.close()
