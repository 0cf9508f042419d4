"""Subscriptions, and what did not arrive."""

from __future__ import annotations

import re
from typing import Any

from ptkstore.application.identity.authorize import Named
from ptkstore.console.pages.reads import Reads
from ptkstore.domain.identity import Action, Principal
from ptkstore.errors import UnknownName
from ptkstore.sdk.subscriptions import (
    answer_in_words,
    attempt_document,
    deliveries_document,
    waiting_in_words,
)
from ptkstore.wire.base import SUBSCRIPTION_ID

SUBSCRIPTIONS_SHOWN = 200
LETTERS_SHOWN = 500
ATTEMPTS_SHOWN = 50


class Deliveries(Reads):
    """How far subscriptions were sent to."""

    def subscription(self, who: Principal, subscription_id: str) -> dict[str, Any]:
        """Show how the endpoint of a subscription answers, each attempt of late, and what it missed."""
        if not re.fullmatch(SUBSCRIPTION_ID, subscription_id):
            raise UnknownName("subscription", "?")
        self._identity.permit(who, Action.SUBSCRIPTION_READ, Named(subscription_id=subscription_id))
        followed = self._service.deliveries(subscription_id, limit=LETTERS_SHOWN)
        document = deliveries_document(followed)
        place = followed.subscription.endpoint.partition("?")[0]
        letters = document.pop("dead_letters")
        attempts = [
            attempt_document(one) for one in self._service.attempts(subscription_id, limit=ATTEMPTS_SHOWN + 1)
        ]
        return {
            "one": {**document, "place": place},
            "letters": letters,
            "n_letters": followed.missed,
            "waiting": waiting_in_words(document, self._service.clock.now()),
            "attempts": [{**one, "answer": answer_in_words(one)} for one in attempts[:ATTEMPTS_SHOWN]],
            "more_attempts": len(attempts) > ATTEMPTS_SHOWN,
            "done": [
                Action.SUBSCRIPTION_DISABLE
                if document["status"] == "disabled"
                else Action.SUBSCRIPTION_ENABLE
            ],
        }

    def deliveries(self, who: Principal) -> dict[str, Any]:
        """Show how far the subscriptions of the team, or all, have heard, and what they missed."""
        subscriptions = self._subscriptions(who, limit=SUBSCRIPTIONS_SHOWN + 1)
        shown = subscriptions[:SUBSCRIPTIONS_SHOWN]
        letters = self._service.newest_dead_letters([one["id"] for one in shown], LETTERS_SHOWN)
        return {
            "subscriptions": shown,
            "more_subscriptions": len(subscriptions) > SUBSCRIPTIONS_SHOWN,
            "letters": [
                {
                    "subscription": one.subscription_id,
                    "version": one.number,
                    "code": one.code,
                    "at": one.at.isoformat(),
                }
                for one in letters
            ],
            "n_letters": sum(one["missed"] for one in shown),
        }
