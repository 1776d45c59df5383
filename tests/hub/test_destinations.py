"""Which addresses, hosts and ports webhooks may go to: every network of the list, from both sides."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventhub.errors import BlockedDestination, SettingsError
from eventhub.hub.destinations import AddressInfo, Destinations, literal

GUARD = Destinations()

REFUSED = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
    "::/8", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
    "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
]  # fmt: skip
EDGES = [
    "1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
    "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.88.98.255",
    "192.88.100.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0",
    "203.0.112.255", "203.0.114.0", "223.255.255.255", "8.8.8.8",
    "64:ff9b::808:808", "100:0:0:1::", "2001:200::", "2000:ffff::", "2001:db7:ffff::",
    "2001:db9::", "2003::", "3ffe:ffff::", "3fff:1000::", "5eff:ffff::", "5f01::", "fbff:ffff::", "fe00::1",
    "2606:4700:4700::1111",
]  # fmt: skip
SPECIAL = [
    "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "::7f00:1", "::ffff:0:7f00:1",
    "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::1", "::", "fec0::1", "192.88.99.1", "169.254.169.254", "255.255.255.255",
    "fd00:ec2::254", "64:ff9a:ffff::1", "64:ff9c::", "fe80::1%eth0", "::1%lo", "100.100.100.200",
]  # fmt: skip


@pytest.mark.parametrize("network", REFUSED)
def test_a_refused_network_is_refused_from_its_first_to_its_last_address(network: str):
    found = ip_network(network)
    for address in (found[0], found[-1], found[found.num_addresses // 2]):
        with pytest.raises(BlockedDestination):
            GUARD.vet(address)
        with pytest.raises(BlockedDestination):
            GUARD.vet(str(address))


@pytest.mark.parametrize("address", EDGES)
def test_its_neighbours_are_not(address: str):
    assert GUARD.vet(address) == ip_address(address)


@pytest.mark.parametrize("address", SPECIAL)
def test_addresses_that_are_easily_taken_for_public_are_refused(address: str):
    with pytest.raises(BlockedDestination):
        GUARD.vet(address)


@given(st.integers(0, 2**32 - 1))
def test_a_translated_address_is_judged_by_the_one_inside(number: int):
    inside, outside = IPv4Address(number), IPv6Address((0x64FF9B << 96) | number)
    assert _passes(GUARD, inside) is _passes(GUARD, outside)
    assert not _passes(GUARD, IPv6Address((0xFFFF << 32) | number))
    assert not _passes(GUARD, IPv6Address(number))


@given(st.ip_addresses(), st.integers(0, 32))
def test_what_is_allowed_passes_and_nothing_else_changes(address: IPv4Address | IPv6Address, length: int):
    network = ip_network((address, length), strict=False)
    guard = Destinations([network])
    assert _passes(guard, address)
    for edge in (network[0], network[-1]):
        assert _passes(guard, edge)
    for special in SPECIAL:
        bare = ip_address(special.partition("%")[0])
        if bare not in network and not (bare.version == 6 and network.version == 4):
            assert not _passes(guard, bare)


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.1/8", "localhost", "", "10.0.0.0/8 ", "::/129"])
def test_a_network_that_cannot_be_allowed_is_an_error_of_the_settings(text: str):
    with pytest.raises(SettingsError, match="cannot be allowed"):
        Destinations.parse([text])


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0X7F.1", "127.0.0.1"),
        ("0177.0.0.01", "127.0.0.1"),
        ("017700000001", "127.0.0.1"),
        ("0", "0.0.0.0"),
        ("127.0.0.1.", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]", "fe80::1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ("example.com", None),
        ("1.2.3.4.5", None),
        ("256.1.1.1", None),
        ("0x7g", None),
    ],
)
def test_an_address_is_known_in_every_spelling(host: str, address: str | None):
    assert literal(host) == (None if address is None else ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/", "http://127.1/", "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/",
        "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[64:ff9b::7f00:1]/", "http://[fe80::1%25eth0]/",
        "http://localhost/", "https://LocalHost./", "http://x.localhost:8080/", "http://169.254.169.254/latest/meta-data/",
        "http://10.1.2.3/", "https://192.168.0.1/", "http://[fd00::1]/", "http://0/", "http://127.0.0.1./",
        "http://example.com:22/", "http://example.com:1/", "http://example.com:1023/", "https://example.com:0/",
        "http://example.com:70000/", "http://%31.2.3.4/", "http://exämple.com/", "http://１２７.0.0.1/", "http:///x",
        "http://[1::2::3]/", "http://a_b-/", "http://" + "a" * 64 + ".com/", "http://" + "a." * 130 + "com/", "x", "",
        "http://example.com[other.example]/", "http://[v1.a]/", "http://example.com[2606:4700::1]/",
    ],
)  # fmt: skip
def test_a_url_that_can_never_be_sent_to_is_refused_at_once(url: str):
    with pytest.raises(BlockedDestination):
        GUARD.check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "https://example.com/", "http://example.com:80/", "https://example.com:443/",
        "http://example.com:443/", "http://example.com:1024/", "http://example.com:65535/", "http://8.8.8.8/",
        "http://[2606:4700:4700::1111]:8080/", "http://a_b.example.com/", "http://example.com./", "http://xn--exmple-cua.com/",
    ],
)  # fmt: skip
def test_all_other_urls_are_fine(url: str):
    GUARD.check_url(url)


@pytest.mark.parametrize(
    ("allowed", "addresses"),
    [
        (["127.0.0.0/8"], ["127.0.0.1"]),
        (["::1/128"], ["::1"]),
        (["127.0.0.0/8", "::1/128"], ["127.0.0.1", "::1"]),
    ],
)
def test_localhost_is_what_is_allowed_of_it(allowed: list[str], addresses: list[str]):
    guard = Destinations.parse(allowed)
    guard.check_url("http://localhost:8080/")
    assert [str(address) for address in guard.check("localhost", 8080)] == addresses


def test_ports_are_refused_whatever_is_allowed():
    guard = Destinations.parse(["127.0.0.0/8"])
    guard.check_url("http://127.0.0.1:8080/")
    with pytest.raises(BlockedDestination, match="Port 22"):
        guard.check_url("http://127.0.0.1:22/")


@pytest.mark.parametrize(
    "address",
    [
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 80)),
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("8.8.8.8", 22)),
        (socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("::1", 80, 0, 0)),
        (socket.AF_INET6, socket.SOCK_STREAM, 0, "", ("fe80::1%lo", 80, 0, 1)),
        (socket.AF_UNIX, socket.SOCK_STREAM, 0, "", ("/tmp/x", 80)),
        (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("localhost", 80)),
    ],
)
def test_no_socket_is_made_for_what_must_not_be_dialled(address: AddressInfo):
    with pytest.raises(BlockedDestination):
        GUARD.open_socket(address)


def test_an_error_says_how_the_network_is_allowed():
    with pytest.raises(BlockedDestination, match=r"--allow-private 10\.1\.2\.3/32"):
        GUARD.vet("10.1.2.3")


def _passes(guard: Destinations, address: IPv4Address | IPv6Address) -> bool:
    try:
        guard.vet(address)
    except BlockedDestination:
        return False
    return True
