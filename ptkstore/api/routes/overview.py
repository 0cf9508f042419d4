"""The overview of the store, as its caller may see it."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from ptkstore.api.requests.access import WhoAsks
from ptkstore.api.requests.routers import Resource
from ptkstore.api.routes.health import Parts
from ptkstore.domain.identity import Action
from ptkstore.sdk.overviews import overview_document
from ptkstore.wire.overview import OverviewOut

resource = Resource("overview")


@resource.route("GET", "/overview", Action.OVERVIEW_READ, response_model=OverviewOut)
def show_overview(request: Request, caller: WhoAsks) -> dict[str, Any]:
    """Show whether the store is healthy, what needs somebody, and what happened in the last day.

    Each caller sees the streams on which it has a role, and budgets, exposure and versions as its roles allow.
    Trainings, notices and subscriptions are those of its team. An administrator sees those of all teams.
    """
    parts: Parts = request.app.state.parts
    states, codes = parts.states()
    sight = caller.identity.sight(caller.principal)
    return overview_document(caller.service.overview(sight, states, sorted(codes)))
