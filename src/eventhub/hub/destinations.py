"""Where webhooks may go: public addresses, on ports 80, 443 and from 1024 up, and the networks that were allowed.

The guard stands at three places. A URL is checked when a subscriber is made, so that a mistake is told at once. All
answers of the DNS are checked before the first is dialled. And the address of every socket is checked when the socket
is made, which is the one that counts: nothing lies between it and the connection.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final, Self
from urllib.parse import urlsplit

from eventhub.core.subscribers import has_one_host
from eventhub.errors import BlockedDestination, SettingsError

__all__ = ["Address", "AddressInfo", "Destinations", "Network", "literal"]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""An entry of what ``getaddrinfo`` gives."""

_REFUSED_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
_REFUSED_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "::/8", "64:ff9b::/32", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
        "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""Its last 32 bits are the IPv4 address that a translator connects to."""
_LAST_PRIVILEGED: Final = 1023
_LAST_PORT: Final = 65_535
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?\Z")
_LONGEST_HOST: Final = 254
_HERE: Final = ("127.0.0.1", "::1")
"""What ``localhost`` and all names below it stand for."""


class Destinations:
    """The guard. ``allowed`` are networks that would be refused otherwise."""

    def __init__(self, allowed: Iterable[Network] = ()) -> None:
        self.allowed = tuple(allowed)

    @classmethod
    def parse(cls, allowed: Iterable[str]) -> Self:
        """From texts such as ``127.0.0.0/8``, which is what development needs; raises SettingsError."""
        return cls(_network(each) for each in allowed)

    def check_url(self, url: str) -> None:
        """Refuse a URL that can never be sent to; a name is looked up only when something is sent there."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise BlockedDestination(f"The address {url[:200]!r} cannot be read: {error}.") from None
        if not host or not has_one_host(parts.netloc):
            raise BlockedDestination(f"The address {url[:200]!r} has no host, or more than one.")
        self.check(host, (443 if parts.scheme == "https" else 80) if port is None else port)

    def check(self, host: str, port: int) -> list[Address]:
        """Refuse a host or port that can be judged without a lookup; its addresses, if they are known without one."""
        check_port(port)
        address = literal(host)
        if address is not None:
            return [self.vet(address)]
        if len(host) > _LONGEST_HOST or not _HOST.match(host):
            raise BlockedDestination(f"{host[:100]!r} is neither a host name nor an address.")
        bare = host.rstrip(".").lower()
        if bare == "localhost" or bare.endswith(".localhost"):
            return self._allowed_here()
        return []

    def vet(self, address: str | Address) -> Address:
        """The address, if it may be dialled."""
        found = _parsed(address)
        judged = _judged(found)
        refused = _REFUSED_V4 if isinstance(judged, IPv4Address) else _REFUSED_V6
        if not any(judged in network for network in refused):
            return found
        if any(judged in network or found in network for network in self.allowed):
            return found
        raise BlockedDestination(
            f"The address {found} is private or reserved, so webhooks are not sent to it. Allow its network with "
            f"--allow-private {_suggested(found)} if this is meant."
        )

    def open_socket(self, address: AddressInfo) -> socket.socket:
        """A socket for an entry of ``getaddrinfo``; its address and port are vetted at the last moment."""
        family, kind, protocol, _, place = address
        if family not in (socket.AF_INET, socket.AF_INET6):
            raise BlockedDestination(f"Webhooks are sent by IPv4 or IPv6, not by the address family {family!r}.")
        self.vet(place[0])
        check_port(place[1])
        return socket.socket(family=family, type=kind, proto=protocol)

    def _allowed_here(self) -> list[Address]:
        """The loopback addresses that are allowed: whoever allowed 127.0.0.0/8 may say localhost, too."""
        found: list[Address] = []
        for address in _HERE:
            with suppress(BlockedDestination):
                found.append(self.vet(address))
        return found or [self.vet(_HERE[0])]


def check_port(port: int) -> None:
    if port not in (80, 443) and not _LAST_PRIVILEGED < port <= _LAST_PORT:
        raise BlockedDestination(
            f"Port {port} is not one that webhooks are sent to; use 80, 443 or one from {_LAST_PRIVILEGED + 1} up."
        )


def literal(host: str) -> Address | None:
    """The address that a host is in whatever spelling: brackets, a scope, and IPv4 as one to four numbers.

    The numbers may be decimal, octal or hexadecimal, as the C library reads them. None: it is a name.
    """
    text = host.strip("[]").partition("%")[0].rstrip(".")
    if ":" in text:
        try:
            return IPv6Address(text)
        except ValueError:
            raise BlockedDestination(f"{host[:100]!r} is no IPv6 address.") from None
    try:
        return IPv4Address(socket.inet_aton(text))
    except (OSError, ValueError):
        return None


def _parsed(address: str | Address) -> Address:
    if isinstance(address, IPv4Address | IPv6Address):
        return address
    try:
        return ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        raise BlockedDestination(f"{address[:100]!r} is no IP address.") from None


def _judged(address: Address) -> Address:
    """The address by which another one is judged: that which a translator would connect to."""
    if isinstance(address, IPv6Address):
        bare = IPv6Address(int(address))  # a scope would make it a member of no network
        return IPv4Address(int(bare) & 0xFFFF_FFFF) if bare in _TRANSLATED else bare
    return address


def _network(given: str) -> Network:
    try:
        return ipaddress.ip_network(given)
    except ValueError as error:
        raise SettingsError(
            f"The network {given!r} cannot be allowed ({error}); give one such as 127.0.0.0/8 or fd00::/8."
        ) from None


def _suggested(address: Address) -> str:
    return f"{address}/{32 if isinstance(address, IPv4Address) else 128}"
