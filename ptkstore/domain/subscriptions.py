"""Subscriptions: who hears of new states, in which order, for how long it is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ptkstore.domain.snapshots import Version

EVENT_TYPE = "ptk.state.published"
FIRST_RETRY = timedelta(seconds=1)
LONGEST_RETRY = timedelta(hours=4)
GIVE_UP_AFTER_ATTEMPTS = 36  # about five days of retries at the waits above


@dataclass(frozen=True, slots=True)
class Subscription:
    """A team's wish to hear of new versions of one PTK; made in the store's home, it belongs to no team."""

    id: str
    ptk_id: str
    endpoint: str
    team: str = ""


def message_id(subscription: Subscription, number: int) -> str:
    """The `webhook-id`: the same for every attempt at one delivery."""
    return f"msg_{subscription.id}_{number:08d}"


def event_of(version: Version, manifest_url: str, published_at: datetime) -> Mapping[str, Any]:
    """The thin body of a notification: where the state lies and what it promises, no feature values."""
    content = version.content
    return {
        "type": EVENT_TYPE,
        "timestamp": published_at.isoformat(),
        "data": {
            "ptk_id": version.ptk_id,
            "version": version.number,
            "manifest_url": manifest_url,
            "sha256": version.sha256,
            "windows": {
                "oldest": content["oldest_contributing_window"],
                "newest": content["newest_contributing_window"],
            },
            "guarantee": content["guarantee"],
        },
    }
