"""`Evaluator` that starts one short-lived process per evaluation."""

from __future__ import annotations

from collections.abc import Callable

from ptkstore.adapters.sandbox.messages.orders import decode_mass
from ptkstore.adapters.sandbox.parent.program import Program, failure_of
from ptkstore.domain.evaluations import RiskMass
from ptkstore.ports.evaluating import EvaluateRequest
from ptkstore.ports.training import TrainFailed


class ProcessEvaluator:
    """Estimates losses of released states; rows and exact losses exist only inside the child and die with it.

    Parameters
    ----------
    program : Program
        What is started.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    def evaluate(self, request: EvaluateRequest, keep_alive: Callable[[], None]) -> RiskMass | TrainFailed:
        """Evaluate in a child."""
        ended = self._program.run(request, keep_alive)
        code = failure_of(ended)
        return decode_mass(ended.answer) if code is None else TrainFailed(code)
