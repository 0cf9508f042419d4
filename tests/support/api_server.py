"""A real server on loopback, on a service in a temporary home."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pyarrow as pa

from ptkstore.adapters.processes import listen
from ptkstore.api.app import create_app
from ptkstore.api.limits import Limits
from ptkstore.api.rows.bodies import ARROW_STREAM
from ptkstore.api.server import Server, configured
from ptkstore.domain.identity import STREAM_ROLES, Grant, Role
from ptkstore.serving import with_console
from ptkstore.wiring.identity import Identity
from tests.support.world import World

TEAM = "taxi"
STARTS_WITHIN_SECONDS = 60.0


class Api:
    """The application in a thread; use as a context manager."""

    def __init__(self, home: Path, limits: Limits | None = None, **settings: Any) -> None:
        self.world = World(home, **settings)
        self.identity = Identity(self.world.service)
        self.app = create_app(self.world.service, limits)
        with_console(self.app)
        self._server = Server(self.app, configured(self.app))
        self._sockets = list(listen("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._server.run, args=(self._sockets,), daemon=True)
        self._clients: list[httpx.Client] = []

    def stop(self) -> None:
        """Ask the server to stop, without waiting."""
        self._server.should_exit = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        port: int = self._sockets[0].getsockname()[1]
        return port

    def __enter__(self) -> Self:
        self._thread.start()
        until = time.monotonic() + STARTS_WITHIN_SECONDS
        while not self._server.started and self._thread.is_alive():
            assert time.monotonic() < until
            time.sleep(0.005)
        assert self._server.started
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        self.stop()
        self._thread.join(STARTS_WITHIN_SECONDS)
        assert not self._thread.is_alive()
        self.world.service.close()

    def token(self, *roles: Role, team: str = TEAM, **more: Any) -> str:
        """The text of a new token, of all roles on streams by default."""
        self.identity.create_team(team)
        _, text = self.identity.issue_token(team, roles or STREAM_ROLES, **more)
        return text

    def grant(self, team: str, stream: str, role: Role) -> None:
        self.identity.create_team(team)
        self.identity.grant(Grant(team, stream, role))

    def client(self, token: str | None = None, **more: Any) -> httpx.Client:
        """A client that carries a token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        client = httpx.Client(base_url=self.url, headers=headers, timeout=60.0, trust_env=False, **more)
        self._clients.append(client)
        return client

    def acting(self, *roles: Role, team: str = TEAM) -> httpx.Client:
        return self.client(self.token(*roles, team=team))


def arrow(table: pa.Table, **options: Any) -> bytes:
    """The table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def ingest(client: httpx.Client, body: bytes, stream: str = TEAM, **headers: str) -> httpx.Response:
    return client.post(
        f"/v1/streams/{stream}/ingest", content=body, headers={"Content-Type": ARROW_STREAM, **headers}
    )


def problem(response: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal, which has to be a problem."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    document: Mapping[str, Any] = response.json()
    assert document["status"] == response.status_code
    assert document["request_id"] == response.headers["x-request-id"]
    return response.status_code, document["code"]


def all_items(client: httpx.Client, path: str, items: str = "items", **params: Any) -> list[Any]:
    """All items of a list, page by page."""
    found: list[Any] = []
    while True:
        page = client.get(path, params=params).raise_for_status().json()
        found += page[items]
        if page["next_cursor"] is None:
            return found
        params["cursor"] = page["next_cursor"]
