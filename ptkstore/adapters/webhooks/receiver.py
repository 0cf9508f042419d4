"""A local webhook receiver for demos and tests: verifies, logs, answers."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from ptkstore.adapters.webhooks.signing import signer

LARGEST_MESSAGE_BYTES = 1024 * 1024
PATIENCE_SECONDS = 10.0
ACCEPTED = 204
NOT_VERIFIED = 401
CLOSED = -1


@dataclass(frozen=True, slots=True)
class Received:
    """One HTTP call, as it stands in the log; `status` is None when the connection was cut."""

    received_at: str
    path: str
    webhook_id: str
    verified: bool
    status: int | None
    message: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is done instead of answering 204; `status` None cuts the connection."""

    status: int | None
    wait_seconds: float = 0.0


class WebhookReceiver:
    """Listens on 127.0.0.1 only; a call is on disk in the log before it is answered.

    A message that no known secret verifies is answered with 401.
    """

    def __init__(self, log: Path, *, port: int = 0) -> None:
        """`log`: a file of JSON lines, appended to. `port` 0: any free one."""
        self.log = log
        self._port = port
        self._signers: list[Webhook] = []
        self._faults: deque[_Fault] = deque()
        self._received: list[Received] = []
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._server: ThreadingHTTPServer | None = None
        self._log_fd = CLOSED

    def start(self) -> Self:
        """Listen; back when calls are answered."""
        self._stopping.clear()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._log_fd = os.open(self.log, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._log_fd).st_size
        if size and os.pread(self._log_fd, 1, size - 1) != b"\n":  # a kill tore the last line
            os.write(self._log_fd, b"\n")
        self._server = _Server(("127.0.0.1", self._port), _handler(self))
        self._port = self._server.server_address[1]
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.05,), name="webhooks", daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop listening. The same receiver may be started again, on the same port."""
        if self._server is None:
            return
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        with self._changed:
            os.close(self._log_fd)
            self._log_fd = CLOSED

    @property
    def port(self) -> int:
        """The port it listens on, known after the first start."""
        return self._port

    def endpoint(self, path: str = "hook") -> str:
        """Return the URL to subscribe with; any path will do."""
        return f"http://127.0.0.1:{self._port}/{path}"

    def trust(self, secret: str) -> None:
        """Verify messages with this secret too; it is not written anywhere."""
        self._signers.append(signer(secret))

    def answer_next(self, n_calls: int, status: int) -> None:
        """Answer the next calls with this status."""
        self._faults.extend(_Fault(status) for _ in range(n_calls))

    def cut_next(self, n_calls: int) -> None:
        """Cut the connection of the next calls instead of answering."""
        self._faults.extend(_Fault(None) for _ in range(n_calls))

    def delay_next(self, n_calls: int, seconds: float) -> None:
        """Accept the next calls, but answer late."""
        self._faults.extend(_Fault(ACCEPTED, seconds) for _ in range(n_calls))

    @property
    def calls(self) -> Sequence[Received]:
        """Every call since the start of this object, in the order of arrival."""
        with self._changed:
            return tuple(self._received)

    @property
    def accepted(self) -> Sequence[Received]:
        """Verified calls that were answered with success, in the order of arrival."""
        return tuple(one for one in self.calls if one.verified and one.status == ACCEPTED)

    def wait_for(self, n_accepted: int, timeout_seconds: float) -> Sequence[Received]:
        """Wait for so many accepted calls, or until the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.accepted) >= n_accepted, timeout_seconds)
            return self.accepted

    def receive(self, path: str, headers: Mapping[str, str], body: bytes) -> _Fault:
        """Verify and log one call, and say what to do with it."""
        with self._changed:
            if self._log_fd == CLOSED:  # stopped meanwhile: what is not in the log is not answered
                return _Fault(None)
            verified = self._verifies(headers, body)
            fault = self._faults.popleft() if self._faults else _Fault(ACCEPTED)
            if not verified and fault.status == ACCEPTED:
                fault = _Fault(NOT_VERIFIED, fault.wait_seconds)
            received = Received(
                received_at=datetime.now(UTC).isoformat(),
                path=path,
                webhook_id=headers.get("webhook-id", ""),
                verified=verified,
                status=fault.status,
                message=json.loads(body) if verified else None,
            )
            line = json.dumps(asdict(received), sort_keys=True) + "\n"
            os.write(self._log_fd, line.encode())
            os.fsync(self._log_fd)
            self._received.append(received)
            self._changed.notify_all()
        self._stopping.wait(fault.wait_seconds)
        return fault

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _verifies(self, headers: Mapping[str, str], body: bytes) -> bool:
        for one in self._signers:
            try:
                one.verify(body, dict(headers))
            except (WebhookVerificationError, ValueError):
                continue
            return True
        return False


def read_log(log: Path) -> Sequence[Received]:
    """Read what receivers wrote to a log, in order; a line torn by a kill was never answered and is left out."""
    received = []
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            received.append(Received(**json.loads(line)))
        except json.JSONDecodeError:
            continue
    return tuple(received)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128  # the default of 5 loses connections when many workers send at once


def _handler(receiver: WebhookReceiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE_SECONDS

        def do_POST(self) -> None:
            """Read, hand over, answer."""
            length = self.headers.get("content-length", "")
            if not length.isdecimal() or int(length) > LARGEST_MESSAGE_BYTES:
                self.send_error(413 if length.isdecimal() else 411)
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(int(length))
            if len(body) < int(length):  # its sender died: this is no message, and nobody waits for an answer
                self.close_connection = True
                return
            fault = receiver.receive(self.path, headers, body)
            if fault.status is None:
                self.close_connection = True
                return
            self.send_response(fault.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing: the receiver logs calls itself."""

    return Handler
