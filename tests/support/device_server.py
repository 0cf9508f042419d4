"""A small server of devices: the protocol as docs/reference/devices.md has it, on the library's rules for instances."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from ptklib.draw_discard import (
    Categorical,
    Numeric,
    Specification,
    draw_instance,
    put_report,
    start_instances,
)

SPECIFICATION, DRAW, PUT = "/v1/device/specification", "/v1/device/draw", "/v1/device/put"

ROWS = {"age": [31, 44], "country": ["fr", "de"], "clicked": [1, 0]}
"""The rows of a device."""

ONE = Specification(
    features=[Numeric("age", 0, 120), Categorical("country", ["de", "fr"])],
    label=Numeric("clicked", 0, 1),
    epsilon=3.47,
)
"""A model that they fit."""

LIMITS: dict[str, Any] = {
    "report_epsilon": 3.5,
    "reports_per_window": 1,
    "reports_in_all": 8,
    "columns": ["age", "country", "clicked"],
    "window_seconds": 0,
}
"""What a person allows, so that one report a window is sent."""

Misbehaviour = Callable[["_Handler"], None]


class DeviceServer:
    """What one PTK's server does; `instead` answers a path in another way."""

    def __init__(self, specification: Specification, url: str) -> None:
        self.url = url
        self.specification = specification
        self.instances = start_instances(specification)
        self.stream, self.ptk = "phones", "ads.phishy"
        self.limits: dict[str, Any] = {"report_epsilon": 4.0, "reports_per_window": 1, "reports_in_all": 8}
        self.window, self.window_ends = 3, datetime.now(UTC) + timedelta(hours=5)
        self.tickets: dict[str, str] = {}
        self.requests: list[str] = []
        self.puts: list[bytes] = []
        self.instead: dict[str, Misbehaviour] = {}
        self.lock = threading.Lock()

    def issue(self) -> str:
        """Return a new ticket."""
        ticket = secrets.token_urlsafe(32)
        self.tickets[ticket] = "new"
        return ticket

    def next_window(self, ended: timedelta = timedelta(seconds=1)) -> None:
        """Begin another window; the next one ended so long ago, as a clock that went on would see it."""
        self.window += 1
        self.window_ends = datetime.now(UTC) - ended

    def offer(self) -> dict[str, Any]:
        """Return the document of the specification."""
        return {
            "specification": self.specification.text,
            "digest": self.specification.digest,
            "stream": self.stream,
            "ptk": self.ptk,
            "window": {"number": self.window, "ends": self.window_ends.isoformat()},
            "limits": self.limits,
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: DeviceServer

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def serve(self) -> None:
        world, self.body = self.world, self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with world.lock:
            world.requests.append(self.path)
            if self.path in world.instead:
                world.instead[self.path](self)
                return
            self.honest()

    def honest(self) -> None:
        """Answer as the protocol says."""
        world = self.world
        kind, _, ticket = self.headers.get("Authorization", "").partition(" ")
        state = world.tickets.get(ticket) if kind == "Ticket" else None
        if state is None:
            self.refuse(401, "ticket-forged")
        elif self.path == SPECIFICATION:
            self.answer(200, json.dumps(world.offer()).encode())
        elif self.path == DRAW and state == "new":
            world.tickets[ticket] = "drawn"
            body = draw_instance(world.specification, world.instances).astype("<i4").tobytes()
            self.answer(200, body, {"Ptk-Specification": world.specification.digest})
        elif self.path == PUT and state == "drawn":
            if len(self.body) != 4 * world.specification.n_weights:
                self.refuse(422, "report-refused")
                return
            world.tickets[ticket] = "put"
            world.puts.append(self.body)
            put_report(world.specification, world.instances, np.frombuffer(self.body, "<i4").astype(np.int32))
            self.answer(204, b"")
        elif self.path in (DRAW, PUT):
            self.refuse(409, "not-drawn" if state == "new" else "ticket-used")
        else:
            self.refuse(404, "unknown-name")

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, json.dumps({"code": code, "status": status, "detail": "\x1b[31mno"}).encode())

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def served(specification: Specification, tls: ssl.SSLContext | None = None) -> Iterator[DeviceServer]:
    """Serve a specification on loopback."""

    class Handler(_Handler):
        pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """A device hangs up on what it does not trust."""

    server = Quiet(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    world = Handler.world = DeviceServer(specification, f"{scheme}://localhost:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield world
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
