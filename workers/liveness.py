"""Signs of life of a process: a row in the catalog, and a file for its own probe."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from ptkstore.adapters.runtime import log_code
from ptkstore.application.operations.essential_thread import EssentialThread
from ptkstore.application.operations.liveness import EVERY, ProcessRole
from ptkstore.wiring import Service


class LivenessReporter:
    """Reports that one process is alive, every ten seconds at most."""

    def __init__(self, service: Service, role: ProcessRole) -> None:
        self._service, self._role = service, role
        self._instance = secrets.token_hex(8)
        self._file: Path | None = service.settings.alive_file
        self._next = float("-inf")

    def show(self) -> None:
        """Say so, if it is time; what keeps the catalog from hearing keeps the process from living."""
        now = time.monotonic()
        if now < self._next:
            return
        self._service.report_alive(self._role, self._instance)
        if self._file is not None:
            self._file.touch()
        self._next = now + EVERY.total_seconds()

    def keep_showing(self) -> None:
        """Say so from a thread, for a process whose loop belongs to somebody else."""
        EssentialThread(self._run, "life").start()

    def _run(self) -> None:
        while True:
            try:
                self.show()
            except Exception as error:  # noqa: BLE001 - whatever it is, the next sign may be seen
                log_code("no sign of life", "-", type(error).__name__)
            time.sleep(EVERY.total_seconds())
