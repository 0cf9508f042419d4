"""The local webhook receiver with faults on demand, and what tests ask of its calls."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptkstore.adapters.webhooks import receiver
from ptkstore.adapters.webhooks.receiver import ACCEPTED, Received

LOOK_EVERY_SECONDS = 0.01


class WebhookReceiver(receiver.WebhookReceiver):
    """Answers the next calls otherwise than with success, where a test says so."""

    def __init__(self, log: Path, *, port: int = 0) -> None:
        super().__init__(log, port=port)
        self._faults: deque[tuple[int | None, float]] = deque()
        self._call = threading.local()

    def answer_next(self, n_calls: int, status: int) -> None:
        """Answer the next calls with this status."""
        self._faults.extend([(status, 0.0)] * n_calls)

    def cut_next(self, n_calls: int) -> None:
        """Cut the connection of the next calls instead of answering."""
        self._faults.extend([(None, 0.0)] * n_calls)

    def delay_next(self, n_calls: int, seconds: float) -> None:
        """Accept the next calls, but answer late."""
        self._faults.extend([(ACCEPTED, seconds)] * n_calls)

    def status_for(self, *, verified: bool) -> int | None:
        usual = super().status_for(verified=verified)
        status, self._call.seconds = self._faults.popleft() if self._faults else (ACCEPTED, 0.0)
        return usual if status == ACCEPTED else status

    def receive(self, path: str, headers: Mapping[str, str], body: bytes) -> int | None:
        status = super().receive(path, headers, body)
        until = time.monotonic() + getattr(self._call, "seconds", 0.0)
        while self._server is not None and time.monotonic() < until:
            time.sleep(LOOK_EVERY_SECONDS)
        return status

    @property
    def accepted(self) -> Sequence[Received]:
        """Verified calls that were answered with success, in the order of arrival."""
        return tuple(one for one in self.calls if one.verified and one.status == ACCEPTED)

    def wait_for(self, n_accepted: int, timeout_seconds: float) -> Sequence[Received]:
        """Wait for so many accepted calls, or until the time is over."""
        until = time.monotonic() + timeout_seconds
        while len(self.accepted) < n_accepted and time.monotonic() < until:
            time.sleep(LOOK_EVERY_SECONDS)
        return self.accepted


def read_log(log: Path) -> Sequence[Received]:
    """Read what receivers wrote to a log, in order; a line torn by a kill was never answered and is left out."""
    received = []
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            received.append(Received(**json.loads(line)))
        except json.JSONDecodeError:
            continue
    return tuple(received)
