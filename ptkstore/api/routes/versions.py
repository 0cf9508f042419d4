"""Published versions: their list, manifests and files, and events of new ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Header, Path, Request
from fastapi.responses import Response, StreamingResponse

from ptkstore.api.event_feed import EventFeed
from ptkstore.api.requests.access import WhoAsks, token_text
from ptkstore.api.requests.pages import Cursor, Limit, number_at, number_in, page_of, page_up_to, place_in
from ptkstore.api.requests.routers import PtkName, Resource, StreamName
from ptkstore.api.version_cache import CachedVersion, VersionCache
from ptkstore.application.identity.authorize import Named
from ptkstore.domain.identity import Action
from ptkstore.domain.streams.windows import INDEX_MAX
from ptkstore.errors import UnknownName
from ptkstore.sdk.documents.evaluations import evaluation_document
from ptkstore.sdk.documents.lineage import descendant_document
from ptkstore.sdk.documents.resources import version_document
from ptkstore.sdk.documents.validations import validation_document
from ptkstore.wire.base import Page
from ptkstore.wire.ptks import DescendantOut, EvaluationOut, ValidationOut, VersionOut

resource = Resource("versions")
Number = Annotated[int, Path(ge=1, le=10**8 - 1, description="the version")]
IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", max_length=200, description="an ETag that is known")
]
_FOR_EVER = "private, max-age=31536000, immutable"


@resource.route("GET", "/ptks/{ptk_id}/versions", Action.STATE_READ, response_model=Page[VersionOut])
def list_versions(
    ptk_id: PtkName, caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100
) -> dict[str, Any]:
    """List the published versions of a PTK."""
    versions = caller.service.versions(ptk_id, after=number_in(cursor), limit=limit + 1)
    return page_up_to(versions, limit, version_document, lambda one: str(one.number))


@resource.route(
    "GET",
    "/streams/{stream}/windows/{window}/versions",
    Action.STATE_TRACE,
    response_model=Page[DescendantOut],
)
def trace_window(
    stream: StreamName,
    window: Annotated[int, Path(ge=0, le=INDEX_MAX, description="counted from the stream's origin")],
    caller: WhoAsks,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> dict[str, Any]:
    """List the published versions that a window's rows went into.

    Of all PTKs that the stream ever had: those that were trained on the window, and those made from such. All of it
    is from their manifests, and nothing from the window's rows.
    """
    after = None if cursor is None else _key_in(cursor)
    versions = caller.service.trace_window(stream, window, after=after, limit=limit + 1)
    return page_up_to(versions, limit, descendant_document, lambda one: f"{one.ptk_id}/{one.version}")


@resource.route("GET", "/ptks/{ptk_id}/evaluations", Action.STATE_READ, response_model=Page[EvaluationOut])
def list_evaluations(
    ptk_id: PtkName, caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100
) -> dict[str, Any]:
    """List the paid estimates of the losses of a PTK's versions."""
    evaluations = caller.service.evaluations(ptk_id)
    return page_of(evaluations, lambda one: f"{one.number:08d}", evaluation_document, cursor, limit)


@resource.route("GET", "/ptks/{ptk_id}/validations", Action.STATE_READ, response_model=Page[ValidationOut])
def list_validations(
    ptk_id: PtkName, caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100
) -> dict[str, Any]:
    """List the verdicts on a PTK's trained states."""
    numbered = tuple(enumerate(caller.service.validations(ptk_id)))
    return page_of(
        numbered, lambda one: f"{one[0]:08d}", lambda one: validation_document(one[1]), cursor, limit
    )


@resource.route(
    "GET",
    "/ptks/{ptk_id}/versions/{number}/manifest",
    Action.STATE_READ,
    response_class=Response,
    responses={
        200: {
            "description": "The manifest, byte for byte as in the lake; its ETag is its SHA-256.",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        304: {"description": "It is known."},
    },
)
def show_manifest(
    ptk_id: PtkName, number: Number, request: Request, caller: WhoAsks, if_none_match: IfNoneMatch = None
) -> Response:
    """Read the manifest of a published version."""
    state = _state(request, ptk_id, number)
    return _immutable(state.manifest, state.sha256, "application/json", if_none_match)


@resource.route(
    "GET",
    "/ptks/{ptk_id}/versions/{number}/files/{name}",
    Action.STATE_READ,
    response_class=Response,
    responses={
        200: {
            "description": "The file, byte for byte as in the lake; its ETag is its SHA-256.",
            "content": {"application/vnd.apache.parquet": {"schema": {"type": "string", "format": "binary"}}},
        },
        304: {"description": "It is known."},
    },
)
def download_file(
    ptk_id: PtkName,
    number: Number,
    name: Annotated[str, Path(max_length=200, description="as the manifest names it")],
    request: Request,
    caller: WhoAsks,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Download a file of a published version, verified."""
    content = _state(request, ptk_id, number).files.get(name)
    if content is None:
        raise UnknownName("file of this version", "?")
    sha256 = name.removesuffix(".parquet").rpartition("-")[2]  # the name carries it, and it was verified
    return _immutable(content, sha256, "application/vnd.apache.parquet", if_none_match)


@resource.route(
    "GET",
    "/ptks/{ptk_id}/events",
    Action.EVENT_FOLLOW,
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events `ptk.state.published`; the id of an event is its version.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    },
)
async def follow_events(
    ptk_id: PtkName,
    request: Request,
    caller: WhoAsks,
    last: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            pattern=r"^\d{1,9}$",
            description="The last version heard of; by default only versions to come are told.",
        ),
    ] = None,
) -> StreamingResponse:
    """Follow new versions as server-sent events.

    A version is told once it is online, in order. The stream ends within the hour, when the server stops, or when the
    token is no longer valid. Clients then reconnect with the last id.
    """
    event_feed: EventFeed = request.app.state.event_feed
    text = token_text(request)

    def still() -> None:
        caller.identity.authorize(text, Action.EVENT_FOLLOW, Named(ptk_id=ptk_id))

    place = event_feed.place(caller.principal.team, ptk_id)
    await place.__aenter__()  # before the answer begins: there may be no place

    async def events() -> AsyncIterator[bytes]:
        try:
            async for event in event_feed.events(ptk_id, None if last is None else int(last), still):
                yield event
        finally:
            await place.__aexit__(None, None, None)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def _key_in(cursor: str) -> tuple[str, int]:
    """PTK and number of the version that a cursor goes on after."""
    ptk_id, _, number = place_in(cursor).rpartition("/")
    return ptk_id, number_at(number)


def _state(request: Request, ptk_id: str, number: int) -> CachedVersion:
    version_cache: VersionCache = request.app.state.version_cache
    return version_cache.get(ptk_id, number)


def _immutable(content: bytes, sha256: str, media_type: str, if_none_match: str | None) -> Response:
    tag = f'"{sha256}"'
    headers = {"ETag": tag, "Cache-Control": _FOR_EVER}
    if if_none_match is not None and tag in if_none_match:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)
