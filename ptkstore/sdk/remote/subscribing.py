"""Subscriptions of a store behind the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from ptkstore.application.delivery.read_deliveries import DeliveryState
from ptkstore.application.delivery.send_test_event import TriedEndpoint
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.subscriptions import USUAL_OVERLAP, Attempt, Subscription
from ptkstore.sdk.remote.transport import Transport, path_of
from ptkstore.sdk.subscriptions import attempt_of, followed_of, milliseconds_of


class RemoteSubscribing:
    """Methods of `StoreService` about subscriptions, over HTTP."""

    _http: Transport

    def subscribe_to_ptk(self, ptk_id: str, endpoint: str) -> tuple[Subscription, str]:
        """Subscribe an endpoint. Not sent again when the answer is lost: the secret would be lost with it."""
        split_ptk_id(ptk_id)  # which says what an id must be
        body = {"ptk_id": ptk_id, "endpoint": endpoint}
        return self._http.ask("POST", path_of("subscriptions"), _subscribed, body, repeatable=False)

    def unsubscribe(self, subscription_id: str) -> None:
        self._http.send("DELETE", path_of("subscriptions", subscription_id), repeatable=False)

    def rotate_secret(self, subscription_id: str, overlap: timedelta = USUAL_OVERLAP) -> str:
        """Ask for a new signing secret. Not sent again when the answer is lost: the secret would be lost with it."""
        body = {"overlap_hours": overlap.total_seconds() / 3600}
        path = path_of("subscriptions", subscription_id, "rotate")
        return self._http.ask("POST", path, lambda one: str(one["secret"]), body, repeatable=False)

    def send_test_event(self, subscription_id: str) -> TriedEndpoint:
        path = path_of("subscriptions", subscription_id, "test")
        return self._http.ask("POST", path, _tested, repeatable=False)

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        path = path_of("ptks", ptk_id, "notify")
        return self._http.ask("POST", path, lambda one: int(one["subscriptions"]), repeatable=False)

    def redeliver(
        self, subscription_id: str, number: int | None = None, since: datetime | None = None
    ) -> int:
        body: dict[str, Any] = {"version": number, "since": None if since is None else since.isoformat()}
        path = path_of("subscriptions", subscription_id, "redeliver")
        return self._http.ask("POST", path, lambda one: int(one["dead_letters"]), body, repeatable=True)

    def disable_subscription(self, subscription_id: str) -> None:
        self._http.send("POST", path_of("subscriptions", subscription_id, "disable"), repeatable=True)

    def enable_subscription(self, subscription_id: str, *, redelivering: bool = True) -> Subscription:
        path = path_of("subscriptions", subscription_id, "enable")
        body = {"redeliver": redelivering}
        return self._http.ask("POST", path, followed_of, body, repeatable=True).subscription

    def wait_for_version(self, ptk_id: str, after: int, timeout_seconds: float) -> int | None:
        return self._http.first_event(path_of("ptks", ptk_id, "events"), after, timeout_seconds)

    def subscriptions(self, ptk_id: str | None = None) -> tuple[DeliveryState, ...]:
        return tuple(self._http.pages(path_of("subscriptions"), followed_of, {"ptk_id": ptk_id}))

    def deliveries(self, subscription_id: str) -> DeliveryState:
        path = path_of("subscriptions", subscription_id, "deliveries")
        parts = list(self._http.documents(path, followed_of))
        return replace(parts[-1], dead_letters=tuple(one for part in parts for one in part.dead_letters))

    def attempts(self, subscription_id: str) -> tuple[Attempt, ...]:
        path = path_of("subscriptions", subscription_id, "attempts")
        return tuple(self._http.pages(path, partial(attempt_of, subscription_id)))


def _tested(document: Mapping[str, Any]) -> TriedEndpoint:
    status, milliseconds = document.get("status"), milliseconds_of(document)
    return TriedEndpoint(document["id"], document["message_id"], document["code"], status, milliseconds)


def _subscribed(document: Mapping[str, Any]) -> tuple[Subscription, str]:
    subscription = Subscription(document["id"], document["ptk_id"], document["endpoint"])
    return subscription, str(document["secret"])
