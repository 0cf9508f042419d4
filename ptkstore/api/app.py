"""The application, on a service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig

from ptkstore.api import problems
from ptkstore.api.device_counts import DeviceCounts
from ptkstore.api.devices.described import describe
from ptkstore.api.devices.origins import DeviceOrigins
from ptkstore.api.devices.rates import GatewayRates
from ptkstore.api.devices.routes import DEVICE_PATHS, DeviceRoutes
from ptkstore.api.devices.served import ServedModels
from ptkstore.api.event_feed import EventFeed
from ptkstore.api.limits import Limits
from ptkstore.api.load.body_slots import BodySlots
from ptkstore.api.load.cpu_limiter import CpuLimiter
from ptkstore.api.load.decoded_bytes import DecodedShares
from ptkstore.api.load.rates import Rates
from ptkstore.api.metrics import Metrics
from ptkstore.api.online_check import OnlineRows
from ptkstore.api.requests.bounds import Bounds
from ptkstore.api.requests.envelope import Envelope
from ptkstore.api.requests.near_names import Pace
from ptkstore.api.requests.routers import PREFIX, rules_of
from ptkstore.api.routes import (
    bundles,
    device_streams,
    health,
    identity,
    ingest,
    ledger,
    lookups,
    notices,
    overview,
    ptks,
    streams,
    subscriptions,
    versions,
)
from ptkstore.api.version_cache import VersionCache
from ptkstore.application.identity.refused_callers import RefusedCallers
from ptkstore.application.operations.few import Few
from ptkstore.errors import InvariantBroken
from ptkstore.wire.problems import Problem
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

VERSION = "1.0.0"
_ABOUT = """\
Share what sensitive event streams know, as differentially private feature models.

Every request below `/v1` carries a token: `Authorization: Bearer ptk_...`. Refusals are problems as of RFC 9457 with a
fixed `code`. Lists come in pages. Unknown query parameters are refused. Requests that create something may carry an
`Idempotency-Key`.
"""
# The environment could have it trace and time what devices ask for, and routes that handle rows.
_NONE_OF_THE_FRAMEWORK: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "auto_configure": False,
}
RESOURCES = (
    overview,
    streams,
    ingest,
    ledger,
    bundles,
    ptks,
    versions,
    lookups,
    subscriptions,
    notices,
    device_streams,
    identity,
)


def create_app(service: Service, limits: Limits | None = None) -> FastAPI:
    """Return the application; it does not own the service."""
    limits = limits or Limits.of(service.settings)
    online = OnlineRows(service)
    device_counts = DeviceCounts()
    numbers = Metrics(service, online, device_counts)
    models = ServedModels(lambda ptk_id, before: service.devices.served(ptk_id, before))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = limits.threads
        app.state.cpu_limiter = CpuLimiter()
        app.state.outside = CapacityLimiter(limits.threads_outside)
        app.state.slots = BodySlots(
            limits.ingests_read,
            limits.ingests_at_once,
            "many batches are being stored; send this one again later",
        )
        app.state.decoded = DecodedShares(limits.ingest_decoded_of_all, limits.ingest_decoded_of_all // 2)
        app.state.large = BodySlots(
            limits.exchanges_read,
            limits.exchanges_at_once,
            "many large documents are being read; send this one again later",
        )
        app.state.heavy = Few(limits.journals_at_once, limits.journals_of_a_team)
        app.state.event_feed = EventFeed(service, limits, numbers)
        yield
        models.close()
        if "reports" in service.__dict__:
            service.reports.close()
        await app.state.event_feed.close()

    app = FastAPI(
        title="PTK store",
        version=VERSION,
        description=_ABOUT,
        lifespan=lifespan,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NONE_OF_THE_FRAMEWORK,
        separate_input_output_schemas=False,
    )
    app.state.service, app.state.limits, app.state.metrics = service, limits, numbers
    app.state.identity = Identity(service)
    app.state.version_cache = VersionCache(service, limits.versions_cached)
    app.state.device_counts = device_counts
    app.state.ticket_rates = GatewayRates(service.settings.device_reports_per_second)
    app.state.rates = Rates(limits.requests_per_second)
    app.state.refused, app.state.refused_collectors = RefusedCallers(), RefusedCallers()
    app.state.near_names = Pace()
    app.state.parts = health.Parts(service, online)
    for room in RESOURCES:
        app.include_router(room.resource.router)
    app.include_router(health.router)
    _check_rules(app)
    problems.install(app)
    app.add_middleware(Bounds, limits=limits)
    app.add_middleware(Envelope, metrics=numbers, traces=service.traces)
    app.add_middleware(DeviceRoutes, service=service, models=models, counts=device_counts)
    if origins := service.settings.device_origins:
        app.add_middleware(DeviceOrigins, origins=origins, paths=DEVICE_PATHS)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    app.state.field_names = cache(lambda: frozenset(_names(app.openapi())))
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the problem that all refusals share."""
    if app.openapi_schema is None:
        document = FastAPI.openapi(app)
        describe(document)
        schemas = document["components"]["schemas"]
        problem = Problem.model_json_schema(mode="serialization", ref_template="#/components/schemas/{model}")
        schemas |= problem.pop("$defs", {})
        schemas[Problem.__name__] = problem
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
    return app.openapi_schema or {}


def _names(value: Any) -> Iterator[str]:
    """Return the names of declared fields and parameters. A problem may name them to say where a fault is."""
    if isinstance(value, dict):
        yield from value.get("properties", {})
        if "in" in value and "name" in value:
            yield str(value["name"])
        for item in value.values():
            yield from _names(item)
    elif isinstance(value, list):
        for item in value:
            yield from _names(item)
    yield from ("body", "query", "path", "header")


def routes_of(app: FastAPI) -> list[APIRoute]:
    """Return all routes that the application answers, those of its routers included."""
    routes: list[APIRoute] = []
    waiting = list(app.routes)
    while waiting:
        route = waiting.pop()
        if isinstance(route, APIRoute):
            routes.append(route)
        else:
            waiting += getattr(getattr(route, "original_router", None), "routes", ())
    return routes


def _check_rules(app: FastAPI) -> None:
    """Below /v1 nothing is served without a rule."""
    for route in routes_of(app):
        guards = rules_of(route)
        if len(guards) != route.path.startswith(f"{PREFIX}/"):
            raise InvariantBroken(f"the route {route.path} has {len(guards)} rules")
