"""A host name that takes long to be found."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ptkstore.adapters.webhooks import courier
from tests.support.raw_endpoints import (
    Raw,
    raw,
)

PATIENCE_SECONDS = 120.0


LAST_200 = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@contextmanager
def slow_host(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Raw, threading.Event]]:
    """A host that is called once at a time, and answers once the event is set."""
    monkeypatch.setattr(courier, "PER_HOST", 1)
    monkeypatch.setattr(courier, "HOST_WAIT_SECONDS", PATIENCE_SECONDS)
    let_go = threading.Event()

    def answers(connection: socket.socket) -> None:
        assert let_go.wait(PATIENCE_SECONDS)
        connection.sendall(LAST_200)  # the next call must not begin on a connection that ends

    with raw(answers) as server:
        yield server, let_go
        let_go.set()
