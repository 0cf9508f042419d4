"""PTKs: register, list, show, update, deregister, notify once more."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request
from fastapi.responses import JSONResponse

from ptkstore.api.load.body_slots import leave_place
from ptkstore.api.requests.access import Caller, WhoAsks
from ptkstore.api.requests.idempotency import IdempotencyKey, created
from ptkstore.api.requests.pages import Cursor, Limit, cursor_at, number_at, page_of, place_in
from ptkstore.api.requests.routers import PtkName, Resource, StreamName
from ptkstore.application.identity.authorize import Named
from ptkstore.application.ptks.exchange_ptks import exchanged
from ptkstore.domain.catalog_search import has_words, words_of
from ptkstore.domain.identity import Action
from ptkstore.domain.ptks.accept import Accept
from ptkstore.domain.ptks.ptks import PTK_ARGUMENTS, PtkSpec
from ptkstore.domain.ptks.wanted import WantedPtk
from ptkstore.errors import NotAllowed
from ptkstore.sdk.documents.admissions import admission_document
from ptkstore.sdk.documents.profiles import profile_document
from ptkstore.sdk.documents.resources import ptk_document
from ptkstore.sdk.documents.times import to_the_second
from ptkstore.sdk.notices import wire_training
from ptkstore.wire.base import Name, Page
from ptkstore.wire.notices import TrainingOut
from ptkstore.wire.ptks import (
    AdmissionOut,
    Exchanged,
    ExchangeIn,
    ListedPtk,
    Materialized,
    ProfileOut,
    PtkIn,
    PtkOut,
    PtkPatch,
    Registered,
    Resumed,
    RollbackIn,
    RolledBack,
    Told,
    WantedIn,
)

resource = Resource("ptks")


@resource.route("POST", "/ptks", Action.PTK_REGISTER, status=201, problems=(404,), response_model=Registered)
def register_ptk(body: PtkIn, caller: WhoAsks, key: IdempotencyKey = None) -> JSONResponse:
    """Register a PTK for the caller's team.

    Those registered before it are not disturbed; it is refused if the stream's policy has no room for it beside them.
    """
    team = body.team or caller.principal.team
    caller.about("ptk", f"{team}.{body.name}")
    if team != caller.principal.team:
        raise NotAllowed("a PTK is registered by a token of the team it belongs to")

    def act() -> Registered:
        ptk_id = caller.service.register_ptk(team=team, stream=body.stream, name=body.name, **_said(body))
        return Registered(ptk_id=ptk_id)

    caller.permit(Named(stream=body.stream))
    _permit_tests(caller, _said(body))
    return created(caller, key, "register_ptk", body, act)


@resource.route("GET", "/ptks", Action.PTK_LIST, response_model=Page[ListedPtk])
def list_ptks(
    caller: WhoAsks,
    cursor: Cursor = None,
    limit: Limit = 100,
    stream: Annotated[Name | None, Query(description="of this stream alone")] = None,
    team: Annotated[Name | None, Query(description="of this team alone")] = None,
    tag: Annotated[str | None, Query(max_length=32, description="with this tag alone")] = None,
    q: Annotated[
        str | None,
        Query(
            max_length=100,
            description="with all of these words in names, descriptions, tags, columns, owners and streams",
        ),
    ] = None,
) -> dict[str, Any]:
    """List the PTKs of the streams on which the caller has a role, and those for whose verdicts such a stream pays."""
    seen = caller.identity.visible_streams(caller.principal)
    specs = list(caller.service.ptks(stream=stream, team=team))
    if stream is not None:
        tested = caller.service.ptks_tested_on(stream)
        specs = sorted(
            (*specs, *(one for one in tested if team in (None, one.team))), key=lambda one: one.ptk_id
        )
    specs = [spec for spec in specs if {spec.stream, spec.tested_on} & seen]
    words = words_of(q or "")
    specs = [spec for spec in specs if (tag is None or tag in spec.tags) and has_words(spec, words)]
    readable = caller.identity.streams_for(caller.principal, Action.STATE_READ)
    newest, times = caller.service.newest_versions(), caller.service.newest_times()

    def listed(spec: PtkSpec) -> dict[str, Any]:
        may = spec.stream in readable
        at = times.get(spec.ptk_id) if may else None
        return {
            **ptk_document(spec),
            "newest_version": newest.get(spec.ptk_id, 0) if may else None,
            "newest_published_at": None if at is None else to_the_second(at),
        }

    return page_of(specs, lambda spec: spec.ptk_id, listed, cursor, limit)


@resource.route(
    "POST", "/streams/{stream}/admission", Action.PTK_ADMIT, response_model=AdmissionOut, large=True
)
def admit_ptks(stream: StreamName, body: ExchangeIn, caller: WhoAsks) -> dict[str, Any]:
    """Say which PTKs of the caller's team would be refused on a stream, and why; nothing is changed.

    They are looked at together, beside all others, as if what is to be deregistered were gone. Nothing is promised, and
    team code is not run.
    """
    team, wanted = caller.principal.team, _wanted(body)
    _permit_tests(caller, *map(_said, body.ptks))
    admission = caller.service.admit_ptks(team=team, stream=stream, wanted=wanted, leaving=body.deregister)
    return admission_document(admission)


@resource.route(
    "POST", "/streams/{stream}/exchange", Action.PTK_EXCHANGE, response_model=Exchanged, large=True
)
def exchange_ptks(stream: StreamName, body: ExchangeIn, caller: WhoAsks, request: Request) -> dict[str, Any]:
    """Register, change and deregister PTKs of the caller's team on a stream: all of it, or nothing.

    Repeating it changes nothing. Team code that is new is examined before.
    """
    team, wanted = caller.principal.team, _wanted(body)
    _permit_tests(caller, *map(_said, body.ptks))
    caller.recorded.parts = exchanged(team, wanted, body.deregister)
    caller.service.exchange_ptks(
        team=team,
        stream=stream,
        wanted=wanted,
        leaving=body.deregister,
        before_code=partial(leave_place, request),
    )
    return {"stream": stream}


def _permit_tests(caller: Caller, *said: Mapping[str, Any]) -> None:
    """Refuse a caller whose PTKs would spend on test blocks of a stream where they may not register one."""
    for one in said:
        accept = Accept.of(one["config"] or {})
        if accept is not None and accept.stream is not None:
            caller.permit(Named(stream=accept.stream))


def _wanted(body: ExchangeIn) -> list[WantedPtk]:
    return [WantedPtk(one.name, _said(one)) for one in body.ptks]


def _said(one: PtkIn | WantedIn) -> dict[str, Any]:
    return one.model_dump(include=set(PTK_ARGUMENTS))


@resource.route("GET", "/ptks/{ptk_id}", Action.PTK_READ, response_model=PtkOut)
def show_ptk(ptk_id: PtkName, caller: WhoAsks) -> dict[str, Any]:
    """Show a registered PTK."""
    return ptk_document(caller.service.ptk(ptk_id))


@resource.route("GET", "/ptks/{ptk_id}/profile", Action.PROFILE_READ, response_model=ProfileOut)
def show_profile(ptk_id: PtkName, caller: WhoAsks) -> dict[str, Any]:
    """Show what is known of how many rows a PTK needs at which epsilon, what that cost, and whether it drifted.

    Released answers and public numbers, for the team that the PTK belongs to.
    """
    return profile_document(caller.service.profile(ptk_id))


@resource.route("GET", "/ptks/{ptk_id}/trainings", Action.TRAINING_LIST, response_model=Page[TrainingOut])
def list_trainings(
    ptk_id: PtkName, caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100
) -> dict[str, Any]:
    """List what became of a PTK's trainings, for the team that it belongs to.

    By newest window and look. Without a version, a fixed code says why: never a message, a count or a duration.
    """
    place, _, look = ("0" if cursor is None else place_in(cursor)).partition(".")
    start, first = number_at(place), number_at(look or "1")
    trainings = caller.service.trainings(ptk_id, start=start, look=first, limit=limit + 1)
    after = trainings[limit] if len(trainings) > limit else None
    return {
        "items": [wire_training(one) for one in trainings[:limit]],
        "next_cursor": None if after is None else cursor_at(f"{after.window}.{after.look}"),
    }


@resource.route("PATCH", "/ptks/{ptk_id}", Action.PTK_UPDATE, response_model=PtkOut)
def update_ptk(ptk_id: PtkName, body: PtkPatch, caller: WhoAsks) -> dict[str, Any]:
    """Change a PTK's estimator, target, config, description or tags from the next window on.

    Trainings that are reserved keep their reservation.
    """
    change = body.model_dump()
    registered = caller.service.ptk(ptk_id)
    _permit_tests(caller, {"config": registered.config if change["config"] is None else change["config"]})
    return ptk_document(caller.service.update_ptk(ptk_id, **change))


@resource.route("DELETE", "/ptks/{ptk_id}", Action.PTK_DEREGISTER, status=204)
def deregister_ptk(ptk_id: PtkName, caller: WhoAsks) -> None:
    """Stop training a PTK and take its views away.

    Its published versions stay in the lake. Registering its name again on the same stream brings it back.
    """
    caller.service.deregister_ptk(ptk_id)


@resource.route("POST", "/ptks/{ptk_id}/resume", Action.PTK_RESUME, response_model=Resumed)
def resume(ptk_id: PtkName, caller: WhoAsks) -> dict[str, Any]:
    """Train a PTK again that was given up as no state of it was accepted in time.

    Repeating it changes nothing.
    """
    _permit_tests(caller, {"config": caller.service.ptk(ptk_id).config})
    return {"window": caller.service.resume_ptk(ptk_id)}


@resource.route("POST", "/ptks/{ptk_id}/notify", Action.PTK_NOTIFY, response_model=Told)
def notify(ptk_id: PtkName, caller: WhoAsks) -> dict[str, Any]:
    """Tell subscribers of the newest version once more."""
    return {"subscriptions": caller.service.notify_new_ptk_state(ptk_id)}


@resource.route("POST", "/ptks/{ptk_id}/materialize", Action.PTK_MATERIALIZE, response_model=Materialized)
def materialize(ptk_id: PtkName, caller: WhoAsks) -> dict[str, Any]:
    """Have the rows of the newest version written online again.

    For an online store that lost them. It costs no budget, and repeating it is harmless.
    """
    return {"version": caller.service.materialize_ptk(ptk_id)}


@resource.route("POST", "/ptks/{ptk_id}/rollback", Action.PTK_ROLL_BACK, response_model=RolledBack)
def roll_back(ptk_id: PtkName, body: RollbackIn, caller: WhoAsks) -> dict[str, Any]:
    """Publish the state of an older version again, as the next version.

    It costs no budget; repeating the request changes nothing.
    """
    return {"version": caller.service.rollback_ptk(ptk_id, body.to)}
