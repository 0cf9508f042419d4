"""How subscribers are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint answered with a 2xx status."""


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """It did not; `code` is one of a fixed set (`timeout`, `refused-address`, `status-5xx`, `gone`, ...)."""

    code: str


@dataclass(frozen=True, slots=True)
class NotTried:
    """Too much is on its way to that host already; the attempt does not count."""


STREAM_UNAVAILABLE = "stream-unavailable"
"""The code of a stream whose server does not answer: so it is with all streams there."""

Outcome = Delivered | NotDelivered
Tried = Delivered | NotDelivered | NotTried


@dataclass(frozen=True, slots=True)
class Message:
    """What one attempt sends; `secrets` sign it, the newest first. `key` is the sender's own."""

    key: str
    endpoint: str
    id: str
    body: bytes
    secrets: tuple[str, ...]


class Messenger(Protocol):
    """Sends one signed message over HTTP, to addresses that policy allows, without following redirects."""

    def check_endpoint(self, endpoint: str) -> None:
        """`InvalidRequest` unless the URL is well formed and its scheme and present address are allowed."""
        ...

    def send(self, endpoint: str, message_id: str, body: bytes, *secrets: str) -> Outcome:
        """One attempt, signed with each secret as Standard Webhooks describe."""
        ...


class Courier(Protocol):
    """Sends many messages at once, as a `Messenger` sends one; a slow host holds up only its own."""

    @property
    def room(self) -> int:
        """How many more messages it takes now."""
        ...

    def hand_over(self, messages: Sequence[Message]) -> None:
        """Begin to send; comes back at once."""
        ...

    def collect(self, within_seconds: float, enough: int) -> Sequence[tuple[str, Tried]]:
        """Keys and outcomes of what has ended since; waits at most so long for enough of them."""
        ...


class EventStreams(Protocol):
    """Streams of events that consumers read at their own pace."""

    def append(self, key: str, message: Message, number: int, *, redelivered: bool) -> Outcome:
        """Append a message once, however often this is called; `number` orders those of one subscription."""
        ...
