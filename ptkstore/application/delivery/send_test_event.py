"""Send a test event to an endpoint: signed like a version, and of a type of its own."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from ptklib.canonical_json import canonical_json
from ptkstore.application.delivery.deliveries import may_hear
from ptkstore.application.operations.team_shares import TeamShares
from ptkstore.domain.subscriptions import Subscription, event_of_test, message_id_of_test, rounded_duration
from ptkstore.errors import InvalidRequest, Refused, UnknownName
from ptkstore.ports.catalog import Read
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.messages import Message, Messenger, NotDelivered
from ptkstore.ports.runtime import Clock

AT_ONCE, AT_ONCE_OF_A_TEAM = 6, 2
"""Test events that are being sent: each holds a thread for as long as the endpoint takes."""


def shares_of_tests() -> TeamShares:
    """Return the places of test events that are sent at once."""
    return TeamShares(
        AT_ONCE,
        AT_ONCE_OF_A_TEAM,
        team_full=f"{AT_ONCE_OF_A_TEAM} test events of this team are being sent, and no more at once",
        all_taken=f"{AT_ONCE} test events are being sent, and no more at once",
    )


@dataclass(frozen=True, slots=True)
class TriedEndpoint:
    """How an endpoint took a test event: `code` is None for success, else as an attempt at a version has it.

    So are its `status` and how long it took.
    """

    subscription_id: str
    message_id: str
    code: str | None
    status: int | None = None
    milliseconds: int | None = None

    @property
    def delivered(self) -> bool:
        """Whether the endpoint took it."""
        return self.code is None


def send_test_event(
    subscription_id: str,
    *,
    begin: Read,
    clock: Clock,
    keys: KeyStore,
    messenger: Messenger,
    shares: TeamShares,
) -> TriedEndpoint:
    """Make one attempt at a test event, with the secrets that sign versions now.

    It is no delivery: it is not retried, leaves no dead letter, and changes neither the subscription's health nor what
    it hears next.

    Raises
    ------
    InvalidRequest
        The subscription reads a Redis stream; or its endpoint is not allowed any more.
    Refused
        The subscription is disabled, has no secret, or its team has no role that may subscribe.
    TooManyRequests
        Many host names, or test events, of the team are under way.
    Unavailable
        As many test events as may be are being sent.
    """
    with begin() as uow:
        subscription = uow.subscriptions.get(subscription_id)
        hears = may_hear(uow, subscription.team, subscription.ptk_id)
    if subscription.stream_key is not None:
        raise InvalidRequest("a Redis stream has no endpoint that could be tested")
    if subscription.disabled_at is not None:
        raise Refused(f"subscription {subscription_id} is disabled; enable it first")
    if not hears:
        raise Refused(f"the team of subscription {subscription_id} has no role that may subscribe")
    shares.take(subscription.team)
    try:
        return _sent(subscription, clock=clock, keys=keys, messenger=messenger)
    finally:
        shares.give_back(subscription.team)


def _sent(subscription: Subscription, *, clock: Clock, keys: KeyStore, messenger: Messenger) -> TriedEndpoint:
    subscription_id, now = subscription.id, clock.now()
    messenger.check_endpoint(subscription.endpoint, subscription.team)  # under the team's share of lookups
    try:
        signing = keys.secrets_of(subscription_id, now)
    except UnknownName:
        raise Refused(f"subscription {subscription_id} has no secret; rotate it") from None
    name = message_id_of_test(subscription_id, secrets.token_hex(8))
    body = canonical_json(event_of_test(subscription, now)).encode()
    tried = messenger.send(Message(name, subscription.endpoint, name, body, signing, subscription.team))
    code = tried.code if isinstance(tried, NotDelivered) else None
    return TriedEndpoint(subscription_id, name, code, tried.status, rounded_duration(tried.seconds))
