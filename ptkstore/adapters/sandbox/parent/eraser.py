"""`Eraser` that starts one short-lived process per window."""

from __future__ import annotations

from collections.abc import Callable

from ptkstore.adapters.sandbox.parent.program import Program, raise_unless_written
from ptkstore.ports.training import ForgetRequest


class ProcessEraser:
    """Takes a unit's rows out of windows; all rows of a window pass through the child alone and die with it.

    Parameters
    ----------
    program : Program
        What is started.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    def forget(self, request: ForgetRequest, keep_alive: Callable[[], None]) -> None:
        """Rewrite the window's files in a child."""
        raise_unless_written(self._program.run(request, keep_alive), request.window, "rewritten")
