"""A local webhook receiver for demos: verifies, logs, answers."""

from __future__ import annotations

import json
import os
import threading
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
    """One HTTP call, as the log has it; `status` is None when the connection was cut."""

    received_at: str
    path: str
    webhook_id: str
    verified: bool
    status: int | None
    message: Mapping[str, Any] | None


class WebhookReceiver:
    """Listens on 127.0.0.1 only; a call is on disk in the log before it is answered.

    A message that no known secret verifies is answered with 401.
    """

    def __init__(self, log: Path, *, port: int = 0) -> None:
        """`log`: a file of JSON lines, appended to. `port` 0: any free one."""
        self.log = log
        self._port = port
        self._signers: list[Webhook] = []
        self._received: list[Received] = []
        self._receiving = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._log_fd = CLOSED

    def start(self) -> Self:
        """Listen; back when calls are answered."""
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
        self._server.shutdown()
        self._server.server_close()
        self._server = None
        with self._receiving:
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

    @property
    def calls(self) -> Sequence[Received]:
        """Every call since the start of this object, in the order of arrival."""
        with self._receiving:
            return tuple(self._received)

    def receive(self, path: str, headers: Mapping[str, str], body: bytes) -> int | None:
        """Verify and log one call, and return the status to answer with; None to cut the connection."""
        with self._receiving:
            if self._log_fd == CLOSED:  # stopped meanwhile: what is not in the log is not answered
                return None
            verified = self._verifies(headers, body)
            received = Received(
                received_at=datetime.now(UTC).isoformat(),
                path=path,
                webhook_id=headers.get("webhook-id", ""),
                verified=verified,
                status=self.status_for(verified=verified),
                message=json.loads(body) if verified else None,
            )
            line = json.dumps(asdict(received), sort_keys=True) + "\n"
            os.write(self._log_fd, line.encode())
            os.fsync(self._log_fd)
            self._received.append(received)
        return received.status

    def status_for(self, *, verified: bool) -> int | None:
        """Choose the status of a call."""
        return ACCEPTED if verified else NOT_VERIFIED

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
            status = receiver.receive(self.path, headers, body)
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Write nothing: the receiver logs calls itself."""

    return Handler
