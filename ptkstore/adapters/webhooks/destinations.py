"""The endpoints that may be called: the form of the URL, then the addresses that its host has."""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from ssrfguard import Policy, Resolver, Target, resolve
from ssrfguard.errors import BlockedAddressError, BlockedURLError

from ptkstore.adapters.webhooks.addresses import NOWHERE, PUBLIC, isatap_target
from ptkstore.application.operations.team_shares import TeamShares
from ptkstore.errors import InvalidRequest, Unavailable

Answer = tuple[int, int, int, str, tuple[object, ...]]

LONGEST_ENDPOINT = 2048
HTTP_PORT = 80
HTTPS_PORT = 443
ADDRESSES_TRIED = 4
LOOKUPS_AT_ONCE = 16  # that callers wait for
LOOKUPS_PER_TEAM = 4
_RETRY_AFTER_SECONDS = 5

_SETTING = "Set it for ptk up, or for each relay and the API; in a home, for ptk subscribe too"
_FORMS = (  # the same whatever is allowed, which says nothing of our network
    "an endpoint is an https URL, redis-stream:<name>, or an http URL to a network in PTK_WEBHOOK_NETWORKS, which an "
    f"administrator sets. {_SETTING}"
)
_CARRIES_IPV4 = (
    "PTK_WEBHOOK_NETWORKS contains an IPv6 network whose addresses carry IPv4 addresses (mapped, NAT64, 6to4 or "
    "Teredo); name the IPv4 networks inside it instead"
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
    """The addresses that one attempt may connect to: they were checked, and nothing is looked up again."""

    policy: Policy
    answers: tuple[Answer, ...]

    def resolver(self, *_: object) -> Sequence[Answer]:
        """Replace the name lookup, so that connections go to the checked addresses."""
        return self.answers


class Destinations:
    """The networks and ports that the administrator permits.

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
        # A lookup cannot be cancelled: it keeps its place until it ends, also when nobody waits for its answer.
        self._shares = TeamShares(
            LOOKUPS_AT_ONCE,
            LOOKUPS_PER_TEAM,
            team_full=f"{LOOKUPS_PER_TEAM} host names of this team are being looked up, and no more at once; "
            "wait for their answers, or use host names that are answered quickly",
            all_taken="many host names are being looked up; send this request again later",
            retry_after=_RETRY_AFTER_SECONDS,
        )
        self._any_http_port = allowed_ports is None
        try:
            public = Policy(
                allowed_schemes=frozenset({"https"}),
                allowed_networks=tuple(ip_network(network) for network in allowed_networks),
                denied_networks=PUBLIC,
                allowed_ports=frozenset(allowed_ports if allowed_ports is not None else (HTTPS_PORT,)),
                max_redirects=0,
                max_connection_attempts=ADDRESSES_TRIED,
                max_url_length=LONGEST_ENDPOINT,
            )
        except ValueError:
            raise InvalidRequest(_CARRIES_IPV4) from None
        self._policies = {"https": public}
        if allowed_networks:
            self._policies["http"] = replace(
                public, allowed_schemes=frozenset({"http"}), denied_networks=NOWHERE
            )

    def destination(
        self, endpoint: str, within_seconds: float, *, asked_by: str | None = None
    ) -> Destination:
        """Find out where an attempt at the endpoint may connect to, by one lookup.

        `asked_by` is the team that named the endpoint and waits: its lookups count against its share.

        Raises
        ------
        EndpointRefused
            With the code `bad-endpoint` for its form, `refused-address` for where it leads,
            `connection-failed` for a name without addresses, `timeout` for a lookup that takes too long.
        TooManyRequests, Unavailable
            As many lookups as one team, or all, may have at once have not ended.
        """
        target, policy = self.check_form(endpoint)
        return self.checked(target, policy, self._look_up(target, within_seconds, asked_by))

    def checked(self, target: Target, policy: Policy, answers: tuple[Answer, ...]) -> Destination:
        """Return the destination, if policy permits every one of these addresses; `EndpointRefused` as above."""
        if not answers:
            raise unreachable("connection-failed")
        try:
            resolve(target, policy=policy, resolver=lambda *_: answers)
        except BlockedAddressError:
            raise unreachable("refused-address") from None
        for *_, address in answers:
            _refuse_isatap(str(address[0]), policy)
        return Destination(policy, answers)

    def check_form(self, endpoint: str) -> tuple[Target, Policy]:
        """Read host and port of a well formed endpoint, and what is permitted there; `EndpointRefused` as above."""
        scheme = endpoint[:5].lower().partition(":")[0]
        policy = self._policies.get(scheme)
        if policy is None:
            raise _misformed()
        if scheme == "http" and self._any_http_port:
            policy = replace(policy, allowed_ports=_port_of(endpoint))
        try:
            target = policy.check_url(endpoint)
        except BlockedURLError as refused:
            if isinstance(refused.__cause__, BlockedAddressError):
                raise unreachable("refused-address") from None
            raise _misformed(_fault_in(endpoint, policy.allowed_ports)) from None
        if target.is_literal_address:
            _refuse_isatap(target.host, policy)
        return target, policy

    def look_up(self, target: Target, then: Callable[[tuple[Answer, ...]], None]) -> None:
        """Look a host up, in a thread: the system's way has no time limit and cannot be cancelled. None: no answers."""

        def ask() -> None:
            answers: tuple[Answer, ...] = ()
            try:
                with suppress(OSError, UnicodeError):
                    answers = tuple(self._lookup(target.host, target.port, 0, socket.SOCK_STREAM, 0, 0))
            finally:  # whatever happened, or its place would never be free again
                then(answers)

        threading.Thread(target=ask, name="webhook-lookup", daemon=True).start()

    def _look_up(self, target: Target, within_seconds: float, asked_by: str | None) -> tuple[Answer, ...]:
        outcome: queue.SimpleQueue[tuple[Answer, ...]] = queue.SimpleQueue()

        def ended(answers: tuple[Answer, ...]) -> None:
            if asked_by is not None:
                self._shares.give_back(asked_by)
            outcome.put(answers)

        if asked_by is not None:
            self._shares.take(asked_by)
        try:
            self.look_up(target, ended)
        except RuntimeError:  # no thread could be started
            if asked_by is not None:
                self._shares.give_back(asked_by)
            raise Unavailable("no host name can be looked up now; send this request again later") from None
        try:
            return outcome.get(timeout=max(0.0, within_seconds))
        except queue.Empty:
            raise unreachable("timeout") from None


def _refuse_isatap(address: str, policy: Policy) -> None:
    """Refuse an ISATAP address, in whatever prefix, that leads to an IPv4 address which policy refuses."""
    target = isatap_target(ip_address(address.partition("%")[0]))
    if target is not None and not policy.permits_address(target):
        raise unreachable("refused-address")


def _misformed(fault: str = "") -> EndpointRefused:
    return EndpointRefused("bad-endpoint", f"{fault}; {_FORMS}" if fault else _FORMS)


def _fault_in(endpoint: str, ports: Collection[int]) -> str:
    """Describe what is wrong with the form of a URL, without a word of it."""
    if len(endpoint) > LONGEST_ENDPOINT:
        return f"the endpoint is longer than {LONGEST_ENDPOINT} characters"
    if not endpoint.isprintable():
        return "the endpoint contains a character that no URL contains"
    try:
        parts = urlsplit(endpoint)
        port, host = parts.port, parts.hostname
    except ValueError:
        return "the endpoint's host or port cannot be read"
    if "@" in parts.netloc:
        return "the endpoint contains a user name or password; receivers check the signature instead"
    if not host:
        return "the endpoint names no host"
    if port == 0:
        return "there is no port 0"
    if (port or (HTTPS_PORT if parts.scheme == "https" else HTTP_PORT)) not in ports:
        return f"the endpoint's port is not allowed; allowed is {' or '.join(map(str, sorted(ports)))}"
    return "the endpoint's host is neither a host name nor an address"


def _port_of(endpoint: str) -> frozenset[int]:
    try:
        return frozenset({urlsplit(endpoint).port or HTTP_PORT})
    except ValueError:  # the policy says what is wrong with it
        return frozenset({HTTP_PORT})


def unreachable(delivery_code: str) -> EndpointRefused:
    """Make an error of one text for all: whoever names endpoints must not learn names and addresses of our network."""
    return EndpointRefused(
        delivery_code,
        "the endpoint's host was not found, or has an address that is not allowed. It must have public addresses only, "
        f"or addresses in a network of PTK_WEBHOOK_NETWORKS; plain http works only there. {_SETTING}",
    )
