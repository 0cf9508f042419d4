"""Which endpoints may be called: the form of the URL, then the addresses that its host has."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_network
from urllib.parse import urlsplit

from ssrfguard import AddressTable, Block, Policy, Reach, Resolver, Target, resolve
from ssrfguard.errors import BlockedAddressError, BlockedURLError

from ptkstore.errors import InvalidRequest

Answer = tuple[int, int, int, str, tuple[object, ...]]

LONGEST_ENDPOINT = 2048
HTTP_PORT = 80
HTTPS_PORT = 443
ADDRESSES_TRIED = 4
NOWHERE = AddressTable(  # denies all that no allowed network permits
    tuple(
        Block(ip_network(network), "Address of no allowed network", "policy", Reach.DENIED)
        for network in ("0.0.0.0/0", "::/0")
    )
)

_FORMS = (  # the same whatever is allowed, which says nothing of our network
    "an endpoint is an https URL, an http URL to a network that an administrator allows by PTK_WEBHOOK_NETWORKS, "
    "or redis-stream:<name>"
)


class EndpointRefused(InvalidRequest):
    """The endpoint may not be called, or cannot be now.

    `delivery_code` says why: to the administrator, and to the endpoint's owner only where it is about the URL itself.
    """

    def __init__(self, delivery_code: str, message: str) -> None:
        super().__init__(message)
        self.delivery_code = delivery_code


@dataclass(frozen=True, slots=True)
class Destination:
    """Where one attempt may connect to: these addresses were checked, and nothing is looked up again."""

    policy: Policy
    answers: tuple[Answer, ...]

    def resolver(self, *_: object) -> Sequence[Answer]:
        """Takes the place of the name lookup, so that the checked addresses are the ones connected to."""
        return self.answers


class Destinations:
    """What the administrator's networks and ports permit.

    Public addresses are reached by https only; an address in an allowed network also by plain http. A name
    that has a permitted and a refused address is refused.
    """

    def __init__(
        self,
        allowed_networks: Collection[str],
        allowed_ports: Collection[int] | None,
        resolver: Resolver | None,
    ) -> None:
        self._lookup: Resolver = resolver if resolver is not None else socket.getaddrinfo
        self._any_http_port = allowed_ports is None
        public = Policy(
            allowed_schemes=frozenset({"https"}),
            allowed_networks=tuple(ip_network(network) for network in allowed_networks),
            allowed_ports=frozenset(allowed_ports if allowed_ports is not None else (HTTPS_PORT,)),
            max_redirects=0,
            max_connection_attempts=ADDRESSES_TRIED,
            max_url_length=LONGEST_ENDPOINT,
        )
        self._policies = {"https": public}
        if allowed_networks:
            self._policies["http"] = replace(
                public, allowed_schemes=frozenset({"http"}), denied_networks=NOWHERE
            )

    def destination(self, endpoint: str, within_seconds: float) -> Destination:
        """Where an attempt at the endpoint may connect to, by one lookup.

        Raises
        ------
        EndpointRefused
            With the code `bad-endpoint` for its form, `refused-address` for where it leads,
            `connection-failed` for a name without addresses, `timeout` for a lookup that takes too long.
        """
        target, policy = self.check_form(endpoint)
        return self.checked(target, policy, self._look_up(target, within_seconds))

    def checked(self, target: Target, policy: Policy, answers: tuple[Answer, ...]) -> Destination:
        """The destination, if policy permits every one of these addresses; `EndpointRefused` as above."""
        if not answers:
            raise unreachable("connection-failed")
        try:
            resolve(target, policy=policy, resolver=lambda *_: answers)
        except BlockedAddressError:
            raise unreachable("refused-address") from None
        return Destination(policy, answers)

    def check_form(self, endpoint: str) -> tuple[Target, Policy]:
        """Host and port of a well formed endpoint, and what is permitted there; `EndpointRefused` as above."""
        scheme = endpoint[:5].lower().partition(":")[0]
        policy = self._policies.get(scheme)
        if policy is None:
            raise EndpointRefused("bad-endpoint", _FORMS)
        if scheme == "http" and self._any_http_port:
            policy = replace(policy, allowed_ports=_port_of(endpoint))
        try:
            return policy.check_url(endpoint), policy
        except BlockedURLError as refused:
            if isinstance(refused.__cause__, BlockedAddressError):
                raise unreachable("refused-address") from None
            raise EndpointRefused("bad-endpoint", f"the endpoint cannot be used: {refused.reason}") from None

    def look_up(self, target: Target, then: Callable[[tuple[Answer, ...]], None]) -> None:
        """One lookup, in a thread: the system's takes no time limit and cannot be cancelled. None found: no answers."""

        def ask() -> None:
            answers: tuple[Answer, ...] = ()
            with suppress(OSError, UnicodeError):
                answers = tuple(self._lookup(target.host, target.port, 0, socket.SOCK_STREAM, 0, 0))
            then(answers)

        threading.Thread(target=ask, name="webhook-lookup", daemon=True).start()

    def _look_up(self, target: Target, within_seconds: float) -> tuple[Answer, ...]:
        outcome: queue.SimpleQueue[tuple[Answer, ...]] = queue.SimpleQueue()
        self.look_up(target, outcome.put)
        try:
            return outcome.get(timeout=max(0.0, within_seconds))
        except queue.Empty:
            raise unreachable("timeout") from None


def _port_of(endpoint: str) -> frozenset[int]:
    try:
        return frozenset({urlsplit(endpoint).port or HTTP_PORT})
    except ValueError:  # the policy says what is wrong with it
        return frozenset({HTTP_PORT})


def unreachable(delivery_code: str) -> EndpointRefused:
    """One text for all: whoever may name endpoints must not learn the names and addresses of our network."""
    return EndpointRefused(
        delivery_code,
        "the endpoint's host must have public addresses only, or addresses in a network that an administrator "
        "allows by PTK_WEBHOOK_NETWORKS (plain http works only there)",
    )
