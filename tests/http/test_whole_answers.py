"""Answers leave in one write, whatever they are made of."""

import socket

import pytest

from eventhub.http.protocol import WholeAnswer
from tests.http.conftest import Hub

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Transport:
    def __init__(self):
        self.written: list[bytes] = []
        self.closed = False
        self.aborted = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed


class Cycle:
    def __init__(self, *, started: bool = True, complete: bool = True):
        self.response_started = started
        self.response_complete = complete


def test_head_and_body_are_written_together_and_more_of_the_body_at_once():
    transport = Transport()
    answer = WholeAnswer(transport, Cycle())
    answer.write(HEAD)
    assert transport.written == []
    answer.write(b"{}")
    answer.write(b"more")
    answer.flush()
    assert transport.written == [HEAD + b"{}", b"more"]


def test_an_invitation_to_go_on_is_not_held_back():
    transport = Transport()
    answer = WholeAnswer(transport, Cycle())
    answer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    answer.write(HEAD)
    assert transport.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]


def test_a_head_without_a_body_leaves_at_the_end_or_before_the_connection_is_closed():
    transport = Transport()
    answer = WholeAnswer(transport, Cycle())
    answer.write(HEAD)
    answer.flush()
    answer.flush()
    assert transport.written == [HEAD]
    assert not answer.is_closing()

    answer = WholeAnswer(transport, Cycle())
    answer.write(HEAD)
    answer.close()
    assert transport.written == [HEAD, HEAD]
    assert answer.is_closing()


@pytest.mark.parametrize(
    ("started", "complete", "aborted"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_only_an_answer_that_is_given_up_half_way_does_not_wait_for_its_reader(
    *, started: bool, complete: bool, aborted: bool
):
    transport = Transport()
    WholeAnswer(transport, Cycle(started=started, complete=complete)).close()
    assert transport.closed
    assert transport.aborted is aborted


def _read(connection: socket.socket, until: int) -> list[bytes]:
    """The heads and bodies of so many answers."""
    found: list[bytes] = []
    data = b""
    connection.settimeout(20)
    while len(found) < until:
        data += connection.recv(65536)
        while b"\r\n\r\n" in data:
            head, _, rest = data.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            if len(rest) < length:
                break
            found.append(head + b"\r\n\r\n" + rest[:length])
            data = rest[length:]
    return found


@pytest.mark.parametrize("pipelined", [True, False])
def test_many_requests_on_one_connection_are_answered_in_order(hub: Hub, *, pipelined: bool):
    paths = ["/health", "/events/999999999", "/no/such/place", "/health"]
    requests = [f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{hub.port}\r\n\r\n".encode() for path in paths]
    with socket.create_connection(("127.0.0.1", hub.port)) as connection:
        if pipelined:
            connection.sendall(b"".join(requests))
            answers = _read(connection, 4)
        else:
            answers = []
            for request in requests:
                connection.sendall(request)
                answers += _read(connection, 1)
    assert [int(answer[9:12]) for answer in answers] == [200, 404, 404, 200]


def test_head_is_answered_without_a_body_and_the_connection_goes_on(hub: Hub):
    with socket.create_connection(("127.0.0.1", hub.port)) as connection:
        connection.settimeout(20)
        for _ in range(3):
            connection.sendall(f"HEAD /health HTTP/1.1\r\nhost: 127.0.0.1:{hub.port}\r\n\r\n".encode())
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(65536)
            assert data.startswith(b"HTTP/1.1 200 OK\r\n")
            assert data.endswith(b"\r\n\r\n")


def test_a_path_that_looks_like_a_pattern_of_ours_is_none(hub: Hub):
    for path in ("/events/{id}", "/events/%7Bid%7D", "/events/{id}/complete", "/events//complete", "/events/"):
        with socket.create_connection(("127.0.0.1", hub.port)) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{hub.port}\r\n\r\n".encode())
            (answer,) = _read(connection, 1)
        assert 300 <= int(answer[9:12]) < 500, path
