"""The proxies do to requests what their kinds say: else tests of faults would show nothing."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.services import proxy, wire

PASSED_ON = {"500": 0, "503": 0, "cut-before": 0, "twice": 2}  # the others once
STATUS = {"500": 500, "503": 503, "swallowed": 500, "twice": 200}


class Upstream(ThreadingHTTPServer):
    daemon_threads = True
    heard = 0


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        assert isinstance(self.server, Upstream)
        self.server.heard += 1
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"done")

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def put(url: str) -> tuple[int, bytes] | None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=3)
    try:
        connection.request("PUT", "/x", b"body")
        answer = connection.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@pytest.mark.parametrize("kind", proxy.KINDS)
def test_a_kind_of_fault_strikes_one_request_as_it_says(upstream: Upstream, kind: str) -> None:
    with proxy.between_us_and(f"http://127.0.0.1:{upstream.server_port}") as faulty:
        rule = faulty.strike(kind, "PUT", skip=1)
        assert put(faulty.url) == (200, b"done")
        struck = put(faulty.url)
        assert (None if struck is None else struck[0]) == STATUS.get(kind)
        assert upstream.heard == 1 + PASSED_ON.get(kind, 1)
        assert put(faulty.url) == (200, b"done")
        assert rule.struck == 1


@pytest.mark.parametrize("kind", wire.KINDS)
def test_a_kind_of_break_strikes_chosen_words_as_it_says(kind: str) -> None:
    heard: list[bytes] = []

    def echo(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=answer, args=(client,), daemon=True).start()

    def answer(client: socket.socket) -> None:
        with suppress(OSError):
            while sent := client.recv(100):
                heard.append(sent)
                client.sendall(sent)

    def say(port: int, words: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=3) as client, suppress(OSError):
            client.sendall(words)
            answered = b""
            while len(answered) < len(words) and (more := client.recv(100)):
                answered += more
            return answered
        return b""

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        with wire.between_us_and(listener.getsockname()[:2]) as faulty:
            rule = faulty.strike(kind, b"COMMIT")
            assert say(faulty.port, b"BEGIN") == b"BEGIN"
            assert say(faulty.port, b"COMMIT") == (b"COMMIT" if kind == "slow" else b"")
            reaches = kind in {"cut-after", "half-close", "slow"}
            until = time.monotonic() + 20
            while reaches and b"COMMIT" not in b"".join(heard):
                assert time.monotonic() < until
                time.sleep(0.01)
            assert (b"COMMIT" in b"".join(heard)) == reaches
            assert say(faulty.port, b"COMMIT") == b"COMMIT"
            assert rule.struck == 1
