"""Subscriptions and what became of their messages."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from ptkstore.wire.base import PtkId, Wire


class SubscriptionIn(
    Wire,
    json_schema_extra={
        "examples": [{"ptk_id": "taxi.speed", "endpoint": "https://consumer.example/hooks/ptk"}]
    },
):
    """An endpoint that is to hear of every new version of a PTK."""

    ptk_id: PtkId
    endpoint: Annotated[str, StringConstraints(min_length=8, max_length=2_000)]


class SubscriptionOut(Wire):
    """A subscription, and which version it has heard of last."""

    id: str
    ptk_id: str
    endpoint: str
    heard_of_version: int


class Subscribed(Wire):
    """A new subscription. `secret` verifies its messages and is shown this once: an answer replayed has none."""

    id: str
    ptk_id: str
    endpoint: str
    secret: str | None


class DeadLetter(Wire):
    """A version that could not be delivered within the retry schedule."""

    version: int
    code: str


class Deliveries(Wire):
    """How far a subscription has heard, and what it missed."""

    subscription: str
    heard_of_version: int
    dead_letters: Annotated[list[DeadLetter], Field(description="by version")]
