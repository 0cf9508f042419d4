"""`Trainer` that starts one short-lived process per training or partial."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ptkstore.adapters.sandbox.messages.codes import BAD_OUTPUT, TEAM_CODE_FAILED, UNDECLARED_VALUE
from ptkstore.adapters.sandbox.messages.orders import TOLD_OF_TEAM_CODE, decode_answer, decode_written
from ptkstore.adapters.sandbox.parent.program import Program, failure_of
from ptkstore.domain.versions.versions import Draft
from ptkstore.ports.training import CollectRequest, TrainFailed, TrainRequest

if TYPE_CHECKING:
    from ptkstore.ports.objects import Staging


class ProcessTrainer:
    """Runs library estimators; rows exist only inside the child and die with it.

    Parameters
    ----------
    program : Program
        What is started.
    staging : Staging
        To verify drafts with, on the same tree as the program's.
    """

    def __init__(self, program: Program, *, staging: Staging) -> None:
        self._program = program
        self._staging = staging

    def train(self, request: TrainRequest, keep_alive: Callable[[], None]) -> Draft | TrainFailed:
        """Train in a child and verify what it drafted."""
        ended = self._program.run(request, keep_alive)
        code = failure_of(ended)
        if code is not None and request.bundle is not None:
            code = TEAM_CODE_FAILED  # how it ended is told of no team's code
        answer = decode_answer(ended.answer) if code is None else TrainFailed(code)
        if isinstance(answer, TrainFailed):
            # What a team's code answers with can be made to fill the memory of whoever reads it.
            told = request.bundle is None or answer.code in TOLD_OF_TEAM_CODE
            return answer if told else TrainFailed(TEAM_CODE_FAILED)
        # heavy, and the child imports this package too
        from ptkstore.adapters.sandbox.parent.draft_check import verified
        from ptkstore.application.versions.servable import UndeclaredValue

        bad = BAD_OUTPUT if request.bundle is None else TEAM_CODE_FAILED
        try:
            return verified(answer, request, self._staging) or TrainFailed(bad)
        except UndeclaredValue:
            return TrainFailed(UNDECLARED_VALUE)

    def collect(self, request: CollectRequest, keep_alive: Callable[[], None]) -> TrainFailed | None:
        """Collect in a child; what it wrote is looked at by the training alone, in a process of its own."""
        ended = self._program.run(request, keep_alive)
        code = failure_of(ended) or decode_written(ended.answer)
        return None if code is None else TrainFailed(code)
