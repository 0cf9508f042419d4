"""Subscriptions, and what did not arrive."""

from __future__ import annotations

from typing import Any

from ptkstore.console.pages.reads import Reads
from ptkstore.domain.identity import Principal

SUBSCRIPTIONS_SHOWN = 200
LETTERS_SHOWN = 500


class Deliveries(Reads):
    """How far subscriptions were sent to."""

    def deliveries(self, who: Principal) -> dict[str, Any]:
        """Show how far the subscriptions of the team, or all, have heard, and what they missed."""
        subscriptions = self._subscriptions(who)
        shown = subscriptions[:SUBSCRIPTIONS_SHOWN]
        missed = self._service.dead_letters_of([one["id"] for one in shown])
        letters = sorted(
            (letter for some in missed.values() for letter in some), key=lambda one: one.at, reverse=True
        )
        return {
            "subscriptions": shown,
            "n_subscriptions": len(subscriptions),
            "letters": [
                {
                    "subscription": one.subscription_id,
                    "version": one.number,
                    "code": one.code,
                    "at": one.at.isoformat(),
                }
                for one in letters[:LETTERS_SHOWN]
            ],
            "n_letters": len(letters),
        }
