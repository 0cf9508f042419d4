"""Request bodies: long ones are read once it is known who asks, and all are parsed strictly."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute

from ptkstore.api.limits import Limits
from ptkstore.api.load.body_slots import BodySlots, body_of
from ptkstore.api.problems import Interrupted
from ptkstore.api.requests.access import AccessRule
from ptkstore.wire.base import plain


@dataclass(frozen=True, slots=True)
class UnparsedBody:
    """A body that is said to be JSON."""

    body: bytes = field(repr=False)

    def document(self) -> Any:
        """Read the body as JSON, or raise a 400.

        Values that json reads beyond JSON are refused, and those that no part of the service could store.
        """
        try:
            return plain(json.loads(self.body, parse_constant=_no_constant, object_pairs_hook=_distinct))
        except (ValueError, RecursionError):  # their texts quote the body
            raise Interrupted(400, "the body is no JSON document that can be taken") from None


class _LazyRequest(Request):
    """A body that its endpoint parses: the larger it is, the longer it delays all others."""

    async def json(self) -> UnparsedBody:
        return UnparsedBody(await self.body())


class LazyRoute(APIRoute):
    """A route that gives its endpoint the body unread. Only callers who may send it hear what is wrong."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, given a lazy request."""
        handle = super().get_route_handler()
        rule: AccessRule | None = getattr(self.endpoint, "rule", None)
        large = getattr(self.endpoint, "large", False)

        async def read_late(request: Request) -> Response:
            lazy = _LazyRequest(request.scope, request.receive)
            if rule is None or not large or not _is_long(request):
                return await handle(lazy)
            # Before so much of it is read; the endpoint asks again.
            principal = await request.app.state.cpu_limiter.run(partial(rule.check, request))
            slots: BodySlots = request.app.state.large
            async with slots.reading(principal) as place:
                await body_of(lazy)
                await place.work()
                lazy.state.place = place
                return await handle(lazy)

        async def strictly(request: Request) -> Response:
            try:
                return await read_late(request)
            except RequestValidationError as error:
                if rule is not None and not getattr(request.state, "endpoint_reached", False):
                    # The endpoint, which asks who it is, was not reached.
                    await request.app.state.cpu_limiter.run(partial(rule.refuse, request, error))
                raise

        return strictly


def _is_long(request: Request) -> bool:
    """Whether a body is, or may be, longer than those that are read unasked."""
    limits: Limits = request.app.state.limits
    length = int(request.headers.get("content-length", "0"))
    return "transfer-encoding" in request.headers or length > limits.json_body


def _no_constant(name: str) -> Any:
    raise ValueError("JSON knows no such number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        raise ValueError("a name occurs twice")
    return document
