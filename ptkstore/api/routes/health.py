"""Health, readiness and metrics: open to all, ids and public numbers only."""

from __future__ import annotations

import threading
import time
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ptkstore.adapters.processes import answers_ping
from ptkstore.api.resources import refusals
from ptkstore.errors import PtkStoreError, UnknownName
from ptkstore.wire.health import Health, Readiness
from ptkstore.wiring import Service

router = APIRouter(tags=["operations"], redirect_slashes=False)
KEPT_SECONDS = 1.0


class Parts:
    """Asks every part whether it answers, once a second at most."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._known: dict[str, str] = {}

    def states(self) -> dict[str, str]:
        """`ok`, `failing` or `unused` by part."""
        with self._lock:
            if time.monotonic() - self._asked_at > KEPT_SECONDS:
                self._known = {
                    "catalog": self._try(self._catalog),
                    "keys": self._try(self._keys),
                    "lake": self._try(self._lake),
                    "redis": self._redis(),
                }
                self._asked_at = time.monotonic()
            return dict(self._known)

    def _try(self, part: Any) -> str:
        try:
            part()
        except (PtkStoreError, OSError):
            return "failing"
        return "ok"

    def _catalog(self) -> None:
        with self._service.begin() as uow:
            uow.identities.teams()

    def _keys(self) -> None:
        self._service.signer.public_key()
        self._service.keys.draft_ids()

    def _lake(self) -> None:
        try:
            self._service.lake.read_version("ptk.ptk", 1)
        except UnknownName:
            return

    def _redis(self) -> str:
        settings = self._service.settings
        if not settings.redis_url and not settings.online_in_redis:
            return "unused"
        return "ok" if answers_ping(self._service.redis_url) else "failing"


@router.get("/healthz", response_model=Health, operation_id="health")
async def health() -> dict[str, Any]:
    """Whether this process answers."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    response_model=Readiness,
    operation_id="readiness",
    responses={503: {"description": "A part that is needed fails.", "model": Readiness}},
)
def readiness(request: Request) -> JSONResponse:
    """Whether requests can be served: the catalog, the keys, the lake and Redis answer."""
    parts: Parts = request.app.state.parts
    states = parts.states()
    ready = "failing" not in states.values()
    return JSONResponse({"ready": ready, "parts": states}, 200 if ready else 503)


@router.get(
    "/metrics",
    response_class=Response,
    operation_id="metrics",
    responses={
        200: {
            "description": "As Prometheus reads it.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **refusals(503),
    },
)
def metrics(request: Request) -> Response:
    """Numbers for Prometheus."""
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4")
