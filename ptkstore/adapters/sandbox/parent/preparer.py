"""`Preparer` that starts one short-lived process per window."""

from __future__ import annotations

from collections.abc import Callable

from ptkstore.adapters.sandbox.parent.program import Program, raise_unless_written
from ptkstore.ports.training import PrepareRequest


class ProcessPreparer:
    """Splits windows into parts; rows exist only inside the child and die with it.

    Workers live for weeks: rows that they had read would stay in their memory long after the window's expiry.

    Parameters
    ----------
    program : Program
        What is started.
    """

    def __init__(self, program: Program) -> None:
        self._program = program

    def prepare(self, request: PrepareRequest, keep_alive: Callable[[], None]) -> None:
        """Write the parts in a child."""
        raise_unless_written(self._program.run(request, keep_alive), request.window, "prepared")
