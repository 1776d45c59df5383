"""The guard of webhooks against an oracle that knows the ipaddress module: no spelling of a private address passes."""

import ipaddress
import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eventhub.core.subscribers import Subscriber
from eventhub.errors import BlockedDestination, InvalidSubscriberError
from eventhub.hub.destinations import Address, Destinations, literal
from eventhub.hub.sending import Sender
from tests.fuzz.effort import effort

GUARD = Destinations()
BAD_V4 = [
    "127.0.0.1", "127.255.255.254", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254",
    "0.0.0.0", "100.64.0.1", "192.0.0.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "203.0.113.9",
    "192.88.99.1",
]  # fmt: skip
V4 = st.sampled_from([IPv4Address(text) for text in BAD_V4]) | st.ip_addresses(v=4)


def is_public(address: Address) -> bool:
    """By the ipaddress module, with what an IPv6 address stands for."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped or address.sixtofour or address.teredo or address.is_site_local:
            return False
        if address in ipaddress.IPv6Network("64:ff9b::/96"):
            return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address.is_global and not address.is_multicast and not (address.version == 4 and address.is_reserved)


def passes(host: str, port: int = 443) -> bool:
    try:
        found = GUARD.check(host, port)
    except BlockedDestination:
        return False
    return bool(found) or literal(host) is None


@st.composite
def spelled(draw: st.DrawFn) -> tuple[str, IPv4Address]:
    """An IPv4 address as the C library would read it: one to four numbers, each decimal, octal or hexadecimal."""
    address = IPv4Address(draw(V4))
    number, count = int(address), draw(st.integers(1, 4))
    heads = [(number >> shift) & 0xFF for shift in (24, 16, 8)][: count - 1]
    parts = [*heads, number & ((1 << (8 * (5 - count))) - 1)]
    forms: list[Callable[[int], str]] = [
        str,
        lambda n: f"0{n:o}",
        lambda n: f"000{n:o}",
        hex,
        lambda n: f"0X{n:X}",
        lambda n: f"0x000{n:x}",
    ]
    text = ".".join(draw(st.sampled_from(forms))(part) for part in parts)
    return text + draw(st.sampled_from(["", "", ".", ".."])), address


@given(spelled())
@example(("2130706433", IPv4Address("127.0.0.1")))
@example(("0x7f.1", IPv4Address("127.0.0.1")))
@example(("017700000001", IPv4Address("127.0.0.1")))
@example(("0251.0376.0251.0376", IPv4Address("169.254.169.254")))
@effort(100)
def test_no_spelling_of_a_private_address_passes(pair: tuple[str, IPv4Address]) -> None:
    text, address = pair
    assert literal(text) == address
    assert passes(text) <= is_public(address), text
    assert passes(text.upper()) <= is_public(address)


@given(V4, st.sampled_from(["::ffff:{}", "::{}", "64:ff9b::{}", "::ffff:0:{}", "64:ff9b:1::{}", "fe80::{}"]),
       st.sampled_from(["", "%1", "%lo", "%25lo", "%"]))  # fmt: skip
@example(IPv4Address("127.0.0.1"), "64:ff9b::{}", "%lo")
@effort(150)
def test_no_private_address_passes_inside_another(inside: IPv4Address, form: str, zone: str) -> None:
    text = form.format(inside) + zone
    for host in (text, f"[{text}]"):
        if passes(host):
            assert form == "64:ff9b::{}"
            assert is_public(inside)


@given(st.ip_addresses())
@effort(150)
def test_what_the_ipaddress_module_calls_private_is_refused(address: Address) -> None:
    try:
        GUARD.vet(address)
    except BlockedDestination:
        return
    assert is_public(address), address


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([0x2002 << 112, 0x2001 << 112, 0xFEC0 << 112, 0xFD00 << 112, 1 << 64])
)
@effort(100)
def test_tunnels_and_local_networks_are_refused_whatever_is_in_them(number: int, prefix: int) -> None:
    assert not passes(str(IPv6Address(prefix | (number << 80) if prefix == 0x2002 << 112 else prefix | number)))


PARTS = st.sampled_from([
    "http://", "https://", "HTTP://", "//", "http:", "http:/", "http:\\\\", "ftp://", "a", "example.com", "127.0.0.1",
    "[::1]", "[::1", "::1", "[::ffff:10.0.0.1]", "localhost", "a.localhost", "LOCALHOST.", "xn--bcher-kva.example",
    "bücher.example", "１２７.0.0.1", "127。0。0。1", "①②⑦.0.0.1", "@", ":", ":80", ":443", ":22", ":0", ":65536",
    ":٤٤٣", ":-1", ":08080", "/", "?", "#", "%", "%00", "%2e", "%31", "\\", ".", "..", "_", "-", "user:secret@",
    "0x7f.1", "2130706433", "[v1.a]", "[fe80::1%25lo]", "%lo", "\u200b", "é", " ", "\t", "\n", "\r", "\x00",
])  # fmt: skip


@given(
    st.builds(
        "{}{}{}".format, st.sampled_from(["http://", "https://", ""]), PARTS, st.lists(PARTS, max_size=4).map("".join)
    )
)
@example("http://http:[v1.a]")
@example("http://example.com[2606:4700::1]/")
@example("http://example.com@127.0.0.1/")
@example("http://127.0.0.1#@example.com/")
@example("http://127.0.0.1\\@example.com/")
@example("http://１２７.0.0.1/")
@example("http://[::1%25lo]/")
@example("http://example.com:٤٤٣/")
@effort(150)
def test_a_url_is_refused_or_leads_where_it_says(url: str) -> None:
    """Nothing but a refusal is ever raised, and a URL that passes has one reading: that of the address dialled."""
    try:
        GUARD.check_url(url)
    except BlockedDestination:
        return
    try:
        Subscriber(name="a", url=url)
    except InvalidSubscriberError:
        return
    scheme, host, port = Sender(GUARD)._place(url).origin
    assert scheme in ("http", "https")
    assert port in (80, 443) or 1024 <= port <= 65_535
    assert f"//{host}" in url.lower() or f"//[{host}]" in url.lower()
    assert passes(host, port)
    try:
        numeric = socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return  # a name, whose answers are vetted when they come
    for _, _, _, _, place in numeric:
        assert is_public(ipaddress.ip_address(str(place[0]).partition("%")[0])), url


@given(st.text(max_size=30) | st.lists(PARTS, max_size=5).map("".join))
@effort(100)
def test_whatever_the_c_library_takes_for_an_address_the_guard_does_too(host: str) -> None:
    try:
        found = GUARD.check(host, 443)
    except BlockedDestination:
        return
    try:
        numeric = socket.getaddrinfo(host, 443, flags=socket.AI_NUMERICHOST, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError, ValueError):
        return
    if not found:
        pytest.fail(f"{host!r} is taken for a name, and is {numeric}")
    assert all(is_public(address) for address in found)
