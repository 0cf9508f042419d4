"""`SampleProfiler` that starts one short-lived process per profile or drift test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ptkstore.adapters.sandbox.messages.codes import BAD_OUTPUT
from ptkstore.adapters.sandbox.messages.orders import decode_told
from ptkstore.adapters.sandbox.messages.profiles import drift_of, points_of
from ptkstore.adapters.sandbox.parent.program import Program, failure_of
from ptkstore.adapters.sandbox.processes.process import Ended
from ptkstore.domain.ptks.profiles import Point
from ptkstore.ports.profiling import DriftRequest, ProfileRequest
from ptkstore.ports.training import TrainFailed

_Answer = TypeVar("_Answer")


class ProcessProfiler:
    """Profiles library estimators; rows exist only inside the child and die with it.

    Parameters
    ----------
    program : Program
        What is started.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    def profile(
        self, request: ProfileRequest, keep_alive: Callable[[], None]
    ) -> tuple[Point, ...] | TrainFailed:
        """Profile in a child."""
        return _answer(self._program.run(request, keep_alive), lambda told: points_of(told, request))

    def has_drifted(self, request: DriftRequest, keep_alive: Callable[[], None]) -> bool | TrainFailed:
        """Test in a child."""
        return _answer(self._program.run(request, keep_alive), drift_of)


def _answer(ended: Ended, read: Callable[[object], _Answer]) -> _Answer | TrainFailed:
    """What the child said, true or not; anything but one well-formed answer is a fixed code."""
    code = failure_of(ended)
    told = decode_told(ended.answer) if code is None else TrainFailed(code)
    if isinstance(told, TrainFailed):
        return told
    try:
        return read(told)
    except (ValueError, TypeError, KeyError):
        return TrainFailed(BAD_OUTPUT)
