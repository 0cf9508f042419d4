"""The application served by uvicorn."""

from __future__ import annotations

import gc
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from ptkstore import application
from ptkstore.adapters.runtime import RequestLog
from ptkstore.api.app import create_app
from ptkstore.api.connections import TimeoutProtocol
from ptkstore.api.event_feed import EventFeed
from ptkstore.errors import PtkStoreError, Unavailable
from ptkstore.wiring import Service

KEEP_ALIVE_SECONDS = 20
CONNECTIONS_MAX = 1_000
HEADER_BYTES_MAX = 32 * 1024
STOP_WITHIN_SECONDS = 15
SWITCH_SECONDS = 0.0005  # a thread that computes holds up the loop, and so every answer, for so long at most


class Server(uvicorn.Server):
    """uvicorn waits for open answers before it stops; event streams have no end, so they are ended first."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Say where requests may come: the port may have been chosen by the system."""
        await super().startup(sockets)
        for server in self.servers if self.started else ():
            for one in server.sockets:
                host, port, *_ = one.getsockname()
                RequestLog().serving(host, port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End event streams, then all the rest."""
        event_feed: EventFeed | None = getattr(self._app.state, "event_feed", None)
        if event_feed is not None:
            await event_feed.close()
        await super().shutdown(sockets)


def configured(
    app: FastAPI,
    *,
    certificate: Path | None = None,
    key: Path | None = None,
) -> uvicorn.Config:
    """uvicorn, told to log nothing that was sent and to wait for nobody for ever."""
    return uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ws="none",
        loop="uvloop",
        http=TimeoutProtocol,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_WITHIN_SECONDS,
        limit_concurrency=CONNECTIONS_MAX,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if key is None else str(key),
    )


def serve(
    service: Service,
    sockets: Sequence[socket.socket],
    *,
    certificate: Path | None = None,
    key: Path | None = None,
    beside: Callable[[FastAPI], None],
) -> None:
    """Serve until a signal comes; `Refused` if the devices' Redis keeps what they send.

    Parameters
    ----------
    sockets : sequence of socket
        They listen already.
    beside : callable
        May mount more on the application.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    application.load()
    with suppress(Unavailable):  # devices are told so, and all others are served
        service.devices.check()
    app = create_app(service)
    beside(app)
    threading.Thread(target=warm_up, args=(service,), name="features", daemon=True).start()
    Server(app, configured(app, certificate=certificate, key=key)).run(list(sockets))


def warm_up(service: Service) -> None:
    """Open Feast, whose imports take seconds, and keep what is loaded by then from the garbage collector.

    Some 300,000 objects live as long as the process. A full collection walks them all, and delays every answer by 150
    ms and more.
    """
    with suppress(PtkStoreError):  # nothing is published yet, or Redis is away: lookups will say so
        service.features.look_up(["ptk_state:ptk_version"], [])
    gc.collect()
    gc.freeze()
