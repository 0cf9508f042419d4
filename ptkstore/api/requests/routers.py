"""Routers on which no route can be made without a rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import Parameter, iscoroutinefunction, signature
from typing import Annotated, Any, TypeVar, cast

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Path, Request
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter, ValidationError, WrapValidator

from ptkstore.api.load.cpu_limiter import CpuLimiter
from ptkstore.api.requests.access import AccessRule, AskedRequest, WhoAsks
from ptkstore.api.requests.parsing import LazyRoute, UnparsedBody
from ptkstore.domain.identity import Action
from ptkstore.wire.base import Name, PtkId, Wire
from ptkstore.wire.problems import MEDIA_TYPE, Problem

PREFIX = "/v1"
StreamName = Annotated[Name, Path(description="the stream's name")]
PtkName = Annotated[PtkId, Path(description="`<team>.<name>`")]
_UNSEEN = WrapValidator(lambda document, _: document)
_Endpoint = TypeVar("_Endpoint", bound=Callable[..., Any])
_MEANS = {
    400: "The request cannot succeed as it is.",
    401: "No valid token came with the request.",
    403: "The roles of the token, or a policy, do not allow it.",
    404: "There is no such thing, or it is not for the caller to see.",
    408: "The body came too slowly.",
    409: "It exists with other content, or something changed meanwhile.",
    413: "The body is too large.",
    415: "The body is of a type that is not read here.",
    422: "The document or a parameter is not as declared.",
    429: "More requests came than a token, or a team, may send in a while.",
    500: "Something that must always hold does not.",
    503: "A part does not answer; retry.",
    504: "The outcome of the request is not known; look before asking again.",
}
# Shown in the OpenAPI document; the guard reads the header itself, so that all refusals are problems.
_SHOWN = HTTPBearer(auto_error=False, scheme_name="token", description="An API token, `ptk_...`.")


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Problem answers for the OpenAPI document."""
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {
        status: {"description": _MEANS[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


class Resource:
    """One kind of thing below /v1. Each of its routes names the action that is looked up in the table of roles."""

    def __init__(self, tag: str) -> None:
        self.router = APIRouter(prefix=PREFIX, tags=[tag], route_class=LazyRoute, redirect_slashes=False)

    def route(
        self,
        method: str,
        path: str,
        action: Action,
        *,
        status: int = 200,
        problems: Sequence[int] = (),
        large: bool = False,
        asks_outside: bool = False,
        **more: Any,
    ) -> Callable[[_Endpoint], _Endpoint]:
        """Declare a route.

        Parameters
        ----------
        problems : sequence of int
            Refusals beyond those that any route may give.
        large : bool
            Lets a document be longer than others.
        asks_outside : bool
            For a route that waits for a host whose name its caller chose. It has threads of its own, so that a silent
            host delays no other request.
        """
        statuses = sorted({400, 401, 403, 422, 429, 500, 503, *problems, *([404] if "{" in path else [])})
        if method != "GET":
            statuses = sorted({*statuses, 408, 409, 413, 415, 504})
        responses = {**refusals(*statuses), **more.pop("responses", {})}
        roles = ", ".join(sorted(action.rule.roles))

        def declare(endpoint: _Endpoint) -> _Endpoint:
            doc = (endpoint.__doc__ or "").strip()
            rule = AccessRule(action, path)
            first = [Depends(rule, scope="function")] if iscoroutinefunction(endpoint) else []
            self.router.add_api_route(
                path,
                endpoint
                if first
                else _in_one_thread(endpoint, rule, status, large=large, asks_outside=asks_outside),
                methods=[method],
                status_code=status,
                operation_id=endpoint.__name__,
                summary=doc.partition("\n")[0].rstrip("."),
                description=f"{doc}\n\nRoles: {roles}.",
                responses=responses,
                dependencies=[*first, Depends(_SHOWN)],
                **more,
            )
            rule.query_names = _query_names(cast("APIRoute", self.router.routes[-1]))
            return endpoint

        return declare


def _in_one_thread(
    endpoint: _Endpoint, rule: AccessRule, status: int, *, large: bool, asks_outside: bool
) -> _Endpoint:
    """The endpoint behind its access rule: first who asks, then what; the document that it makes is the answer.

    A document that came is read and held against its model here: that costs more the larger it is and the worse. Our
    own answers need no second check: the OpenAPI document has both models, and tests compare the answers with it.
    """
    declared = signature(endpoint, eval_str=True)
    callers = [name for name, one in declared.parameters.items() if one.annotation == WhoAsks]
    asking = Parameter("pending_request", Parameter.KEYWORD_ONLY, annotation=AskedRequest)
    others = [one for one in declared.parameters.values() if one.name not in callers]
    models = {one.name: TypeAdapter(one.annotation) for one in others if _is_document(one.annotation)}
    shown = [
        one.replace(annotation=Annotated[one.annotation, _UNSEEN]) if one.name in models else one
        for one in others
    ]

    def answer(request: Request, named: dict[str, Any]) -> Response:
        with rule.admitted(request) as caller:
            for name, model in models.items():
                named[name] = _read(model, named[name])
            made = endpoint(**named, **dict.fromkeys(callers, caller))
        if isinstance(made, Response):
            return made
        return Response(status_code=status) if made is None else JSONResponse(made, status)

    @wraps(endpoint)
    async def answered(*, pending_request: Request, **named: Any) -> Response:
        pending_request.state.endpoint_reached = True
        if asks_outside:
            outside: CapacityLimiter = pending_request.app.state.outside
            return await to_thread.run_sync(partial(answer, pending_request, named), limiter=outside)
        cpu_limiter: CpuLimiter = pending_request.app.state.cpu_limiter
        return await cpu_limiter.run(partial(answer, pending_request, named))

    answered.__signature__ = declared.replace(parameters=[*shown, asking])  # type: ignore[attr-defined]
    answered.rule, answered.large = rule, large  # type: ignore[attr-defined]
    return cast("_Endpoint", answered)


def _query_names(route: APIRoute) -> tuple[str, ...]:
    params = get_flat_params(route.dependant)
    return tuple(one.alias for one in params if isinstance(one.field_info, Query))


def _is_document(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Wire)


def _read(model: TypeAdapter[Any], document: Any) -> Any:
    """The document as its model, or the error that the framework would raise."""
    if isinstance(document, UnparsedBody):
        document = document.document()
    try:
        return model.validate_python(document, from_attributes=True)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in faults]) from None


def rules_of(route: APIRoute) -> list[AccessRule]:
    """Return the rules that a request passes before it reaches the endpoint of a route."""
    rules = [one.call for one in route.dependant.dependencies if isinstance(one.call, AccessRule)]
    inside = getattr(route.endpoint, "rule", None)
    return [*rules, inside] if isinstance(inside, AccessRule) else rules
