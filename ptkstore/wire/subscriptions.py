"""Subscriptions and what became of their messages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from ptkstore.wire.base import Instant, PtkId, Time, Wire
from ptkstore.wire.notices import CodePage


class SubscriptionIn(
    Wire,
    json_schema_extra={
        "examples": [{"ptk_id": "taxi.speed", "endpoint": "https://consumer.example/hooks/ptk"}]
    },
):
    """An endpoint that is to hear of every new version of a PTK.

    A URL that takes signed webhooks, or `redis-stream:<name>`: a stream in the service's Redis.
    """

    ptk_id: PtkId
    endpoint: Annotated[str, StringConstraints(min_length=8, max_length=2_000)]


class SubscriptionOut(Wire):
    """A subscription: which version it has heard of last, and how its endpoint answers."""

    id: str
    ptk_id: str
    team: Annotated[str, Field(description="the team that owns it; empty if it was made in the store's home")]
    endpoint: str
    key: Annotated[str | None, Field(description="of the stream in Redis; null for a webhook")]
    heard_of_version: int
    status: Annotated[str, Field(description="`ok`, `failing` or `disabled`")]
    failures: Annotated[int, Field(description="since the last success")]
    failing_since: Instant | None
    last_success: Instant | None
    last_code: Annotated[str | None, Field(description="how the last attempt failed")]
    disabled_at: Instant | None
    disabled_code: str | None
    missed: Annotated[int, Field(description="dead letters")]


class Subscribed(Wire):
    """A new subscription. `secret` verifies its messages and is shown this once: an answer replayed has none."""

    id: str
    ptk_id: str
    endpoint: str
    secret: str | None


class RotateSecretIn(Wire, json_schema_extra={"examples": [{"overlap_hours": 24}]}):
    """For how long messages are signed with the old secret too."""

    overlap_hours: Annotated[float, Field(ge=0, le=720)] = 24.0


class RotatedSecret(Wire):
    """A subscription's new secret, shown this once."""

    id: str
    secret: str


class Tested(Wire):
    """How the endpoint took a test event."""

    id: str
    message_id: Annotated[str, Field(description="the `webhook-id`; no version has it")]
    delivered: bool
    code: Annotated[
        str | None, Field(description="why it was not delivered, as attempts at versions have it")
    ]
    status: Annotated[int | None, Field(description="what the endpoint answered; null without an answer")]
    seconds: Annotated[
        float | None, Field(description="to the answer or the timeout, in tenths; null if there was neither")
    ]


class RedeliverIn(Wire, json_schema_extra={"examples": [{"version": 7}]}):
    """The dead letters to send again: of one version, those since a time, or all."""

    version: Annotated[int, Field(ge=1, le=10**8 - 1)] | None = None
    since: Time | None = None


class Redelivering(Wire):
    """How many dead letters wait to be sent again."""

    dead_letters: int


class EnableIn(Wire, json_schema_extra={"examples": [{"redeliver": True}]}):
    """Whether dead letters are sent again too."""

    redeliver: bool = True


class DeadLetterOut(Wire):
    """A version that was not delivered."""

    version: int
    code: str
    at: Instant
    told: Annotated[bool, Field(description="a later message has said so, as `missed`")]
    redelivery_asked_at: Instant | None
    page: CodePage


class AttemptOut(Wire):
    """One attempt to deliver a version."""

    sequence: Annotated[int, Field(description="counts the attempts of this subscription")]
    at: Instant
    version: int
    attempt: Annotated[int, Field(description="counts the attempts at this version since it was due")]
    redelivered: Annotated[bool, Field(description="a dead letter that was sent again")]
    delivered: bool
    code: Annotated[str | None, Field(description="why it was not delivered")]
    status: Annotated[int | None, Field(description="of the endpoint's answer, if it answered")]
    seconds: Annotated[
        float | None, Field(description="until the answer or the timeout, in tenths; null for other failures")
    ]


class NextAttemptOut(Wire):
    """The next attempt to deliver a version, or the one that is being made."""

    version: int
    attempt: Annotated[int, Field(description="counts the attempts at this version since it was due")]
    at: Annotated[Instant, Field(description="where this is past, it is made soon or is being made")]
    redelivered: Annotated[bool, Field(description="it is a dead letter that is sent again")]


class Deliveries(SubscriptionOut):
    """How far a subscription has heard, what it waits for, and what it missed: all, or a page of that."""

    waiting_versions: Annotated[
        int, Field(description="versions that are online and that it has not heard of yet")
    ]
    next_attempts: Annotated[
        list[NextAttemptOut],
        Field(description="at the first of them, and at the first dead letter that is sent again"),
    ]
    dead_letters: Annotated[list[DeadLetterOut], Field(description="by version")]
    next_cursor: str | None
