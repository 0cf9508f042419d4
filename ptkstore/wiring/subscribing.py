"""Use cases of subscribers, bound to the adapters."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from ptkstore import application
from ptkstore.adapters.runtime import log_code
from ptkstore.domain.audit import subject_of
from ptkstore.domain.identity import Action
from ptkstore.domain.subscriptions import USUAL_OVERLAP, Subscription
from ptkstore.wiring.trail import Recording

if TYPE_CHECKING:
    from ptkstore.application.operations.team_shares import TeamShares


class Subscribing(Recording):
    """The methods of `StoreService` on subscriptions, and the deliveries of the relay."""

    def subscribe_to_ptk(self, ptk_id: str, endpoint: str, *, team: str = "") -> tuple[Subscription, str]:
        with self._recorded(Action.SUBSCRIPTION_CREATE, "ptk", ptk_id) as about:
            made = application.delivery.subscribe.subscribe_to_ptk(
                ptk_id,
                endpoint,
                team=team,
                begin=self.begin,
                clock=self.clock,
                keys=self.keys,
                messenger=self.messenger,
            )
            about.parts, about.subject = (about.subject,), subject_of("subscription", made[0].id)
            return made

    def unsubscribe(self, subscription_id: str) -> None:
        with self._recorded(Action.SUBSCRIPTION_DELETE, "subscription", subscription_id):
            application.delivery.subscribe.unsubscribe(subscription_id, begin=self.begin, keys=self.keys)

    def rotate_secret(self, subscription_id: str, overlap: timedelta = USUAL_OVERLAP) -> str:
        with self._recorded(Action.SUBSCRIPTION_ROTATE, "subscription", subscription_id):
            return application.delivery.subscribe.rotate_secret(
                subscription_id, overlap, begin=self.read, clock=self.clock, keys=self.keys
            )

    def send_test_event(self, subscription_id: str) -> application.delivery.send_test_event.TriedEndpoint:
        with self._recorded(Action.SUBSCRIPTION_TEST, "subscription", subscription_id):
            return application.delivery.send_test_event.send_test_event(
                subscription_id,
                begin=self.read,
                clock=self.clock,
                keys=self.keys,
                messenger=self.messenger,
                shares=self._tests,
            )

    @cached_property
    def _tests(self) -> TeamShares:
        return application.delivery.send_test_event.shares_of_tests()

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        with self._recorded(Action.PTK_NOTIFY, "ptk", ptk_id):
            return application.delivery.subscribe.notify_new_ptk_state(
                ptk_id, begin=self.begin, clock=self.clock, streams=self.event_streams
            )

    def redeliver(
        self, subscription_id: str, number: int | None = None, since: datetime | None = None
    ) -> int:
        with self._recorded(Action.SUBSCRIPTION_REDELIVER, "subscription", subscription_id):
            return application.delivery.redeliver.redeliver(
                subscription_id, number, since, begin=self.begin, clock=self.clock
            )

    def disable_subscription(self, subscription_id: str) -> None:
        with self._recorded(Action.SUBSCRIPTION_DISABLE, "subscription", subscription_id):
            application.delivery.redeliver.disable_subscription(
                subscription_id, begin=self.begin, clock=self.clock
            )

    def enable_subscription(self, subscription_id: str, *, redelivering: bool = True) -> Subscription:
        with self._recorded(Action.SUBSCRIPTION_ENABLE, "subscription", subscription_id):
            return application.delivery.redeliver.enable_subscription(
                subscription_id, redelivering=redelivering, begin=self.begin, clock=self.clock
            )

    def due_deliveries(self) -> application.delivery.deliver_due.DueDeliveries:
        """Return what delivers for the relay."""
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
