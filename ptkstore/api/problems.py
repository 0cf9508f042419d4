"""Errors as RFC 9457 problems: parents of the taxonomy say which status, codes stay what they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from ptkstore import errors as e
from ptkstore.wire.problems import MEDIA_TYPE, TYPE_PREFIX, Fault, Problem

# The narrowest class that is listed decides.
STATUS: dict[type[e.PtkStoreError], int] = {
    e.InvalidRequest: 400,
    e.Unauthenticated: 401,
    e.Refused: 403,
    e.UnknownName: 404,
    e.Conflict: 409,
    e.WindowGone: 410,
    e.TooLarge: 413,
    e.UnknownFormat: 415,
    e.SchemaMismatch: 422,
    e.InvariantBroken: 500,
    e.TooManyRequests: 429,
    e.Unavailable: 503,
    e.OutcomeUnknown: 504,
    e.PtkStoreError: 500,
}
RETRY_AFTER_SECONDS = 2
_TITLES = {
    400: "The request cannot succeed as it is",
    401: "The caller is not known",
    403: "Policy said no",
    404: "There is no such thing",
    405: "This method is not for this address",
    408: "The request came too slowly",
    409: "Something else changed meanwhile",
    410: "It has left its retention",
    413: "The request is too large",
    415: "The body is of a type that is not read here",
    422: "The document is not as it should be",
    429: "More requests came than one caller may send",
    500: "Something that must always hold does not",
    503: "A part does not answer",
    504: "The outcome of the request is not known",
}
# What a mistake of the framework's own kinds is called.
_CODES = {
    400: "invalid-request",
    404: "unknown-name",
    405: "method-not-allowed",
    408: "too-slow",
    413: "too-large",
    415: "unknown-format",
    422: "invalid-request",
    500: "internal-error",
    503: "unavailable",
    504: "outcome-unknown",
}


class Interrupted(HTTPException):
    """A body that broke a limit while it was read; the framework lets this kind pass."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail)


def status_of(error: e.PtkStoreError) -> int:
    """Return the HTTP status of an error."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def problem_of(error: e.PtkStoreError, request_id: str) -> Problem:
    """Return an error as a problem; its message names public things only, by the rule of the taxonomy."""
    status = status_of(error)
    unknown = error if isinstance(error, e.UnknownName) else None
    broken = isinstance(error, e.InvariantBroken)
    return Problem(
        type=TYPE_PREFIX + error.code,
        title=_TITLES[status],
        status=status,
        code=error.code,
        detail="this is for the operator, who finds it by the request id" if broken else str(error),
        request_id=request_id,
        kind=None if unknown is None else unknown.kind,
        name=None if unknown is None else unknown.name,
    )


def plain_problem(status: int, detail: str, request_id: str, faults: Sequence[Fault] = ()) -> Problem:
    """Return a problem that has no error class here."""
    code = _CODES.get(status, "error")
    return Problem(
        type=TYPE_PREFIX + code,
        title=_TITLES.get(status, "The request failed"),
        status=status,
        code=code,
        detail=detail,
        request_id=request_id,
        faults=list(faults),
    )


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that carries a problem."""
    more = dict(headers or {})
    if problem.status == 401:
        more.setdefault("WWW-Authenticate", 'Bearer realm="ptkstore"')
    if problem.status in (429, 503):
        more.setdefault("Retry-After", str(RETRY_AFTER_SECONDS))
    return Response(
        problem.model_dump_json(exclude_none=True), problem.status, media_type=MEDIA_TYPE, headers=more
    )


def install(app: FastAPI) -> None:
    """Have every error answered as a problem."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, e.PtkStoreError)
        request.state.code = error.code
        wait = {"Retry-After": str(error.retry_after)} if isinstance(error, e.TooManyRequests) else None
        return answer(problem_of(error, request.state.request_id), wait)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        request.state.code = "invalid-request"
        faults = [_fault(one, request.app.state.field_names()) for one in error.errors()[:20]]
        problem = plain_problem(
            422, "the document or a parameter is not as declared", request.state.request_id, faults
        )
        return answer(problem)

    async def framework(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        detail = error.detail if isinstance(error, Interrupted) else _TITLES.get(error.status_code, "")
        problem = plain_problem(error.status_code, detail, request.state.request_id)
        request.state.code = problem.code
        allow = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
        return answer(problem, allow)

    app.add_exception_handler(e.PtkStoreError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, framework)


def _fault(error: Mapping[str, Any], field_names: frozenset[str]) -> Fault:
    """Return the place of a fault in a document, and the validator's code.

    A name that is not declared is the caller's own text.
    """
    path = (str(p) if isinstance(p, int) or p in field_names else "*" for p in error["loc"])
    return Fault(
        where=".".join(path),
        reason=str(error["type"]).replace("_", "-"),
        pattern=error.get("ctx", {}).get("pattern"),
    )
