"""Steps that show in traces."""

from __future__ import annotations

from ptkstore.ports.runtime import Steps
from ptkstore.ports.tracing import Traces


class TracedSteps:
    """Tells steps to the log, or whoever else listens, and to the trace of the job."""

    def __init__(self, steps: Steps, traces: Traces) -> None:
        self._steps, self._traces = steps, traces

    def reached(self, step: str, job_id: str) -> None:
        """Tell both of a step that a job reached."""
        self._traces.reached(step, job_id)
        self._steps.reached(step, job_id)
