"""Endpoints that answer byte by byte as a test says."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

EMPTY_200 = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Raw:
    """A server that answers each connection in a way of its own, and keeps what it was sent."""

    def __init__(self, answer: Callable[[socket.socket], None], context: ssl.SSLContext | None) -> None:
        self.requests: list[bytes] = []
        self._answer = answer
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._handle, args=(connection,), daemon=True).start()

    def _handle(self, connection: socket.socket) -> None:
        try:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            with connection:
                received = b""
                while b"\r\n\r\n" not in received:
                    received += connection.recv(65536)
                head, _, body = received.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
                while len(body) < length:  # closing with bytes unread would reset the connection
                    body += connection.recv(65536)
                self.requests.append(head + b"\r\n\r\n" + body)
                self._answer(connection)
        except OSError:
            return


@contextmanager
def raw(answer: Callable[[socket.socket], None], context: ssl.SSLContext | None = None) -> Iterator[Raw]:
    server = Raw(answer, context)
    yield server
    server.close()


def says(data: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(data)


def each_tick_until(stop: threading.Event) -> Iterator[int]:
    """Often, each time sooner than the sender's patience; without a limit as a whole it ends as a failure."""
    return (tick for tick in range(400) if not stop.wait(0.02))


def drips_a_body(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
    for _ in each_tick_until(stop):
        connection.sendall(b"x")


def drips_headers(connection: socket.socket, stop: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    for _ in each_tick_until(stop):
        connection.sendall(b"x-more: 1\r\n")


def repeats_a_provisional_answer(connection: socket.socket, stop: threading.Event) -> None:
    for _ in each_tick_until(stop):
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")


def says_nothing(connection: socket.socket, stop: threading.Event) -> None:
    stop.wait(20.0)
