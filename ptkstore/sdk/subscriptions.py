"""The client's part about subscribers: subscribe, follow what became of messages, repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ptklib.doc_pages import on_site
from ptkstore.application.delivery.read_deliveries import DeliveryState, NextAttempt
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.notices import code_page
from ptkstore.domain.subscriptions import Attempt, DeadLetter, Health, Subscription
from ptkstore.domain.times import utc
from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    from ptkstore.application.delivery.send_test_event import TriedEndpoint
    from ptkstore.sdk.service import StoreService

Document = dict[str, Any]

_FAILURES = {
    "connection-failed": "no connection",
    "redirect": "redirected, which is not followed",
    "bad-endpoint": "not sent: the endpoint's address is malformed",
    "not-allowed": "not sent: the team has no role that may subscribe",
    "no-secret": "not sent: the signing secret is missing",
    "failed": "not sent: the service failed",
    "stream-unavailable": "not appended: the server of streams does not answer",
    "stream-refused": "not appended: the server of streams refused",
}


@dataclass(frozen=True)
class Subscribed:
    """A new subscription; `secret` is shown this once and verifies the signatures of its messages."""

    id: str
    ptk_id: str
    endpoint: str
    secret: str


class SubscriptionMethods:
    """Methods of `Store` about subscriptions; the same here and over HTTP."""

    _service: StoreService

    def subscribe_to_ptk(self, ptk_id: str, rpc_endpoint: str) -> Subscribed:
        """Have every new version told to `rpc_endpoint`.

        Parameters
        ----------
        rpc_endpoint : str
            A URL that takes signed webhooks; their secret is returned this once. Or `redis-stream:<name>`, a stream in
            the service's Redis, which is not signed: its secret is empty.
        """
        subscription, secret = self._service.subscribe_to_ptk(ptk_id, rpc_endpoint)
        return Subscribed(subscription.id, ptk_id, rpc_endpoint, secret)

    def unsubscribe(self, subscription_id: str) -> None:
        """End a subscription."""
        self._service.unsubscribe(subscription_id)

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        """Tell subscribers of the newest version once more; returns how many will be told."""
        return self._service.notify_new_ptk_state(ptk_id)

    def wait_for_version(self, ptk_id: str, after: int, timeout_seconds: float = 30.0) -> int | None:
        """Wait for a version after this one to be online; its number, or None when the time is over.

        Raises
        ------
        UnknownName
            No such PTK.
        """
        split_ptk_id(ptk_id)
        return self._service.wait_for_version(ptk_id, after, timeout_seconds)

    def subscriptions(self, ptk_id: str | None = None) -> list[Document]:
        """List subscriptions, of one PTK or all: how far each has heard, `status`, and how its endpoint answers."""
        return [subscription_document(one) for one in self._service.subscriptions(ptk_id)]

    def deliveries(self, subscription_id: str) -> Document:
        """Show one subscription, with what it waits for and the versions that it missed.

        Returns
        -------
        dict
            How far it has heard and how its endpoint answers; `waiting_versions`, how many versions are online that it
            has not heard of; `next_attempts`, each with `version`, `attempt` and `at`; and `dead_letters`.
        """
        return deliveries_document(self._service.deliveries(subscription_id))

    def attempts(self, subscription_id: str) -> list[Document]:
        """List the attempts to deliver to a subscription, the newest first: the last 200, of the last 30 days.

        Returns
        -------
        list of dict
            `at`, `version`, `attempt`, `delivered`, the `code` of a failure, the `status` of an answer, and the
            `seconds` that it took, in tenths.
        """
        return [attempt_document(one) for one in self._service.attempts(subscription_id)]

    def rotate_subscription_secret(self, subscription_id: str, overlap_hours: float = 24.0) -> str:
        """Make a new signing secret, returned this once; for `overlap_hours` messages carry both signatures.

        Raises
        ------
        Conflict
            Too many secrets sign already; an overlap of 0 ends them all.
        """
        return self._service.rotate_secret(subscription_id, overlap_of(overlap_hours))

    def test_subscription(self, subscription_id: str) -> Document:
        """Send a signed test event of the type `ptk.subscription.test`, once; it is no version and no delivery.

        Returns
        -------
        dict
            `delivered`, and the `code` of the failure if the endpoint did not take it. `status` is what the endpoint
            answered, and `seconds` how long that took. No list of attempts has them.

        Raises
        ------
        Refused
            The subscription is disabled, or its team has no role that may subscribe.
        """
        return tested_document(self._service.send_test_event(subscription_id))

    def redeliver(
        self, subscription_id: str, version: int | None = None, since: datetime | str | None = None
    ) -> int:
        """Send dead letters again: of one version, all since a time, or all; returns how many wait for it.

        Messages are marked `redelivered` and keep their ids, so that a receiver knows those it has.

        Raises
        ------
        UnknownName
            No such subscription, or that version is no dead letter.
        Refused
            The subscription is disabled.
        """
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise InvalidRequest("a version is a whole number")
        return self._service.redeliver(subscription_id, version, None if since is None else utc(since))

    def disable_subscription(self, subscription_id: str) -> None:
        """Send nothing to a subscription until it is enabled again; versions wait for that."""
        self._service.disable_subscription(subscription_id)

    def enable_subscription(self, subscription_id: str, *, redeliver: bool = True) -> None:
        """Send to a disabled subscription again, from the version on where it stopped, and its dead letters too."""
        self._service.enable_subscription(subscription_id, redelivering=redeliver)


def overlap_of(hours: float) -> timedelta:
    """Read an overlap from a number of hours, finite and not negative."""
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not 0 <= hours <= 24 * 366:
        raise InvalidRequest("an overlap is a number of hours, 0 or more")
    return timedelta(hours=hours)


def subscription_document(followed: DeliveryState) -> Document:
    """Write a subscription in a list."""
    one, health = followed.subscription, followed.subscription.health
    return {
        "id": one.id,
        "ptk_id": one.ptk_id,
        "team": one.team,
        "endpoint": one.endpoint,
        "key": one.stream_key,
        "heard_of_version": followed.heard_of_version,
        "status": one.status,
        "failures": health.failures,
        "failing_since": _text(health.failing_since),
        "last_success": _text(health.last_success),
        "last_code": health.last_code,
        "disabled_at": _text(one.disabled_at),
        "disabled_code": one.disabled_code,
        "missed": followed.missed,
    }


def tested_document(tested: TriedEndpoint) -> Document:
    """Write how an endpoint took a test event."""
    return {
        "id": tested.subscription_id,
        "message_id": tested.message_id,
        "delivered": tested.delivered,
        "code": tested.code,
        **_answer(tested.status, tested.milliseconds),
    }


def attempt_document(attempt: Attempt) -> Document:
    """Write an attempt in the history of a subscription."""
    return {
        "sequence": attempt.sequence,
        "at": attempt.at.isoformat(),
        "version": attempt.number,
        "attempt": attempt.attempt,
        "redelivered": attempt.redelivered,
        "delivered": attempt.code is None,
        "code": attempt.code,
        **_answer(attempt.status, attempt.milliseconds),
    }


def _answer(status: int | None, milliseconds: int | None) -> Document:
    """What an endpoint answered, and after how long."""
    return {"status": status, "seconds": None if milliseconds is None else milliseconds / 1000}


def milliseconds_of(document: Mapping[str, Any]) -> int | None:
    """Read how long an endpoint took; an older server does not tell it of a test event."""
    seconds = document.get("seconds")
    return None if seconds is None else round(seconds * 1000)


def answer_in_words(attempt: Mapping[str, Any]) -> str:
    """Say how the attempt of a document ended."""
    code, status, seconds = attempt["code"], attempt["status"], attempt["seconds"]
    took = "" if seconds is None else f" in {seconds:g} s" if seconds else " in under 0.1 s"
    if attempt["delivered"]:
        return "appended to the stream" if status is None else f"delivered: {status}{took}"
    if code == "timeout":
        return f"no answer{took}"
    if status is not None:
        return f"refused: {status}{took}"
    return _FAILURES.get(code, str(code))


def waiting_in_words(document: Mapping[str, Any], now: datetime) -> list[str]:
    """Say which versions wait, which attempt at them is next and when, to the second in UTC."""
    lines = []
    for one in document["next_attempts"]:
        at = datetime.fromisoformat(one["at"])
        when = f"at {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if at > now else "now"
        what = f"version {one['version']}{', a dead letter,' if one['redelivered'] else ''}"
        lines.append(f"{what} waits for attempt {one['attempt']}, {when}")
    n_waiting, first = document["waiting_versions"], document["heard_of_version"] + 1
    if document["disabled_at"] is not None:
        if n_waiting:
            lines.append(f"{_versions(first, n_waiting)} until the subscription is enabled")
    elif n_waiting > 1:
        lines.append(f"{_versions(first + 1, n_waiting - 1)} until version {first} is done")
    return lines


def _versions(first: int, n: int) -> str:
    return f"version {first} waits" if n == 1 else f"versions {first} to {first + n - 1} wait"


def attempt_of(subscription_id: str, document: Mapping[str, Any]) -> Attempt:
    """Read what the document says."""
    return Attempt(
        subscription_id,
        document["sequence"],
        datetime.fromisoformat(document["at"]),
        document["version"],
        document["attempt"],
        document["redelivered"],
        document["code"],
        document["status"],
        milliseconds_of(document),
    )


def deliveries_document(followed: DeliveryState) -> Document:
    """Write a subscription with the versions that wait, its next attempts and its dead letters."""
    return {
        **subscription_document(followed),
        "waiting_versions": followed.waiting_versions,
        "next_attempts": [
            {
                "version": one.version,
                "attempt": one.attempt,
                "at": one.at.isoformat(),
                "redelivered": one.redelivered,
            }
            for one in followed.next_attempts
        ],
        "dead_letters": [
            {
                "version": letter.number,
                "code": letter.code,
                "at": _text(letter.at),
                "told": letter.told,
                "redelivery_asked_at": _text(letter.asked_at),
            }
            for letter in followed.dead_letters
        ],
    }


def wire_deliveries(followed: DeliveryState) -> Document:
    """Write the same over HTTP, with the page of each code."""
    document = deliveries_document(followed)
    letters = [{**letter, "page": on_site(code_page(letter["code"]))} for letter in document["dead_letters"]]
    return {**document, "dead_letters": letters}


def followed_of(document: Mapping[str, Any]) -> DeliveryState:
    """Read what either document says; in a list, dead letters are counted only."""
    health = Health(
        document["failures"],
        _time(document["failing_since"]),
        _time(document["last_success"]),
        document["last_code"],
    )
    subscription = Subscription(
        document["id"],
        document["ptk_id"],
        document["endpoint"],
        document.get("team", ""),
        health=health,
        disabled_at=_time(document["disabled_at"]),
        disabled_code=document["disabled_code"],
    )
    letters = tuple(
        DeadLetter(
            subscription.id,
            one["version"],
            one["code"],
            datetime.fromisoformat(one["at"]),
            one["told"],
            _time(one["redelivery_asked_at"]),
        )
        for one in document.get("dead_letters", ())
    )
    attempts = tuple(
        NextAttempt(one["version"], one["attempt"], datetime.fromisoformat(one["at"]), one["redelivered"])
        for one in document.get("next_attempts", ())
    )
    waiting = document.get("waiting_versions", 0)  # neither is in a list, or told by an older service
    heard = document["heard_of_version"]
    return DeliveryState(subscription, heard, document["missed"], letters, waiting, attempts)


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
