"""Online lookups through Feast."""

from __future__ import annotations

import base64
import re
from datetime import datetime
from typing import Any

import orjson
from fastapi.responses import Response

from ptkstore.api.requests.access import WhoAsks
from ptkstore.api.requests.routers import Resource
from ptkstore.application.identity.authorize import Named
from ptkstore.domain.identity import Action
from ptkstore.domain.names import split_ptk_id
from ptkstore.domain.ptks.serving import STATE_KEY
from ptkstore.domain.ptks.views import STATE_VIEW
from ptkstore.errors import InvalidRequest, TooLarge, UnknownName
from ptkstore.ports.features import Answers
from ptkstore.wire.ptks import LookupIn, LookupOut

resource = Resource("lookups")

CELLS_MAX = 200_000
# A name may end with "_" and begins with a letter: of `a__b___t`, the name is `b_`.
_SEPARATOR = re.compile(r"__(?=[a-z])")


@resource.route("POST", "/lookups", Action.FEATURE_LOOK_UP, problems=(404, 413), response_model=LookupOut)
def look_up(body: LookupIn, caller: WhoAsks) -> Response:
    """Look features up online.

    All features of one view are of one version. `ptk_state`, by the key `ptk`, tells the newest version of a PTK.
    """
    if len(body.features) * len(body.entities) > CELLS_MAX:
        raise TooLarge(f"at most {CELLS_MAX} values are looked up at once")
    caller.permit(*_ptks_in(body))
    results = caller.service.look_up(body.features, body.entities)
    return Response(_text(results), media_type="application/json")


def _ptks_in(body: LookupIn) -> list[Named]:
    """The PTKs whose views are asked, and those that `ptk_state` is asked about."""
    ptk_ids: set[str] = set()
    for reference in body.features:
        view = reference.partition(":")[0].partition("@")[0]
        if view == STATE_VIEW:
            ptk_ids.update(str(entity.get(STATE_KEY, "")) for entity in body.entities)
            continue
        team, name, *_ = [*_SEPARATOR.split(view), ""]
        ptk_ids.add(f"{team}.{name}")
    return [Named(ptk_id=_checked(ptk_id)) for ptk_id in sorted(ptk_ids)]


def _checked(ptk_id: str) -> str:
    try:
        split_ptk_id(ptk_id)
    except InvalidRequest:
        raise UnknownName("feature view of a PTK", "?") from None
    return ptk_id


def _text(results: Answers) -> bytes:
    """As JSON; a number that is not finite is null there."""
    assured = {view: one.document() for view, one in results.assured.items()}
    return orjson.dumps({"results": results, "assured": assured}, default=_other)


def _other(value: Any) -> str:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():  # of a kind of its own
            return value.isoformat()
        case _:
            raise TypeError("a feature of a type that JSON has no form for")
