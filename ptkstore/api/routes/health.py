"""Health and readiness, open to all; metrics, for whoever may see the whole store. Ids and public numbers only."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ptkstore.adapters.processes import ForgetfulRedisServer, RedisServer, answers_ping
from ptkstore.api.online_check import OnlineRows
from ptkstore.api.requests.access import refused_on_record, token_text
from ptkstore.api.requests.routers import refusals
from ptkstore.application.identity.authorize import Named
from ptkstore.application.operations.liveness import ProcessRole
from ptkstore.domain.identity import Action
from ptkstore.errors import InvariantBroken, PtkStoreError, Unavailable, UnknownName
from ptkstore.wire.health import Health, Readiness
from ptkstore.wiring import Service
from ptkstore.wiring.identity import Identity

router = APIRouter(tags=["operations"], redirect_slashes=False)
KEPT_SECONDS = 1.0
SLOW_SECONDS = 5.0  # a part that takes longer fails, and whoever asks meanwhile is told so at once
_ROLES = frozenset(ProcessRole)
WRITTEN_SECONDS = 60.0  # anybody may ask, and what is written costs
BUSY_SECONDS = 120.0  # a catalog that others hold for longer fails: requests wait for a minute
LOCK_SECONDS = 1.0


class Parts:
    """Asks every part whether it answers, once a second at most, and one caller at a time.

    Nobody waits long for that: anybody may ask, and a part that hangs must not take all threads of the server.
    """

    def __init__(
        self, service: Service, online: OnlineRows, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._service, self.online, self._clock = service, online, clock
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._written_at: dict[str, float] = defaultdict(lambda: float("-inf"))
        self._held: tuple[float, float] | None = (
            None  # the first and the last try since which others hold the catalog
        )
        self._known: tuple[dict[str, str], dict[str, str]] = {}, {}
        self._asking = "catalog", float("inf")

    def states(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return `ok`, `failing`, `unused`, `silent` or `lost` by part; and a code of each that is failing."""
        if not self._lock.acquire(timeout=0.0 if self._known[0] else SLOW_SECONDS):
            return self._meanwhile()
        try:
            if self._clock() - self._asked_at > KEPT_SECONDS:
                self._known = self._ask()
                self._asked_at = self._clock()
            states, codes = self._known
            return dict(states), dict(codes)
        finally:
            self._lock.release()

    def _meanwhile(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the last states; the part that somebody waits for is failing."""
        (states, codes), (name, since) = self._known, self._asking
        if states and self._clock() - since < SLOW_SECONDS:
            return dict(states), dict(codes)
        return {**states, name: "failing"}, {**codes, name: Unavailable.code}

    def _ask(self) -> tuple[dict[str, str], dict[str, str]]:
        parts: dict[str, Callable[[], None]] = {
            "catalog": self._catalog,
            "keys": self._keys,
            "lake": self._lake,
            "raw": self._raw,
            "redis": self._redis,
            "devices": self._devices,
        }
        states, codes = {}, {}
        for name, part in parts.items():
            self._asking = name, self._clock()
            try:
                part()
            except _NotNeeded as why:
                states[name] = str(why)
            except (PtkStoreError, OSError) as error:
                states[name] = "failing"
                failure = error if isinstance(error, Unavailable | InvariantBroken) else Unavailable
                codes[name] = failure.code
            else:
                states[name] = "ok"
        self._asking = "catalog", self._clock()
        # requests are served: only lookups of these PTKs fail, and which they are is not for everybody
        states["online"] = "lost" if self.online.lost() else "ok"
        with suppress(PtkStoreError):  # the catalog has said so already
            liveness = self._service.liveness()
            states |= {role.value: "ok" if one.alive else "silent" for role, one in liveness.items()}
            # of one that never ran nobody expects a sign
            ended = [role.value for role, one in liveness.items() if one.last is not None and not one.alive]
            codes |= dict.fromkeys(ended, Unavailable.code)
        return states, codes

    def _catalog(self) -> None:
        self._service.ledger_id()  # its schema is checked too
        self._service.identity.teams()
        self._writable("catalog", self._commits)

    def _commits(self) -> bool:
        held, self._held = self._held, None
        if self._service.takes_writes(LOCK_SECONDS):
            return True
        now = self._clock()
        since, last = held or (now, now)
        if now - last >= BUSY_SECONDS / 2:  # nobody knows of a longer time between
            since = now
        self._held = (since, now)
        if now - since >= BUSY_SECONDS:
            raise Unavailable("others hold the catalog")
        return False

    def _keys(self) -> None:
        self._service.signer.public_key()
        self._service.keys.draft_ids()
        self._writable("keys", self._service.keys.check_writable)

    def _lake(self) -> None:
        self._writable("lake", self._service.lake.check_writable)
        with suppress(UnknownName):
            self._service.lake.read_version("ptk.ptk", 1)

    def _raw(self) -> None:
        self._writable("raw", self._service.raw.check_writable)

    def _writable(self, name: str, check: Callable[[], bool | None]) -> None:
        """Look whether the part takes what is written, once a minute; one that says False is asked again soon."""
        if self._clock() - self._written_at[name] > WRITTEN_SECONDS and check() is not False:
            self._written_at[name] = self._clock()

    def _redis(self) -> None:
        settings = self._service.settings
        needed = settings.redis_url or settings.online_in_redis
        if not needed and not RedisServer(settings.root).is_there():
            raise _NotNeeded("unused")
        if answers_ping(self._service.redis_url):
            return
        if not needed:  # it wakes workers; requests go without
            raise _NotNeeded("silent")
        raise Unavailable("Redis does not answer")

    def _devices(self) -> None:
        settings = self._service.settings
        if settings.devices_redis_url is None and not ForgetfulRedisServer(settings.root).is_there():
            raise _NotNeeded("unused")
        if not answers_ping(self._service.devices_redis_url):
            raise _NotNeeded("silent")  # all but devices are served


class _NotNeeded(Exception):
    """Requests are served without the part, which is `unused` or `silent`."""


@router.get("/healthz", response_model=Health, operation_id="health")
async def health() -> dict[str, Any]:
    """Whether this process answers."""
    return {"status": "ok"}


@router.get(
    "/readyz",
    response_model=Readiness,
    operation_id="readiness",
    responses={**refusals(422), 503: {"description": "A part that is needed fails.", "model": Readiness}},
)
def readiness(request: Request, only: Literal["requests"] | None = None) -> JSONResponse:
    """Whether the service works: requests are served, and workers, relay and schedule live.

    The catalog has this program's schema, Redis answers, and catalog, keys, lake and raw zone take
    what is written. Workers, relay and schedule showed life within a minute, as far as any ever ran.
    With `only=requests` these three are shown and do not count. Probes of load balancers ask so.
    """
    parts: Parts = request.app.state.parts
    states, codes = parts.states()
    ready = not [part for part in codes if only is None or part not in _ROLES]
    return JSONResponse({"ready": ready, "parts": states, "codes": codes}, 200 if ready else 503)


@router.get(
    "/metrics",
    response_class=Response,
    operation_id="metrics",
    responses={
        200: {
            "description": "As Prometheus reads it.",
            "content": {"text/plain": {"schema": {"type": "string"}}},
        },
        **refusals(401, 403, 503),
    },
)
def metrics(request: Request) -> Response:
    """Numbers for Prometheus; for the collector's token (`PTK_METRICS_TOKEN`), administrators and officers of all."""
    text, settings = token_text(request), request.app.state.service.settings
    if not (
        text and settings.metrics_token and compare_digest(text.encode(), settings.metrics_token.encode())
    ):
        identity: Identity = request.app.state.identity
        with refused_on_record(request, Action.AUDIT_READ, "store", request.app.state.refused_collectors):
            identity.authorize(text, Action.AUDIT_READ, Named())
    return Response(request.app.state.metrics.text(), media_type="text/plain; version=0.0.4")
