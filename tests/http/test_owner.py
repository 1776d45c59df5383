"""Whoever sits at the machine owns a hub without keys: who that is, and who only looks like it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventhub.http import peer
from eventhub.http.peer import Peer, user_of
from tests.http.api import Api, Wire, head
from tests.http.conftest import Hub, MakeHub
from tests.http.server import HubServer

SOMEBODY = 4242
"""A user that is neither root nor anybody who runs tests."""
ADDED_BY_PROXIES = [
    "Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
    "X-Forwarded-Server", "X-Real-IP", "X-Client-IP", "X-Cluster-Client-IP", "X-Original-For", "X-Original-URL",
    "X-Envoy-External-Address", "X-Amzn-Trace-Id", "X-Azure-ClientIP", "CF-Connecting-IP", "CF-Ray", "CDN-Loop",
    "True-Client-IP", "Fly-Client-IP", "Fastly-Client-IP", "DO-Connecting-IP", "Client-IP",
]  # fmt: skip


@pytest.mark.parametrize("header", ADDED_BY_PROXIES)
@pytest.mark.parametrize("value", ["203.0.113.9", "127.0.0.1", ""])
def test_what_a_proxy_passes_on_is_not_the_owners(sqlite_hub: Hub, header: str, value: str):
    answer = sqlite_hub("GET", "/events", headers={header: value})
    assert answer.status == 401
    assert "eventhub keys create admin --scopes admin" in answer.json["detail"]
    assert sqlite_hub("GET", "/health", headers={header: value}).status == 200


def test_what_an_old_proxy_passes_on_without_a_word_is_not_the_owners(sqlite_hub: Hub):
    with Wire(sqlite_hub.port) as wire:
        wire.send(head("GET", "/events", wire.port).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert wire.answer().status == 401


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:80", "[::1]"])
def test_the_owner_may_call_this_machine_by_any_of_its_names(sqlite_hub: Hub, host: str):
    assert sqlite_hub("GET", "/events", headers={"Host": host}).status == 200


@pytest.mark.parametrize("flags", [("--allowed-hosts", "hub.example"), ("--host", "0.0.0.0")])
def test_whoever_expects_others_needs_a_key_first(tmp_path: Path, flags: tuple[str, ...]):
    server = HubServer(str(tmp_path / "hub.db"), tmp_path)
    done = server.command("serve", *flags, "--port", "0", secret=True)
    assert done.returncode != 0
    assert "eventhub keys create admin --scopes admin" in " ".join(done.stderr.split())
    assert "listens" not in done.stdout


def test_once_a_key_is_made_its_last_end_opens_nothing(make_hub: MakeHub):
    hub = make_hub()
    key = hub.post("/api-keys", {"name": "root", "scopes": ["admin"]}).json["key"]
    assert hub.with_key(key).delete(f"/api-keys/{key.split('_')[1]}").status == 204
    answer = hub.get("/events")
    assert answer.status == 401
    assert "no API key yet" not in answer.json["detail"]


# --------------------------------------------------------- other users here

ASK = """
import os, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.close()
if int(sys.argv[2]) != os.getuid():
    os.setgroups([]), os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.sendall(b"GET /events HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
print(connection.recv(12).split()[1].decode())
"""


def test_another_user_of_the_machine_is_not_the_owner(sqlite_hub: Hub):
    """Only root can become somebody else; for others this shows that they themselves are the owner."""
    user = SOMEBODY if os.geteuid() == 0 else os.geteuid()
    done = subprocess.run(
        [sys.executable, "-I", "-c", ASK, str(sqlite_hub.port), str(user)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == ("401" if user == SOMEBODY else "200")
    assert Api(sqlite_hub.port).get("/events").status == 200


@pytest.fixture(params=[("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)], ids=["IPv4", "IPv6"])
def ends(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection: the client's end and the server's."""
    host, family = request.param
    with (
        socket.create_server((host, 0), family=family) as listening,
        socket.create_connection(listening.getsockname()[:2]) as client,
    ):
        server, _ = listening.accept()
        with server:
            yield client, server


def addresses(ends: tuple[socket.socket, socket.socket]) -> tuple[peer.Address, peer.Address]:
    client, server = ends
    return client.getsockname()[:2], server.getsockname()[:2]


@pytest.mark.parametrize("way", ["netlink", "table"])
def test_the_kernel_tells_whose_a_connection_is(
    ends: tuple[socket.socket, socket.socket], way: str, monkeypatch: pytest.MonkeyPatch
):
    if way == "table":  # as in a unit that allows no netlink

        def refused(*_: object) -> None:
            raise PermissionError

        monkeypatch.setattr(peer, "_ask_kernel", refused)
    client, server = addresses(ends)
    assert user_of(client, server) == os.geteuid()
    assert user_of(server, client) == os.geteuid()
    assert user_of(client, (server[0], 1)) is None
    assert Peer(client, server).is_own_user
    ends[0].shutdown(socket.SHUT_RDWR)
    ends[0].close()
    assert user_of(client, server) is None
    assert not Peer(client, server).is_own_user


def test_whoever_cannot_be_looked_up_is_nobody(ends: tuple[socket.socket, socket.socket]):
    client, server = addresses(ends)
    assert not Peer(None, server).is_own_user
    assert not Peer(client, None).is_own_user
    assert user_of(("nonsense", 1), server) is None


def test_other_users_and_those_a_container_does_not_know_are_not_the_own_one(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
):
    client, server = addresses(ends)
    for user in (SOMEBODY, 65534):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert not Peer(client, server).is_own_user
    monkeypatch.setattr(peer, "user_of", lambda *_: 65534)
    assert not Peer(client, server).is_own_user
