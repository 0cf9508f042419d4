"""A proxy between us and an HTTP server that does to single requests what networks and gateways do."""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

KINDS = (
    "500",  # refused before it is passed on
    "503",  # the same, with the words of a store that asks for patience
    "swallowed",  # passed on; its answer is replaced by 500
    "cut-before",  # the connection ends before it is passed on
    "cut-after",  # passed on; the connection ends instead of an answer
    "cut-body",  # passed on; half of the answer's body comes, then the connection ends
    "half-close",  # passed on; we say that nothing more will come, and keep listening
    "twice",  # passed on twice; the second answer is given
    "hang",  # passed on; no answer ever comes
)
SLOW_DOWN = b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>Reduce your rate.</Message></Error>"
BROKEN = b"<?xml version='1.0'?><Error><Code>InternalError</Code><Message>Try again.</Message></Error>"
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "expect"}
HANG_AT_MOST_SECONDS = 60.0


@dataclass
class Rule:
    """Does `kind` to requests of a method whose address matches: those after `skip` of them, so many `times`."""

    kind: str
    method: str = ""
    path: str = ""
    skip: int = 0
    times: int = 1
    struck: int = 0

    def strikes(self, method: str, path: str) -> bool:
        """Whether this request is to be struck; counts."""
        if (self.method and self.method != method) or not re.search(self.path, path) or self.times <= 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        self.struck += 1
        return True


@dataclass
class FaultyHttp:
    """A running proxy; `rules` may change at any time."""

    url: str
    rules: list[Rule] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    forbidden: frozenset[str] = frozenset()  # methods that this user may not use
    lock: threading.Lock = field(default_factory=threading.Lock)

    def strike(self, kind: str, method: str = "", path: str = "", *, skip: int = 0, times: int = 1) -> Rule:
        """Arm one more rule."""
        assert kind in KINDS
        rule = Rule(kind, method, path, skip, times)
        with self.lock:
            self.rules.append(rule)
        return rule

    def fault_for(self, method: str, path: str) -> str | None:
        """What happens to this request."""
        with self.lock:
            self.seen.append((method, path))
            return next((rule.kind for rule in self.rules if rule.strikes(method, path)), None)

    def heal(self) -> None:
        """From here on nothing happens."""
        with self.lock:
            self.rules.clear()
            self.seen.clear()


def _handler(proxy: FaultyHttp, upstream: str) -> Callable[..., BaseHTTPRequestHandler]:
    target = urlsplit(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = HANG_AT_MOST_SECONDS

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.command in proxy.forbidden:
                self._answer(403, b"<Error><Code>AccessDenied</Code></Error>", {})
                return
            kind = proxy.fault_for(self.command, self.path)
            match kind:
                case "500":
                    self._answer(500, BROKEN, {})
                case "503":
                    self._answer(503, SLOW_DOWN, {})
                case "cut-before":
                    self._cut()
                case "cut-after":
                    self._pass_on(body)
                    self._cut()
                case "swallowed":
                    self._pass_on(body)
                    self._answer(500, BROKEN, {})
                case "half-close":
                    self._pass_on(body)
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_WR)
                    self._wait_for_the_end()
                case "hang":
                    self._pass_on(body)
                    self._wait_for_the_end()
                case "cut-body":
                    status, content, headers = self._pass_on(body)
                    self._answer(status, content, headers, of=max(1, len(content)), upto=len(content) // 2)
                    self._cut()
                case _:
                    if kind == "twice":
                        self._pass_on(body)
                    self._answer(*self._pass_on(body))

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _do  # noqa: N815

        def _pass_on(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
            connection = http.client.HTTPConnection(str(target.hostname), int(target.port or 80), timeout=60)
            try:
                sent = {n: v for n, v in self.headers.items() if n.lower() not in HOP_BY_HOP}
                connection.request(self.command, self.path, body, sent)
                answer = connection.getresponse()
                content = answer.read()
                kept = {n: v for n, v in answer.getheaders() if n.lower() not in HOP_BY_HOP}
                return answer.status, content, kept
            finally:
                connection.close()

        def _answer(
            self,
            status: int,
            content: bytes,
            headers: dict[str, str],
            *,
            of: int | None = None,
            upto: int | None = None,
        ) -> None:
            with suppress(OSError):
                self.send_response_only(status)
                length = len(content) if of is None else of
                if self.command == "HEAD":
                    length = int(headers.get("Content-Length", length))
                for name, value in headers.items():
                    if name.lower() != "content-length":
                        self.send_header(name, value)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content[:upto])
                self.wfile.flush()

        def _cut(self) -> None:
            self.close_connection = True
            with suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def _wait_for_the_end(self) -> None:
            self.close_connection = True
            with suppress(OSError):
                while self.connection.recv(65_536):
                    pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away in the middle is what this is for."""


@contextmanager
def between_us_and(upstream: str) -> Iterator[FaultyHttp]:
    """A proxy in front of `http://host:port`."""
    proxy = FaultyHttp("")
    server = _Server(("127.0.0.1", 0), _handler(proxy, upstream))
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
