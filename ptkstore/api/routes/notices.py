"""Words left for owners."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from ptkstore.api.requests.access import WhoAsks
from ptkstore.api.requests.pages import Cursor, Limit, number_in, page_up_to
from ptkstore.api.requests.routers import Resource
from ptkstore.application.delivery.read_notices import readable_team
from ptkstore.domain.identity import Action
from ptkstore.domain.times import utc
from ptkstore.sdk.notices import wire_notice
from ptkstore.wire.base import Name, Page, Time
from ptkstore.wire.notices import NoticeOut

resource = Resource("notices")


@resource.route("GET", "/notices", Action.NOTICE_LIST, problems=(404,), response_model=Page[NoticeOut])
def list_notices(
    caller: WhoAsks,
    cursor: Cursor = None,
    limit: Limit = 100,
    team: Annotated[Name | None, Query(description="for an administrator: of this team alone")] = None,
    since: Annotated[Time | None, Query(description="left at this time or after it")] = None,
) -> dict[str, Any]:
    """List what the caller's team was told; an administrator sees what all were.

    Oldest first: how trainings ended, dead letters, endpoints that were disabled, profiles, refusals. A notice has
    ids and fixed codes, never a row, a value, a count or an endpoint.
    """
    whose = readable_team(caller.principal, team)
    skip = number_in(cursor)
    notices = caller.service.notices(
        whose, since=None if since is None else utc(since), skip=skip, limit=limit + 1
    )
    return page_up_to(notices, limit, wire_notice, lambda _: str(skip + limit))
