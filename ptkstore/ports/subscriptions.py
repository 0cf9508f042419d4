"""Subscriptions, their dead letters, and the jobs that deliver to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from ptkstore.domain.jobs import Job
from ptkstore.domain.subscriptions import Attempt, DeadLetter, Subscription


class SubscriptionsView(Protocol):
    """Subscriptions and dead letters, for reading."""

    def get(self, subscription_id: str) -> Subscription:
        """Read a subscription; `UnknownName` if there is none."""

    def many(self, subscription_ids: Iterable[str]) -> Mapping[str, Subscription]:
        """Return those of these that exist, by id."""

    def of(
        self,
        ptk_id: str | None = None,
        *,
        team: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> tuple[Subscription, ...]:
        """Return subscriptions of one PTK, of one team or all, by id: all after an id, or so many."""

    def dead_letters(
        self, subscription_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[DeadLetter, ...]:
        """Return dead letters by version: all after one, or so many."""

    def dead_letters_of(self, subscription_ids: Iterable[str]) -> Mapping[str, tuple[DeadLetter, ...]]:
        """Return the dead letters of each of these that has any, by version."""

    def newest_dead_letters(self, subscription_ids: Iterable[str], limit: int) -> tuple[DeadLetter, ...]:
        """Return so many of the dead letters of these, the newest first."""

    def missed(self, subscription_ids: Iterable[str]) -> Mapping[str, int]:
        """Count the dead letters of each of these that has any."""

    def attempts(
        self, subscription_id: str, since: datetime, *, before: int | None = None, limit: int | None = None
    ) -> tuple[Attempt, ...]:
        """Return attempts since a time, the newest first: all before a sequence number, or so many."""


class Subscriptions(SubscriptionsView, Protocol):
    """Subscriptions and dead letters."""

    def add(self, subscription: Subscription) -> None:
        """Record a subscription."""

    def save(self, subscriptions: Iterable[Subscription]) -> None:
        """Write health and status; those that are gone stay gone."""

    def remove(self, subscription_id: str) -> None:
        """Forget a subscription and its attempts; its dead letters stay."""

    def add_attempts(self, attempts: Sequence[Attempt]) -> None:
        """Record attempts, and forget those of the same subscriptions that are more than `ATTEMPTS_KEPT` behind."""

    def expire_attempts(self, before: datetime, limit: int) -> int:
        """Forget so many of the attempts before a time; returns how many were forgotten."""

    def add_dead_letter(self, letter: DeadLetter) -> None:
        """Keep a version that was not delivered; one that fails once more stays one letter."""

    def remove_dead_letter(self, subscription_id: str, number: int) -> None:
        """Forget a dead letter that was delivered after all."""

    def mark_reported(self, subscription_id: str, numbers: Sequence[int]) -> None:
        """Note that a message has told the subscriber of these."""

    def ask_for(
        self, subscription_id: str, now: datetime, *, number: int | None = None, since: datetime | None = None
    ) -> int:
        """Have dead letters sent again, all by default; returns how many of these are waiting for it now."""


class DeliveriesView(Protocol):
    """How far subscribers were told, for reading."""

    def positions(self, subscription_ids: Iterable[str]) -> Mapping[str, int]:
        """Return the last version that each of these was told of, or that became a dead letter."""


class Deliveries(DeliveriesView, Protocol):
    """The jobs that deliver, many at once; the fences of `Jobs` hold here too."""

    def wake(self, ptk_id: str, due_at: datetime) -> None:
        """Make every idle subscriber of a PTK ready; a finishing delivery waits and looks again."""

    def claim(self, now: datetime, lease: timedelta, *, fresh: int, retried: int) -> tuple[Job, ...]:
        """Take due deliveries, so many that were not tried yet and so many that failed before.

        Raises their fences, and their attempts unless they come from somebody who died with them: that tells
        nothing of the endpoint.
        """

    def extend(self, jobs: Iterable[Job], now: datetime, lease: timedelta) -> Sequence[Job]:
        """Keep the leases of those that are still held by these fences, and say which."""

    def held(self, jobs: Iterable[Job], beside: Iterable[str] = ()) -> tuple[Job, ...]:
        """Lock, in one order with all that delivers to the subscriptions `beside`, those that nobody claimed since."""

    def save(self, jobs: Iterable[Job]) -> None:
        """Write what became of held jobs, and drop their leases."""
