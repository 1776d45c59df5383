"""Who is at the other end of a connection on this machine: the user whose process holds that end, as the kernel says.

A loopback address alone says little: a proxy, a container's port and every other user of the machine come from it as
well. The kernel knows the user of each socket. It is asked by netlink (sock_diag), for exactly this connection; where
that is not allowed, the table in /proc/net is read. Where neither is there, nobody is known.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["PEER", "Address", "Peer", "user_of"]

Address = tuple[str, int]

PEER: Final = "eventhub.peer"
"""Where the scope of a request has the peer of its connection."""

_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_HEADER: Final = struct.Struct("=IHHII")
"""nlmsghdr: length, type, flags, sequence, port."""
_REQUEST: Final = struct.Struct("=BBBBI")
"""inet_diag_req_v2 up to its socket id: family, protocol, extensions, padding, states."""
_ANSWER: Final = struct.Struct("=4x48x12xII")
"""inet_diag_msg: family and state, socket id, counters; then user and inode."""
_ANY_STATE: Final = 0xFFFFFFFF
_NO_COOKIE: Final = b"\xff" * 8
_ANSWER_SECONDS: Final = 1.0
_OVERFLOW_USER: Final = 65534
"""Stands for every user that a container does not know: never one in particular."""


class Peer:
    """The other end of one connection; it is looked up when somebody asks, and once."""

    __slots__ = ("_asked", "_client", "_is_own", "_server")

    def __init__(self, client: Address | None, server: Address | None) -> None:
        self._client = client
        self._server = server
        self._asked = False
        self._is_own = False

    @property
    def is_own_user(self) -> bool:
        """Whether a process of the user that this server runs as holds the other end."""
        if not self._asked:
            self._asked = True
            self._is_own = _is_own(self._client, self._server, os.geteuid())
        return self._is_own


def _is_own(client: Address | None, server: Address | None, own: int) -> bool:
    if client is None or server is None or own == _OVERFLOW_USER:
        return False
    return user_of(client, server) == own


def user_of(client: Address, server: Address) -> int | None:
    """The user of the process that holds the client's end of a connection on this machine; None when it is unknown."""
    with suppress(OSError, ValueError, struct.error):
        try:
            found = _ask_kernel(client, server)
        except OSError:
            found = _read_table(client, server)
        if found is not None and found[1]:  # without an inode nobody holds it any more, and its user is told as root
            return found[0]
    return None


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _ask_kernel(client: Address, server: Address) -> tuple[int, int] | None:
    """User and inode of the socket that has this address and that peer."""
    family = _family(client)
    wanted = b"".join(
        [
            _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ANY_STATE),
            struct.pack(">HH", client[1], server[1]),
            *(socket.inet_pton(family, address[0]).ljust(16, b"\0") for address in (client, server)),
            struct.pack("=I", 0),
            _NO_COOKIE,
        ]
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG) as kernel:
        kernel.settimeout(_ANSWER_SECONDS)
        kernel.send(_HEADER.pack(_HEADER.size + len(wanted), _BY_FAMILY, 1, 1, 0) + wanted)
        answer = kernel.recv(4096)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        raise OSError("the kernel has no answer")
    user, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    return user, inode


def _read_table(client: Address, server: Address) -> tuple[int, int] | None:
    """The same from the table that /proc shows."""
    name = "tcp6" if _family(client) == socket.AF_INET6 else "tcp"
    ends = [_in_table(client), _in_table(server)]
    for line in Path("/proc/net", name).read_text().splitlines()[1:]:
        columns = line.split()
        if columns[1:3] == ends:
            return int(columns[7]), int(columns[9])
    return None


def _in_table(address: Address) -> str:
    """An address as the table has it: words of the machine's order, in hexadecimal digits."""
    packed = socket.inet_pton(_family(address), address[0])
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return f"{''.join(f'{word:08X}' for word in words)}:{address[1]:04X}"
