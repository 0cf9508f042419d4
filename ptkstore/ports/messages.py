"""Messages to subscribers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Delivered:
    """The endpoint answered with a 2xx status, or the stream has the event.

    `status` and `seconds`: what a webhook's endpoint answered, and how long that took from the connection on.
    """

    status: int | None = field(default=None, compare=False)
    seconds: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class NotDelivered:
    """It did not; `code` is one of a fixed set (`timeout`, `connection-failed`, `status-5xx`, `gone`, ...).

    `retry_after` is the wait that the endpoint asks for. `cause` is for the administrator's log alone: it would tell
    the subscriber what our network looks like. So would the time of a connection that failed: `seconds` is known of
    answers and of timeouts alone.
    """

    code: str
    retry_after: timedelta | None = None
    cause: str | None = None
    status: int | None = field(default=None, compare=False)
    seconds: float | None = field(default=None, compare=False)


BUSY = "busy"
"""Too much is on its way to that host already, or the keys cannot be read now: later."""
LEASE_UNSURE = "lease-unsure"
"""Somebody else may hold the delivery by now."""
WITHDRAWN = "withdrawn"
"""The sender is leaving; whatever was on its way may have arrived."""


@dataclass(frozen=True, slots=True)
class NotTried:
    """It says nothing about the endpoint: the attempt does not count. `code` is one of those above."""

    code: str = BUSY


FAILED = "failed"
"""The code of an error of our own."""
STREAM_UNAVAILABLE = "stream-unavailable"
"""The code of a stream whose server does not answer: so it is with all streams there."""

Outcome = Delivered | NotDelivered
Tried = Delivered | NotDelivered | NotTried


@dataclass(frozen=True, slots=True)
class Message:
    """The content of one attempt; `secrets` sign it, the newest first. `key` is the sender's own.

    `team` subscribed the endpoint: its slow host names take the places of no other team.
    """

    key: str
    endpoint: str
    id: str
    body: bytes
    secrets: tuple[str, ...] = field(repr=False)
    team: str = ""


class Messenger(Protocol):
    """Sends one signed message over HTTP, to addresses that policy allows, without following redirects."""

    def check_endpoint(self, endpoint: str, team: str = "") -> None:
        """Check that a team may have messages sent to an endpoint. It waits for one lookup of the host's name.

        Raises
        ------
        InvalidRequest
            The URL is not well formed, or its scheme or a present address of its host is not allowed.
        TooManyRequests
            The team's share of lookups is in use.
        Unavailable
            All lookups are in use.
        """

    def send(self, message: Message) -> Outcome:
        """Make one attempt, signed with each secret as Standard Webhooks describe."""


class Courier(Protocol):
    """Sends many messages at once, as a `Messenger` sends one; a slow host delays only its own."""

    @property
    def room(self) -> int:
        """How many more messages it takes now."""

    def hand_over(self, messages: Sequence[Message], until: float) -> None:
        """Begin to send; comes back at once. A message that is not begun by then, on the monotonic clock, never is."""

    def keep(self, keys: Iterable[str], until: float) -> None:
        """Let what was handed over under these keys begin until then."""

    def collect(self, within_seconds: float, enough: int) -> Sequence[tuple[str, Tried]]:
        """Return keys and outcomes of what has ended since; waits at most so long for enough of them."""

    def withdraw(self) -> None:
        """Begin nothing that is not begun; running attempts continue."""

    def close(self) -> None:
        """Break off what is on its way. Everything that was handed over has an outcome then."""


class EventStreams(Protocol):
    """Streams of events that consumers read at their own pace."""

    def append(self, key: str, message: Message, number: int, *, redelivered: bool) -> Outcome:
        """Append a message once, however often this is called; `number` orders those of one subscription."""

    def forget(self, key: str, message_id: str, number: int) -> None:
        """Let a message be appended once more, if it was; `Unavailable` if that cannot be."""


class ManifestAddresses(Protocol):
    """The place from which the reader of a message fetches its manifest; a lake is one."""

    def manifest_url(self, ptk_id: str, number: int) -> str:
        """Return the address of a version's manifest."""
