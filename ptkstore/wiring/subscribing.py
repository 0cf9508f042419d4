"""Use cases of subscribers, bound to the adapters."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from ptkstore import application
from ptkstore.adapters.world import log_code
from ptkstore.domain.jobs import JobKind, job_id
from ptkstore.domain.subscriptions import USUAL_OVERLAP, DeadLetter, Subscription
from ptkstore.wiring.adapters import Adapters

LOOK_SECONDS = 0.5


class Subscribing(Adapters):
    """Who hears of new versions, and what became of it."""

    def subscribe_to_ptk(self, ptk_id: str, endpoint: str, *, team: str = "") -> tuple[Subscription, str]:
        """See `application.delivery.subscribe`."""
        return application.delivery.subscribe.subscribe_to_ptk(
            ptk_id,
            endpoint,
            team=team,
            begin=self.begin,
            clock=self.clock,
            keys=self.keys,
            messenger=self.messenger,
        )

    def unsubscribe(self, subscription_id: str) -> None:
        """See `application.delivery.subscribe`."""
        application.delivery.subscribe.unsubscribe(subscription_id, begin=self.begin, keys=self.keys)

    def rotate_secret(self, subscription_id: str, overlap: timedelta = USUAL_OVERLAP) -> str:
        """See `application.delivery.subscribe`."""
        return application.delivery.subscribe.rotate_secret(
            subscription_id, overlap, begin=self.read, clock=self.clock, keys=self.keys
        )

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        """See `application.delivery.subscribe`."""
        return application.delivery.subscribe.notify_new_ptk_state(
            ptk_id, begin=self.begin, clock=self.clock, streams=self.event_streams
        )

    def redeliver(
        self, subscription_id: str, number: int | None = None, since: datetime | None = None
    ) -> int:
        """See `application.delivery.redeliver`."""
        return application.delivery.redeliver.redeliver(
            subscription_id, number, since, begin=self.begin, clock=self.clock
        )

    def disable_subscription(self, subscription_id: str) -> None:
        """See `application.delivery.redeliver`."""
        application.delivery.redeliver.disable_subscription(
            subscription_id, begin=self.begin, clock=self.clock
        )

    def enable_subscription(self, subscription_id: str, *, redelivering: bool = True) -> Subscription:
        """See `application.delivery.redeliver`."""
        return application.delivery.redeliver.enable_subscription(
            subscription_id, redelivering=redelivering, begin=self.begin, clock=self.clock
        )

    def wait_for_version(self, ptk_id: str, after: int, timeout_seconds: float) -> int | None:
        """Wait for a version after this one to be online, by looks at the catalog."""
        until = time.monotonic() + timeout_seconds
        while True:
            with self.read() as uow:
                shown = uow.jobs.get(job_id(JobKind.FLIP, ptk_id)).position
            left = until - time.monotonic()
            if shown > after or left <= 0:
                return shown if shown > after else None
            time.sleep(min(LOOK_SECONDS, left))

    def subscriptions(
        self,
        ptk_id: str | None = None,
        *,
        team: str | None = None,
        after: str = "",
        limit: int | None = None,
    ) -> tuple[application.delivery.read_deliveries.Followed, ...]:
        """See `application.delivery.read_deliveries`."""
        return application.delivery.read_deliveries.subscriptions_of(
            ptk_id, team, after=after, limit=limit, begin=self.read
        )

    def letters_of(self, subscription_ids: Iterable[str]) -> Mapping[str, tuple[DeadLetter, ...]]:
        """The dead letters of each of these subscriptions that has any, by version."""
        with self.read() as uow:
            return uow.subscriptions.letters_of(subscription_ids)

    def deliveries(
        self, subscription_id: str, *, after: int = 0, limit: int | None = None
    ) -> application.delivery.read_deliveries.Followed:
        """See `application.delivery.read_deliveries`."""
        return application.delivery.read_deliveries.deliveries_of(
            subscription_id, after=after, limit=limit, begin=self.read
        )

    def due_deliveries(self) -> application.delivery.deliver_due.DueDeliveries:
        """See `application.delivery.deliver_due`; for the relay."""
        sending = application.delivery.deliver_due.Sending(
            self.keys, self.manifests, self.courier, self.event_streams
        )
        return application.delivery.deliver_due.DueDeliveries(
            begin=self.begin,
            read=self.read,
            clock=self.clock,
            sending=sending,
            watching=application.delivery.deliver_due.Watching(self.traced_steps, self.traces, log_code),
            lease=self.settings.lease,
            working=lambda: self.keys.working(self.catalog.journal_view().ledger_id),
        )
