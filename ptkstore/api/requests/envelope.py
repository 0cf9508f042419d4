"""The frame of every request: an id, safe headers, one line in the log, an answer whatever happens."""

from __future__ import annotations

import re
import secrets
import time
from typing import Any
from urllib.parse import unquote

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ptkstore.adapters.runtime import RequestLog
from ptkstore.api.metrics import UNTIMED, Metrics, method_of
from ptkstore.api.problems import answer, plain_problem
from ptkstore.ports.tracing import RequestSeen, Traces

REQUEST_ID = "X-Request-Id"
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STRICT_TRANSPORT = "max-age=31536000"
UNROUTED = "(none)"
UNTRACED = frozenset({"/healthz", "/readyz", "/metrics"})  # asked all the time, and nothing follows from them
_SLASH = re.compile(rb"%2[fF]")


class Envelope:
    """The outermost layer.

    Logs and counts carry ids, route templates, statuses and codes: no path as it was sent, no header, no body, no
    text of an exception (differences.md F9).
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, traces: Traces) -> None:
        self._app, self._metrics, self._traces = app, metrics, traces
        self._log = RequestLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["path"] = _routed(scope)
        request_id = secrets.token_hex(8)
        with self._traces.request(request_id, method_of(scope["method"])) as seen:
            await self._serve(scope, receive, send, seen)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, seen: RequestSeen) -> None:
        request_id = seen.request_id
        state: dict[str, Any] = scope.setdefault("state", {})
        state["request_id"] = request_id
        status, begun = 0, time.monotonic()

        async def sealed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = request_id
                for name, value in SAFE_HEADERS.items():
                    headers.setdefault(name, value)
                if scope["scheme"] == "https":
                    headers["Strict-Transport-Security"] = STRICT_TRANSPORT
            await send(message)

        try:
            await self._app(scope, receive, sealed)
        except Exception as error:  # noqa: BLE001 - the last one who could answer, and let no text out
            state["code"] = "internal-error"
            self._log.failed(request_id, error)
            if not status:
                why = "this is for the operator, who finds it by the request id"
                problem = plain_problem(500, why, request_id)
                await answer(problem)(scope, receive, sealed)
        finally:
            route = getattr(scope.get("route"), "path", UNROUTED)
            self._metrics.saw(seen.method, route, status, time.monotonic() - begun)
            seen.route, seen.status, seen.code = route, status, state.get("code")
            seen.team, seen.token_id = state.get("team"), state.get("token_id")
            seen.timed, seen.traced = route not in UNTIMED, route not in UNTRACED
            self._log.answered(seen)


def _routed(scope: Scope) -> str:
    """The path by which a request is routed; a slash within a name stays encoded, so that the name stays one part."""
    raw: bytes = scope.get("raw_path") or b""
    path: str = scope["path"]
    return unquote(_SLASH.sub(b"%252F", raw).decode("ascii")) if _SLASH.search(raw) else path
