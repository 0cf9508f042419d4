"""Subscriptions of a store behind the HTTP API."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ptkstore.application.delivery.read_deliveries import DeliveryState
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.subscriptions import USUAL_OVERLAP, Subscription
from ptkstore.sdk.remote.transport import Transport, path_of, read
from ptkstore.sdk.subscriptions import followed_of


class RemoteSubscribing:
    """The part of `wiring.subscribing` that a client uses, over HTTP."""

    _http: Transport

    def subscribe_to_ptk(self, ptk_id: str, endpoint: str) -> tuple[Subscription, str]:
        """Subscribe an endpoint. Not sent again when the answer is lost: the secret would be lost with it."""
        split_ptk_id(ptk_id)  # which says what an id must be
        body = {"ptk_id": ptk_id, "endpoint": endpoint}
        made = self._http.send("POST", path_of("subscriptions"), json=body, repeatable=False)
        return read(made, lambda o: (Subscription(o["id"], o["ptk_id"], o["endpoint"]), str(o["secret"])))

    def unsubscribe(self, subscription_id: str) -> None:
        """End a subscription."""
        self._http.send("DELETE", path_of("subscriptions", subscription_id), repeatable=False)

    def rotate_secret(self, subscription_id: str, overlap: timedelta = USUAL_OVERLAP) -> str:
        """A new signing secret. Not sent again when the answer is lost: the secret would be lost with it."""
        body = {"overlap_hours": overlap.total_seconds() / 3600}
        path = path_of("subscriptions", subscription_id, "rotate")
        return read(
            self._http.send("POST", path, json=body, repeatable=False), lambda one: str(one["secret"])
        )

    def notify_new_ptk_state(self, ptk_id: str) -> int:
        """Tell subscribers of the newest version once more."""
        response = self._http.send("POST", path_of("ptks", ptk_id, "notify"), repeatable=False)
        return read(response, lambda one: int(one["subscriptions"]))

    def redeliver(
        self, subscription_id: str, number: int | None = None, since: datetime | None = None
    ) -> int:
        """Send dead letters again; repeatable."""
        body: dict[str, Any] = {"version": number, "since": None if since is None else since.isoformat()}
        path = path_of("subscriptions", subscription_id, "redeliver")
        answer = self._http.send("POST", path, json=body, repeatable=True)
        return read(answer, lambda one: int(one["dead_letters"]))

    def disable_subscription(self, subscription_id: str) -> None:
        """Send nothing until it is enabled again; repeatable."""
        self._http.send("POST", path_of("subscriptions", subscription_id, "disable"), repeatable=True)

    def enable_subscription(self, subscription_id: str, *, redelivering: bool = True) -> Subscription:
        """Send to a disabled subscription again; repeatable."""
        path = path_of("subscriptions", subscription_id, "enable")
        answer = self._http.send("POST", path, json={"redeliver": redelivering}, repeatable=True)
        return read(answer, followed_of).subscription

    def wait_for_version(self, ptk_id: str, after: int, timeout_seconds: float) -> int | None:
        """Wait for a version after this one to be online, by server-sent events."""
        return self._http.first_event(path_of("ptks", ptk_id, "events"), after, timeout_seconds)

    def subscriptions(self, ptk_id: str | None = None) -> tuple[DeliveryState, ...]:
        """The subscriptions of the token's team."""
        return tuple(self._http.pages(path_of("subscriptions"), followed_of, {"ptk_id": ptk_id}))

    def deliveries(self, subscription_id: str) -> DeliveryState:
        """One subscription with its dead letters."""
        path = path_of("subscriptions", subscription_id, "deliveries")
        parts = list(self._http.documents(path, followed_of))
        return replace(parts[-1], dead_letters=tuple(one for part in parts for one in part.dead_letters))
