"""Instances of models that devices train, written down every few seconds by the schedule."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from ptkstore.adapters.runtime import code_of, log_code
from ptkstore.application.operations.essential_thread import EssentialThread
from ptkstore.wiring import Service

PERIOD_SECONDS = 5.0
STOP_WITHIN_SECONDS = 4.0


class Checkpoints:
    """Writes from a thread of its own: neither windows nor checkpoints wait for the other."""

    def __init__(self, service: Service, stop: threading.Event) -> None:
        self._service, self._stop = service, stop
        self._thread = EssentialThread(self._run, "checkpoints")

    def start(self) -> Self:
        """Write until told to stop."""
        self._thread.start()
        return self

    def join(self) -> None:
        """Let what is being written be written, if that is done soon."""
        self._thread.join(STOP_WITHIN_SECONDS)

    def pass_once(self) -> None:
        """Write down what changed of every PTK, and forget those that devices train no more."""
        devices = self._service.devices
        for ptk_id in devices.left_over():
            self._guarded(ptk_id, devices.checkpoints.forget)
        for ptk_id in devices.ptk_ids():
            self._guarded(ptk_id, devices.checkpoints.write)

    def _run(self) -> None:
        while not self._stop.wait(PERIOD_SECONDS):
            try:
                self.pass_once()
            except Exception as error:  # noqa: BLE001 - the text of another error may hold anything (differences.md F9)
                log_code("checkpoints wait", "-", code_of(error))

    def _guarded(self, ptk_id: str, act: Callable[[str], None]) -> None:
        """Trouble with one PTK, whatever it is, does not keep the others waiting."""
        try:
            act(ptk_id)
        except Exception as error:  # noqa: BLE001 - as above
            log_code("instances not written down", ptk_id, code_of(error))
