"""`Preparer` that starts one short-lived process per window."""

from __future__ import annotations

from collections.abc import Callable

from ptkstore.adapters.sandbox.program import Program, failure_of
from ptkstore.adapters.sandbox.protocol import ROWS_CORRUPT, ROWS_GONE, decode_prepared
from ptkstore.errors import CorruptObject, Unavailable, WindowGone
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
        ended = self._program.run(request, keep_alive)
        code = failure_of(ended) or decode_prepared(ended.answer)
        if code == ROWS_GONE:
            raise WindowGone(f"rows of window {request.window} do not exist any more")
        if code == ROWS_CORRUPT:
            raise CorruptObject(f"rows of window {request.window} are not what was stored")
        if code is not None:
            raise Unavailable(f"window {request.window} could not be prepared now: {code}")
