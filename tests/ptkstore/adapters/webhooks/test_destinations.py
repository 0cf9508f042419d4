"""Which endpoints may be called: our own matrix of special addresses, whatever library decides them."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ssrfguard import Policy

from ptkstore.adapters.webhooks import HttpMessenger
from ptkstore.adapters.webhooks.destinations import (
    LOOKUPS_AT_ONCE,
    LOOKUPS_PER_TEAM,
    Destinations,
    EndpointRefused,
)
from ptkstore.errors import InvalidRequest, TooManyRequests, Unavailable
from tests.support.destinations import BAD_FORM, PUBLIC, answering
from tests.support.waiting import PATIENCE_SECONDS, until

PUBLIC_6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"
SPECIAL = {
    "this host": "0.0.0.0",
    "this network": "0.1.2.3",
    "loopback": "127.0.0.1",
    "all of loopback": "127.255.255.254",
    "private 10": "10.0.0.1",
    "private 172": "172.31.255.255",
    "private 192": "192.168.1.1",
    "link-local": "169.254.0.1",
    "cloud metadata": "169.254.169.254",
    "carrier-grade NAT": "100.64.0.1",
    "carrier-grade metadata": "100.100.100.200",
    "protocol assignments": "192.0.0.1",
    "documentation 1": "192.0.2.1",
    "documentation 2": "198.51.100.1",
    "documentation 3": "203.0.113.1",
    "benchmarking": "198.18.0.1",
    "multicast": "224.0.0.1",
    "multicast, administratively scoped": "239.255.255.250",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "6to4 relay": "192.88.99.1",
    "unspecified 6": "::",
    "loopback 6": "::1",
    "link-local 6": "fe80::1",
    "site-local 6": "fec0::1",
    "unique local": "fd00::1",
    "metadata 6": "fd00:ec2::254",
    "multicast 6": "ff02::1",
    "global multicast 6": "ff0e::1",
    "documentation 6": "2001:db8::1",
    "discard-only": "100::1",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped private": "::ffff:10.0.0.1",
    "mapped metadata": "::ffff:169.254.169.254",
    "compatible loopback": "::127.0.0.1",
    "NAT64 loopback": "64:ff9b::127.0.0.1",
    "NAT64 private": "64:ff9b::10.0.0.1",
    "NAT64 of this network": "64:ff9b:1::10.0.0.1",
    "6to4 loopback": "2002:7f00:1::",
    "6to4 private": "2002:c0a8:101::1",
    "Teredo server inside": "2001:0:7f00:1::",
    "translated loopback": "::ffff:0:127.0.0.1",
    "translated private": "::ffff:0:10.0.0.1",
    "translated metadata": "::ffff:0:169.254.169.254",
    "translated public": f"::ffff:0:{PUBLIC}",
    "compatible private": "::10.0.0.1",
    "compatible metadata": "::169.254.169.254",
    "mapped metadata of Azure": "::ffff:168.63.129.16",
    "NAT64 metadata": "64:ff9b::169.254.169.254",
    "NAT64 metadata of Azure": "64:ff9b::168.63.129.16",
    "6to4 metadata": "2002:a9fe:a9fe::1",
    "6to4 metadata of Azure": "2002:a83f:8110::1",
    "Teredo server metadata": "2001:0:a9fe:a9fe::1",
    "ISATAP loopback": "fe80::5efe:127.0.0.1",
    "ISATAP private behind a public prefix": "2606:2800:21f:cb07:0:5efe:10.0.0.1",
    "ISATAP private, universal bit": "2606:2800:21f:cb07:200:5efe:192.168.1.1",
    "ISATAP metadata": "2606:2800:21f:cb07:200:5efe:169.254.169.254",
    "platform of Azure": "168.63.129.16",
    "metadata of Oracle": "192.0.0.192",
    "metadata of Google 6": "fd20:ce::254",
    "port control anycast": "192.0.0.9",
    "port control anycast 6": "2001:1::1",
    "relay anycast": "192.0.0.10",
    "sink of reverse names": "192.175.48.1",
    "multicast tunnel": "2001:3::1",
    "identifiers, no addresses": "2001:20::1",
    "benchmarking 6": "2001:2::1",
    "documentation 6, second": "3fff::1",
    "segment routing": "5f00::1",
    "outside of global unicast, below": "1::1",
    "outside of global unicast, above": "4000::1",
    "Teredo client inside": str(ipaddress.IPv6Address((0x20010000 << 96) | (0x08080808 << 64) | 0x80FFFFFE)),
}
ENCODED = ["2130706433", "127.1", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "017700000001", "①②⑦.0.0.1"]
NAMES_OF_THIS_MACHINE = ["localhost", "ⓁⓄⒸⒶⓁⒽⓄⓈⓉ"]
OPTIONS = {field.name for field in fields(Policy)}
"""What the library calls its own switches: a reader of our messages can set none of them."""


def no_lookup(*_: object) -> Any:
    raise AssertionError("this endpoint must be refused without a lookup")


def code_of(endpoint: str, *addresses: str, networks: Sequence[str] = ()) -> str:
    """What a delivery to the endpoint would record, `allowed` if it would be made."""
    lookup = answering(*addresses) if addresses else None
    try:
        Destinations(networks, None, lookup).destination(endpoint, within_seconds=10.0)
    except EndpointRefused as refused:
        return refused.delivery_code
    return "allowed"


@pytest.mark.parametrize("address", SPECIAL.values(), ids=SPECIAL.keys())
def test_a_special_address_is_refused_as_a_literal_and_behind_a_name(address: str) -> None:
    literal = f"[{address}]" if ":" in address else address
    assert code_of(f"https://{literal}/hook") == "refused-address"
    assert code_of("https://example.com/hook", address) == "refused-address"


@pytest.mark.parametrize("address", SPECIAL.values(), ids=SPECIAL.keys())
def test_a_special_address_beside_a_public_one_is_refused_in_either_order(address: str) -> None:
    assert code_of("https://example.com/", PUBLIC, address) == "refused-address"
    assert code_of("https://example.com/", address, PUBLIC) == "refused-address"


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_6, f"64:ff9b::{PUBLIC}"])
def test_a_public_address_is_allowed(address: str) -> None:
    assert code_of("https://example.com/hook", address) == "allowed"


@pytest.mark.parametrize("host", ENCODED + NAMES_OF_THIS_MACHINE)
def test_this_machine_under_another_spelling_is_refused(host: str) -> None:
    assert code_of(f"https://{host}/hook") in ("refused-address", "bad-endpoint")


@pytest.mark.parametrize("endpoint", BAD_FORM.values(), ids=BAD_FORM.keys())
def test_a_url_of_the_wrong_form_is_refused_without_a_lookup(endpoint: str) -> None:
    with pytest.raises(EndpointRefused) as caught:
        Destinations((), None, no_lookup).destination(endpoint, within_seconds=10.0)
    told = str(caught.value)
    assert caught.value.delivery_code == "bad-endpoint"
    assert "example" not in told
    assert "user:" not in told
    assert "PTK_WEBHOOK_NETWORKS" in told
    assert [option for option in OPTIONS if option in told] == []


@given(st.text(max_size=60) | st.from_regex(r"(?i)https?://[^ ]{0,40}", fullmatch=True))
def test_any_text_is_allowed_or_refused_with_a_code(endpoint: str) -> None:
    assert code_of(endpoint, PUBLIC) in ("allowed", "bad-endpoint", "refused-address")
    assert code_of(endpoint, "10.0.0.1") in ("bad-endpoint", "refused-address")


def test_an_allowed_network_is_reached_by_https_and_plain_http_at_any_http_port() -> None:
    networks = ("10.1.0.0/16", "fd00:1::/32")
    assert code_of("https://internal/", "10.1.2.3", networks=networks) == "allowed"
    assert code_of("http://internal/", "10.1.2.3", networks=networks) == "allowed"
    assert code_of("http://internal:8080/", "fd00:1::1", networks=networks) == "allowed"
    assert code_of("HTTP://10.1.2.3:8080/", networks=networks) == "allowed"
    assert code_of("http://internal/", "10.2.2.3", networks=networks) == "refused-address"
    assert code_of("https://internal/", "10.2.2.3", networks=networks) == "refused-address"
    assert code_of("https://internal:8443/", "10.1.2.3", networks=networks) == "bad-endpoint"


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC_6, "127.0.0.1", f"::ffff:{PUBLIC}"])
def test_plain_http_reaches_no_address_outside_an_allowed_network(address: str) -> None:
    networks = ("10.1.0.0/16",)
    assert code_of("http://example.com/", address, networks=networks) == "refused-address"
    assert code_of("http://example.com/", "10.1.2.3", address, networks=networks) == "refused-address"


def test_given_ports_are_the_only_ones() -> None:
    destinations = Destinations(("10.0.0.0/8",), (8443,), answering("10.1.2.3"))
    for endpoint in ("https://internal:8443/", "http://internal:8443/"):
        assert destinations.destination(endpoint, 10.0).answers[0][4][0] == "10.1.2.3"
    for endpoint in ("https://internal/", "http://internal/", "http://internal:8080/"):
        with pytest.raises(EndpointRefused, match=r"port is not allowed; allowed is 8443"):
            destinations.destination(endpoint, 10.0)


def test_a_name_without_addresses_is_a_failed_connection() -> None:
    def fails(*_: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.raises(EndpointRefused) as caught:
        Destinations((), None, fails).destination("https://nowhere.example/", 10.0)
    assert caught.value.delivery_code == "connection-failed"


def test_a_lookup_that_hangs_is_given_up() -> None:
    let_go = threading.Event()

    def hangs(*_: object) -> Any:
        let_go.wait(20.0)
        return []

    with pytest.raises(EndpointRefused) as caught:
        Destinations((), None, hangs).destination("https://slow.example/", within_seconds=0.05)
    let_go.set()
    assert caught.value.delivery_code == "timeout"


class Blocked:
    """Name servers that answer once they are let go; names that begin with `quick` are answered at once."""

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def __call__(self, host: str, port: int, *_: object) -> Any:
        if not host.startswith("quick"):
            self.let_go.wait(PATIENCE_SECONDS)
        return answering(PUBLIC)(host, port)


def outcome_for(destinations: Destinations, team: str, host: str = "slow.example") -> str:
    """How a lookup that a team waits for ends, after no patience for slow names."""
    within = PATIENCE_SECONDS if host.startswith("quick") else 0.0
    try:
        destinations.destination(f"https://{host}/", within, asked_by=team)
    except EndpointRefused as refused:
        return refused.delivery_code
    except TooManyRequests:
        return "its share"
    except Unavailable:
        return "all"
    return "found"


def test_lookups_that_nobody_waits_for_count_until_they_end_and_one_team_has_a_share_of_them() -> None:
    names = Blocked()
    destinations = Destinations((), None, names)
    told = [outcome_for(destinations, "strangers") for _ in range(3 * LOOKUPS_PER_TEAM)]
    assert told == ["timeout"] * LOOKUPS_PER_TEAM + ["its share"] * 2 * LOOKUPS_PER_TEAM
    assert outcome_for(destinations, "taxi", "quick.example") == "found"
    teams = [f"team-{n}" for n in range(LOOKUPS_AT_ONCE)]
    assert sum(outcome_for(destinations, t) == "timeout" for t in teams) == LOOKUPS_AT_ONCE - LOOKUPS_PER_TEAM
    assert outcome_for(destinations, "taxi", "quick.example") == "all"
    names.let_go.set()
    until(lambda: outcome_for(destinations, "strangers", "quick.example") == "found")


def test_a_lookup_that_breaks_gives_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[object] = []

    def breaks(*_: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(threading, "excepthook", broken.append)
    destinations = Destinations((), None, breaks)
    told = [outcome_for(destinations, "taxi", "quick.example") for _ in range(LOOKUPS_AT_ONCE + 1)]
    assert told == ["connection-failed"] * (LOOKUPS_AT_ONCE + 1)
    until(lambda: len(broken) == LOOKUPS_AT_ONCE + 1)


@pytest.mark.parametrize("network", ["::ffff:0:0/96", "64:ff9b::/96", "2002:a00::/24", "2001::/32"])
def test_a_network_whose_addresses_carry_others_cannot_be_allowed(network: str) -> None:
    with pytest.raises(InvalidRequest, match="PTK_WEBHOOK_NETWORKS") as caught:
        Destinations((network,), None, None)
    assert [option for option in OPTIONS if option in str(caught.value)] == []


def test_the_refusal_is_the_same_for_a_missing_and_an_internal_name_and_shows_no_address() -> None:
    messages = set()
    for addresses in (["10.20.30.40"], ["192.168.7.7"], ["127.0.0.1", PUBLIC]):
        with pytest.raises(InvalidRequest) as caught:
            HttpMessenger(resolver=answering(*addresses)).check_endpoint("https://vault.internal/")
        messages.add(str(caught.value))
    with pytest.raises(InvalidRequest) as caught:
        HttpMessenger(resolver=answering()).check_endpoint("https://missing.internal/")
    messages.add(str(caught.value))
    (message,) = messages
    assert not any(character.isdigit() for character in message)
    assert "was not found, or has an address that is not allowed" in message  # one text names both causes


def test_a_good_endpoint_passes_the_check_of_a_subscription() -> None:
    HttpMessenger(resolver=answering(PUBLIC)).check_endpoint("https://example.com/hooks?token=abc")


def _refusal(endpoint: str, *networks: str) -> str:
    with pytest.raises(EndpointRefused) as refused:
        Destinations(networks, None, lambda *_: []).destination(endpoint, 1.0)
    return str(refused.value)


@pytest.mark.parametrize("endpoint", ["ftp://example.org/x", "https://127.0.0.1/x", "https://localhost/x"])
def test_a_refusal_names_the_setting_and_nothing_of_the_network(endpoint: str) -> None:
    told = _refusal(endpoint)
    assert "PTK_WEBHOOK_NETWORKS" in told
    assert "Set it for ptk up, or for each relay and the API; in a home, for ptk subscribe too" in told
    assert told == _refusal(endpoint, "10.0.0.0/8")


def test_the_schemes_of_an_endpoint_are_named() -> None:
    told = _refusal("ftp://example.org/x")
    assert [form in told for form in ("https URL", "http URL", "redis-stream:<name>")] == [True] * 3
