"""Streams: create, list, show, close, forget, recommend, exposure."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import JSONResponse

from ptkstore.api.requests.access import WhoAsks
from ptkstore.api.requests.idempotency import IdempotencyKey, created
from ptkstore.api.requests.pages import Cursor, Limit, page_of
from ptkstore.api.requests.routers import Resource, StreamName
from ptkstore.domain.fields import time_of
from ptkstore.domain.identity import Action
from ptkstore.domain.scheduling.simulation.requests import (
    MODES,
    MOST_ARRIVALS,
    MOST_SEED,
    MOST_WINDOWS,
    SimulatedScheduler,
    SimulationRequest,
)
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.errors import UnknownName
from ptkstore.sdk.documents.exposures import exposure_document, window_document
from ptkstore.sdk.documents.queues import ended_wait_document, queued_document
from ptkstore.sdk.documents.recommendations import advice_document
from ptkstore.sdk.documents.resources import stream_document, stream_of
from ptkstore.sdk.documents.simulations import simulation_document
from ptkstore.wire.base import Page
from ptkstore.wire.streams import (
    Advice,
    Closed,
    CloseIn,
    EndedWaitsOut,
    ExposureOut,
    ForgetIn,
    Forgotten,
    QueueOut,
    SimulationOut,
    StreamIn,
    StreamOut,
    StreamPatch,
    WindowOut,
)

resource = Resource("streams")


@resource.route(
    "POST", "/streams", Action.STREAM_CREATE, status=201, problems=(404,), response_model=StreamOut
)
def create_stream(body: StreamIn, caller: WhoAsks, key: IdempotencyKey = None) -> JSONResponse:
    """Create a stream.

    Repeating it with equal content changes nothing. Without an origin the first window is the present one, counted from
    midnight UTC; repeating it later keeps the origin.
    """
    caller.about("stream", body.name)
    document = body.model_dump()
    if document["origin"] is None:
        origin = caller.service.origin_for(body.name, timedelta(seconds=document["window_seconds"]))
        document["origin"] = origin.isoformat()
    stream = stream_of(document)
    if stream.team not in caller.identity.teams():
        raise UnknownName("team", stream.team)

    def act() -> StreamOut:
        caller.service.create_stream(stream)
        return StreamOut(**stream_document(stream))

    return created(caller, key, "create_stream", body, act)


@resource.route("GET", "/streams", Action.STREAM_LIST, response_model=Page[StreamOut])
def list_streams(caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100) -> dict[str, Any]:
    """List the streams on which the caller has a role."""
    seen = caller.identity.visible_streams(caller.principal)
    streams = [stream for stream in caller.service.streams() if stream.name in seen]
    return page_of(streams, lambda stream: stream.name, stream_document, cursor, limit)


@resource.route("GET", "/streams/{stream}", Action.STREAM_READ, response_model=StreamOut)
def show_stream(stream: StreamName, caller: WhoAsks) -> dict[str, Any]:
    """Show a stream's schema and policy."""
    return stream_document(caller.service.stream(stream))


@resource.route("PATCH", "/streams/{stream}", Action.STREAM_EVOLVE, response_model=StreamOut)
def evolve_stream(stream: StreamName, body: StreamPatch, caller: WhoAsks) -> dict[str, Any]:
    """Add a column with a default; repeating it changes nothing.

    Rows that came before into windows that are still open, and those that come without it, have the default.
    """
    column = body.add_column
    grown = caller.service.evolve_stream(stream, column.name, ColumnType(column.type), column.default)
    return stream_document(grown)


@resource.route("POST", "/streams/{stream}/close", Action.STREAM_CLOSE, response_model=Closed)
def close_windows(stream: StreamName, body: CloseIn, caller: WhoAsks) -> dict[str, Any]:
    """Close the windows that have ended.

    Final: later rows are refused as late. A stream that its operator closes needs `until`, an event time.
    """
    until = None if body.until is None else time_of(body.until)
    closed = caller.service.close_windows(stream, until, expire_unfinished=body.expire_unfinished)
    return {"windows": [window.index for window in closed]}


@resource.route("POST", "/streams/{stream}/forget", Action.STREAM_FORGET, response_model=Forgotten)
def forget_unit(stream: StreamName, body: ForgetIn, caller: WhoAsks) -> dict[str, Any]:
    """Erase a user's rows from all windows that are still kept.

    The answer is the same if there were none. Spent budget and published states stay.
    """
    caller.service.forget(stream, body.unit)
    return {"forgotten": True}


@resource.route("GET", "/streams/{stream}/queue", Action.BUDGET_READ, response_model=QueueOut)
def show_queue(stream: StreamName, caller: WhoAsks) -> dict[str, Any]:
    """Say which PTKs wait on an adaptive stream, since when and for what.

    A stream with the scheduler `allocate` has no queue. Of a stream with contexts, those of the caller's context.
    """
    queued = caller.service.queue(stream, team=caller.principal.team)
    return {
        "stream": stream,
        "scheduler": caller.service.stream(stream).policy.scheduler.value,
        "items": [queued_document(one) for one in queued],
    }


@resource.route("GET", "/streams/{stream}/queue/ended", Action.BUDGET_READ, response_model=EndedWaitsOut)
def show_ended_waits(stream: StreamName, caller: WhoAsks) -> dict[str, Any]:
    """Say of a stream whose PTKs wait from when to when they did, and how each wait ended.

    The 60 that began last. Of a stream with contexts, those of the caller's context.
    """
    ended = caller.service.ended_waits(stream, team=caller.principal.team)
    return {"stream": stream, "items": [ended_wait_document(one) for one in ended]}


@resource.route("GET", "/streams/{stream}/simulation", Action.STREAM_RECOMMEND, response_model=SimulationOut)
def simulate_stream(
    stream: StreamName,
    caller: WhoAsks,
    rate: Annotated[float, Query(gt=0, le=MOST_ARRIVALS, description="PTKs that arrive per window")],
    windows: Annotated[int, Query(ge=1, le=MOST_WINDOWS)] = 100,
    seed: Annotated[int, Query(ge=0, le=MOST_SEED)] = 0,
    scheduler: Annotated[
        list[SimulatedScheduler] | None,
        Query(
            min_length=1,
            max_length=len(SimulatedScheduler),
            description="may be repeated; by default conserve, aggressive and guided",
        ),
    ] = None,
    least_significance: Annotated[
        float | None, Query(description="L of budgeting; by default that of the stream")
    ] = None,
    most_significance: Annotated[
        float | None, Query(description="U of budgeting; by default that of the stream")
    ] = None,
) -> dict[str, Any]:
    """Say when a stream's PTKs would be released under some schedulers, and what its blocks would have left.

    From public numbers alone. Of a stream with contexts, with the PTKs of the caller's context.
    """
    schedulers = tuple(scheduler or MODES)
    request = SimulationRequest(rate, windows, seed, schedulers, least_significance, most_significance)
    return simulation_document(caller.service.simulate(stream, request, team=caller.principal.team))


@resource.route("GET", "/streams/{stream}/exposure", Action.EXPOSURE_READ, response_model=ExposureOut)
def show_exposure(stream: StreamName, caller: WhoAsks) -> dict[str, Any]:
    """Say what of a stream is kept that is no DP output, since when and until when."""
    return exposure_document(caller.service.exposure(stream))


@resource.route("GET", "/streams/{stream}/windows", Action.EXPOSURE_READ, response_model=Page[WindowOut])
def list_windows(
    stream: StreamName, caller: WhoAsks, cursor: Cursor = None, limit: Limit = 100
) -> dict[str, Any]:
    """List the windows of a stream that ever closed, by number, and what became of each."""
    windows = caller.service.windows(stream)
    return page_of(windows, lambda one: f"{one.id.index:018d}", window_document, cursor, limit)


@resource.route("GET", "/streams/{stream}/recommendation", Action.STREAM_RECOMMEND, response_model=Advice)
def recommend(
    stream: StreamName,
    caller: WhoAsks,
    partitions: Annotated[
        int | None, Query(ge=1, le=64, description="the most train partitions; the policy's by default")
    ] = None,
) -> dict[str, Any]:
    """Recommend the rows and the window length that a stream's PTKs need.

    From public numbers alone: the policy, and what PTKs declare.
    """
    return advice_document(caller.service.recommend_rows(stream, partitions))
