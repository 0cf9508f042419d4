"""Subscriptions: create with a secret once, list, show what became of messages, repair, delete."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import JSONResponse

from ptkstore.api.requests.access import Caller, WhoAsks
from ptkstore.api.requests.idempotency import IdempotencyKey, created
from ptkstore.api.requests.pages import Cursor, Limit, cursor_at, name_in, number_in, page_up_to
from ptkstore.api.requests.routers import Resource
from ptkstore.application.identity.authorize import Named
from ptkstore.domain.identity import Action
from ptkstore.domain.times import utc
from ptkstore.sdk.subscriptions import (
    attempt_document,
    overlap_of,
    subscription_document,
    tested_document,
    wire_deliveries,
)
from ptkstore.wire.base import Page, PtkId
from ptkstore.wire.base import SubscriptionId as Id
from ptkstore.wire.subscriptions import (
    AttemptOut,
    Deliveries,
    EnableIn,
    RedeliverIn,
    Redelivering,
    RotatedSecret,
    RotateSecretIn,
    Subscribed,
    SubscriptionIn,
    SubscriptionOut,
    Tested,
)

resource = Resource("subscriptions")
SubscriptionId = Annotated[Id, Path(description="the subscription's id")]


@resource.route(
    "POST",
    "/subscriptions",
    Action.SUBSCRIPTION_CREATE,
    status=201,
    problems=(404,),
    asks_outside=True,
    response_model=Subscribed,
)
def subscribe(body: SubscriptionIn, caller: WhoAsks, key: IdempotencyKey = None) -> JSONResponse:
    """Have every new version of a PTK told to an endpoint: by a signed webhook, or in a stream of the service's Redis.

    The signing secret is shown this once; a stream has none.
    """
    caller.about("ptk", body.ptk_id)
    caller.permit(Named(ptk_id=body.ptk_id))

    def act() -> Subscribed:
        made, secret = caller.service.subscribe_to_ptk(body.ptk_id, body.endpoint, team=caller.principal.team)
        caller.recorded.parts = (caller.recorded.subject,)  # the trail names the PTK and the subscription
        caller.about("subscription", made.id)
        return Subscribed(id=made.id, ptk_id=made.ptk_id, endpoint=made.endpoint, secret=secret)

    return created(caller, key, "subscribe", body, act, secret="secret")


@resource.route("GET", "/subscriptions", Action.SUBSCRIPTION_LIST, response_model=Page[SubscriptionOut])
def list_subscriptions(
    caller: WhoAsks,
    cursor: Cursor = None,
    limit: Limit = 100,
    ptk_id: Annotated[PtkId | None, Query(description="of this PTK alone")] = None,
) -> dict[str, Any]:
    """List the subscriptions of the caller's team; an administrator sees all."""
    who = caller.principal
    team = None if who.administers else who.team
    subscriptions = caller.service.subscriptions(ptk_id, team=team, after=name_in(cursor), limit=limit + 1)
    return page_up_to(subscriptions, limit, subscription_document, lambda one: one.subscription.id)


@resource.route(
    "GET",
    "/subscriptions/{subscription_id}/deliveries",
    Action.SUBSCRIPTION_READ,
    response_model=Deliveries,
)
def show_deliveries(
    subscription_id: SubscriptionId, caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100
) -> dict[str, Any]:
    """Show how far a subscription has heard, how its endpoint answers, and which versions it missed.

    Pages are counted in dead letters.
    """
    return _deliveries(caller, subscription_id, number_in(cursor), limit)


@resource.route(
    "GET",
    "/subscriptions/{subscription_id}/attempts",
    Action.SUBSCRIPTION_READ,
    response_model=Page[AttemptOut],
)
def list_attempts(
    subscription_id: SubscriptionId, caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100
) -> dict[str, Any]:
    """List the attempts to deliver to a subscription, the newest first: the last 200, of the last 30 days."""
    before = None if cursor is None else number_in(cursor)
    attempts = caller.service.attempts(subscription_id, before=before, limit=limit + 1)
    return page_up_to(attempts, limit, attempt_document, lambda one: str(one.sequence))


@resource.route(
    "POST",
    "/subscriptions/{subscription_id}/rotate",
    Action.SUBSCRIPTION_ROTATE,
    response_model=RotatedSecret,
)
def rotate_subscription_secret(
    subscription_id: SubscriptionId, body: RotateSecretIn, caller: WhoAsks
) -> dict[str, Any]:
    """Sign with a new secret, shown this once; for the overlap messages carry the old signature too."""
    secret = caller.service.rotate_secret(subscription_id, overlap_of(body.overlap_hours))
    return {"id": subscription_id, "secret": secret}


@resource.route(
    "POST",
    "/subscriptions/{subscription_id}/test",
    Action.SUBSCRIPTION_TEST,
    asks_outside=True,
    response_model=Tested,
)
def send_test_event(subscription_id: SubscriptionId, caller: WhoAsks) -> dict[str, Any]:
    """Send a signed event of the type `ptk.subscription.test`, once, and say how the endpoint took it.

    It names the subscription and no version. It is not retried, and changes nothing of the subscription.
    """
    return tested_document(caller.service.send_test_event(subscription_id))


@resource.route(
    "POST",
    "/subscriptions/{subscription_id}/redeliver",
    Action.SUBSCRIPTION_REDELIVER,
    response_model=Redelivering,
)
def redeliver(subscription_id: SubscriptionId, body: RedeliverIn, caller: WhoAsks) -> dict[str, Any]:
    """Send dead letters again, marked as such and under the ids they had; repeatable."""
    since = None if body.since is None else utc(body.since)
    return {"dead_letters": caller.service.redeliver(subscription_id, body.version, since)}


@resource.route(
    "POST",
    "/subscriptions/{subscription_id}/disable",
    Action.SUBSCRIPTION_DISABLE,
    response_model=Deliveries,
)
def disable_subscription(subscription_id: SubscriptionId, caller: WhoAsks) -> dict[str, Any]:
    """Send nothing to a subscription until it is enabled again; versions wait for that. Repeatable."""
    caller.service.disable_subscription(subscription_id)
    return _deliveries(caller, subscription_id)


@resource.route(
    "POST",
    "/subscriptions/{subscription_id}/enable",
    Action.SUBSCRIPTION_ENABLE,
    response_model=Deliveries,
)
def enable_subscription(subscription_id: SubscriptionId, body: EnableIn, caller: WhoAsks) -> dict[str, Any]:
    """Send to a disabled subscription again, from the version on where it stopped; repeatable."""
    caller.service.enable_subscription(subscription_id, redelivering=body.redeliver)
    return _deliveries(caller, subscription_id)


@resource.route("DELETE", "/subscriptions/{subscription_id}", Action.SUBSCRIPTION_DELETE, status=204)
def unsubscribe(subscription_id: SubscriptionId, caller: WhoAsks) -> None:
    """End a subscription; a message on its way may still arrive."""
    caller.service.unsubscribe(subscription_id)


def _deliveries(caller: Caller, subscription_id: str, after: int = 0, limit: int = 100) -> dict[str, Any]:
    progress = caller.service.deliveries(subscription_id, after=after, limit=limit + 1)
    letters = progress.dead_letters[:limit]
    more = len(progress.dead_letters) > limit
    return {
        **wire_deliveries(replace(progress, dead_letters=letters)),
        "next_cursor": cursor_at(str(letters[-1].number)) if more else None,
    }
