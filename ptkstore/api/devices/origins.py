"""Pages of other origins that may read the answers of the routes of devices."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send


class DeviceOrigins:
    """Answers preflights for some paths, and names the origin there that was asked from; everything else passes.

    No cookie and no other credential of a browser is allowed along: a page sends its ticket itself.

    Parameters
    ----------
    app : ASGI application
    origins : sequence of str
        As browsers write them; compared whole.
    paths : collection of str
        Of devices alone.
    """

    def __init__(self, app: ASGIApp, *, origins: Sequence[str], paths: Collection[str]) -> None:
        self._app, self._paths = app, frozenset(paths)
        self._crossed = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=("Authorization", "Content-Type"),
            expose_headers=("Ptk-Specification", "Retry-After"),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        crosses = scope["type"] == "http" and scope["path"] in self._paths
        await (self._crossed if crosses else self._app)(scope, receive, send)
