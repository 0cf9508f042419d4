"""Subscriptions: who hears of new states, in which order, for how long it is tried, and what happens then."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ptkstore.domain.jobs import backoff
from ptkstore.domain.versions.versions import Version
from ptkstore.errors import InvalidRequest

EVENT_TYPE = "ptk.state.published"
TEST_TYPE = "ptk.subscription.test"
FIRST_RETRY = timedelta(seconds=1)
LONGEST_RETRY = timedelta(hours=4)
GIVE_UP_AFTER_ATTEMPTS = 36  # about four days of retries at the waits above
JITTER = (
    0.25  # waits are up to so much shorter or longer: an endpoint that comes back is not met by all at once
)
DISABLE_AFTER = timedelta(days=10)  # of failures only: longer than two versions with the longest waits
GONE = "gone"  # the endpoint answered 410: it wants no message ever again
NO_ROLE = "not-allowed"
ON_REQUEST = "on-request"
USUAL_OVERLAP = timedelta(days=1)  # for which a secret that was replaced still signs
LONGEST_OVERLAP = timedelta(days=30)
ATTEMPTS_KEPT = 200  # of each subscription, the newest
ATTEMPTS_EXPIRE_AFTER = timedelta(days=30)
_DURATION_STEP = 100  # milliseconds
MISSED_TOLD = 100  # dead letters that one message tells of; the list has them all

STREAM_SCHEME = "redis-stream:"
STREAM_PREFIX = "ptk:events:"
STREAM_LENGTH = 10_000
_STREAM_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Health:
    """How an endpoint has answered lately; `failures` counts those since the last success."""

    failures: int = 0
    failing_since: datetime | None = None
    last_success: datetime | None = None
    last_code: str | None = None


@dataclass(frozen=True, slots=True)
class Subscription:
    """A team's wish to hear of new versions of one PTK; made in the store's home, it belongs to no team.

    `endpoint` is a URL, or `redis-stream:<name>`. A disabled subscription is sent nothing until it is enabled again.
    `attempts` counts all attempts so far, and numbers the next in its history.
    """

    id: str
    ptk_id: str
    endpoint: str
    team: str = ""
    health: Health = Health()
    disabled_at: datetime | None = None
    disabled_code: str | None = None
    attempts: int = 0

    @property
    def status(self) -> str:
        """`ok`, `failing` or `disabled`."""
        if self.disabled_at is not None:
            return "disabled"
        return "failing" if self.health.failures else "ok"

    @property
    def stream_key(self) -> str | None:
        """The key of the Redis stream that it appends to; None for a webhook. No team writes to another's."""
        name = stream_name(self.endpoint)
        return None if name is None else f"{STREAM_PREFIX}{self.team or '-'}:{name}"

    def after(self, code: str | None, now: datetime) -> Subscription:
        """Return the subscription after an attempt that ended with this code, None for success.

        It is disabled once no further message should be tried.
        """
        if code is None:
            return replace(self, health=Health(last_success=now))
        since = self.health.failing_since or now
        failing = replace(
            self, health=Health(self.health.failures + 1, since, self.health.last_success, code)
        )
        if code == GONE or now - since >= DISABLE_AFTER:
            return replace(failing, disabled_at=now, disabled_code=code)
        return failing

    def enabled(self) -> Subscription:
        """Return the subscription, sent to again, with its past forgiven."""
        return replace(
            self, health=Health(last_success=self.health.last_success), disabled_at=None, disabled_code=None
        )


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A version that was not delivered.

    `told`: a later message has said so. `asked_at`: it is to be sent again.
    """

    subscription_id: str
    number: int
    code: str
    at: datetime
    told: bool = False
    asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a delivery, in the history of its subscription: no body, no secret, no address.

    `sequence` counts the attempts of the subscription, `attempt` those at this version since it was due. `code` says
    why it failed, None that it was delivered. `status` is what an endpoint answered, if it did.
    """

    subscription_id: str
    sequence: int
    at: datetime
    number: int
    attempt: int
    redelivered: bool
    code: str | None = None
    status: int | None = None
    milliseconds: int | None = None


def rounded_duration(seconds: float | None) -> int | None:
    """Return a duration in milliseconds, rounded to tenths of a second."""
    return None if seconds is None else round(seconds * 1000 / _DURATION_STEP) * _DURATION_STEP


def stream_name(endpoint: str) -> str | None:
    """Return the name in `redis-stream:<name>`, None for another endpoint.

    Raises
    ------
    InvalidRequest
        It is no name.
    """
    if not endpoint.startswith(STREAM_SCHEME):
        return None
    name = endpoint.removeprefix(STREAM_SCHEME)
    if not _STREAM_NAME.fullmatch(name):
        raise InvalidRequest(
            "a stream's name has 1 to 63 small letters, digits, '-' or '_', the first a letter"
        )
    return name


def message_id(subscription_id: str, number: int) -> str:
    """Return the `webhook-id`: the same for every attempt at one delivery, redeliveries included."""
    return f"msg_{subscription_id}_{number:08d}"


def message_id_of_test(subscription_id: str, name: str) -> str:
    """Return the `webhook-id` of a test event, which no version of any subscription has."""
    return f"test_{subscription_id}_{name}"


def event_of_test(subscription: Subscription, now: datetime) -> Mapping[str, Any]:
    """Return the body of a test event: it names the subscription, and no version, state or manifest."""
    data = {"subscription_id": subscription.id, "ptk_id": subscription.ptk_id}
    return {"type": TEST_TYPE, "timestamp": now.isoformat(), "data": data}


def retry_wait(message: str, attempt: int, requested: timedelta | None = None) -> timedelta:
    """Return the wait after a failed attempt: doubling from `FIRST_RETRY` to `LONGEST_RETRY`, with jitter.

    The jitter is a function of message and attempt: subscriptions differ, and nothing has to be drawn. The endpoint's
    own wish (`requested`) makes the wait longer, up to `LONGEST_RETRY` and its jitter, and never shorter.
    """
    digest = hashlib.sha256(f"{message}/{attempt}".encode()).digest()
    part = int.from_bytes(digest[:8], "big") / 2**64
    usual = backoff(attempt, first=FIRST_RETRY, most=LONGEST_RETRY) * (1 + JITTER * (2 * part - 1))
    if requested is None:
        return usual
    return max(usual, min(requested, LONGEST_RETRY) * (1 + JITTER * part))


def event_of(
    version: Version,
    manifest_url: str,
    *,
    missed: Sequence[DeadLetter] = (),
    redelivered: bool = False,
) -> Mapping[str, Any]:
    """Return the thin body of a notification: the place of the state and its promise, no feature values.

    `missed` tells the subscriber which earlier versions became dead letters; `redelivered` marks a message that was
    one, and may come after later versions.
    """
    content = version.content
    data: dict[str, Any] = {
        "ptk_id": version.ptk_id,
        "version": version.number,
        "manifest_url": manifest_url,
        "sha256": version.sha256,
        "windows": {
            "oldest": content["oldest_contributing_window"],
            "newest": content["newest_contributing_window"],
        },
        "guarantee": content["guarantee"],
    }
    if "verdict" in content:
        data["verdict"] = content["verdict"]
    if missed:
        data["missed"] = [{"version": letter.number, "code": letter.code} for letter in missed[-MISSED_TOLD:]]
    if redelivered:
        data["redelivered"] = True
    return {"type": EVENT_TYPE, "timestamp": version.elected_at.isoformat(), "data": data}
