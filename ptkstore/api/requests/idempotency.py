"""Requests that carry an idempotency key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header
from fastapi.responses import JSONResponse

from ptkstore.api.requests.access import Caller
from ptkstore.wire.base import Wire

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Of your own making: a request repeated with it, within a day, is answered as it was first.",
    ),
]


def created(
    caller: Caller,
    key: str | None,
    operation: str,
    body: Wire,
    act: Callable[[], Wire],
    *,
    secret: str | None = None,
) -> JSONResponse:
    """Answer a request that creates something; with a key, once.

    Parameters
    ----------
    key : str, optional
        As it came with the request; repeated with it, `body` and `operation`, the request is answered as it was.
    act : callable
        Creates it, and returns the answer.
    secret : str, optional
        The field of the answer that is shown to the first who asks and stored nowhere. Such a request makes something
        new each time, and is not done again where its first end is unknown.
    """
    live: dict[str, Any] = {}

    def stored() -> tuple[int, str]:
        live.update(act().model_dump(mode="json"))
        public = {**live, secret: None} if secret is not None else live
        return 201, json.dumps(public)

    if key is None:
        stored()
        return JSONResponse(live, 201)
    answer, old = caller.identity.answer_once(
        caller.principal.team,
        key,
        {"operation": operation, "asked": body.model_dump(mode="json")},
        stored,
        repeatable=secret is None,
    )
    if not old:
        return JSONResponse(live, 201)
    return JSONResponse(json.loads(answer.content), answer.status, headers={"Idempotency-Replayed": "true"})
