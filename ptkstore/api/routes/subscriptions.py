"""Subscriptions: create with a secret once, list, show what became of messages, delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import JSONResponse

from ptkstore.api.guard import WhoAsks
from ptkstore.api.once import IdempotencyKey, created
from ptkstore.api.pages import Cursor, Limit, page_of
from ptkstore.api.resources import Resource
from ptkstore.application.authorize import Named
from ptkstore.domain.identity import Action
from ptkstore.domain.jobs import JobKind, job_id
from ptkstore.domain.subscriptions import Subscription
from ptkstore.ports.catalog import UnitOfWork
from ptkstore.wire.base import Page, PtkId
from ptkstore.wire.base import SubscriptionId as Id
from ptkstore.wire.subscriptions import Deliveries, Subscribed, SubscriptionIn, SubscriptionOut

resource = Resource("subscriptions")
SubscriptionId = Annotated[Id, Path(description="the subscription's id")]


@resource.route(
    "POST",
    "/subscriptions",
    Action.SUBSCRIPTION_CREATE,
    status=201,
    problems=(404,),
    response_model=Subscribed,
)
def subscribe(body: SubscriptionIn, caller: WhoAsks, key: IdempotencyKey = None) -> JSONResponse:
    """Have every new version of a PTK told to an endpoint by a signed webhook.

    The signing secret is shown this once.
    """
    caller.about("ptk", body.ptk_id)
    caller.permit(Named(ptk_id=body.ptk_id))

    def act() -> Subscribed:
        made, secret = caller.service.subscribe_to_ptk(body.ptk_id, body.endpoint, team=caller.principal.team)
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
    with caller.service.begin() as uow:
        mine = [s for s in uow.subscriptions.of(ptk_id) if who.administers or s.team == who.team]
        return page_of(mine, lambda s: s.id, lambda s: _document(uow, s), cursor, limit)


@resource.route(
    "GET",
    "/subscriptions/{subscription_id}/deliveries",
    Action.SUBSCRIPTION_READ,
    response_model=Deliveries,
)
def show_deliveries(subscription_id: SubscriptionId, caller: WhoAsks) -> dict[str, Any]:
    """Show how far a subscription has heard, and which versions it missed."""
    with caller.service.begin() as uow:
        subscription = uow.subscriptions.get(subscription_id)
        letters = uow.subscriptions.dead_letters(subscription_id)
        heard = _document(uow, subscription)["heard_of_version"]
    return {
        "subscription": subscription_id,
        "heard_of_version": heard,
        "dead_letters": [{"version": number, "code": code} for number, code in letters],
    }


@resource.route("DELETE", "/subscriptions/{subscription_id}", Action.SUBSCRIPTION_DELETE, status=204)
def unsubscribe(subscription_id: SubscriptionId, caller: WhoAsks) -> None:
    """End a subscription; a message on its way may still arrive."""
    caller.service.unsubscribe(subscription_id)


def _document(uow: UnitOfWork, subscription: Subscription) -> dict[str, Any]:
    return {
        "id": subscription.id,
        "ptk_id": subscription.ptk_id,
        "endpoint": subscription.endpoint,
        "heard_of_version": uow.jobs.get(job_id(JobKind.NOTIFY, subscription.id)).position,
    }
