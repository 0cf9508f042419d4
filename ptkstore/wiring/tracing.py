"""Which traces the settings ask for, and steps that show in them."""

from __future__ import annotations

from ptkstore.errors import InvalidRequest
from ptkstore.ports.runtime import Clock, Steps
from ptkstore.ports.tracing import SilentTraces, Traces
from ptkstore.settings import Settings


def traces_of(settings: Settings, clock: Clock) -> Traces:
    """Spans for a collector, or none.

    Raises
    ------
    InvalidRequest
        A collector is named, and what sends to it is not installed.
    """
    if settings.otlp_endpoint is None:
        return SilentTraces()
    try:
        from ptkstore.adapters.tracing import OtlpTraces
    except ModuleNotFoundError as error:
        raise InvalidRequest("PTK_OTLP_ENDPOINT needs: pip install 'ptkstore[tracing]'") from error
    return OtlpTraces(settings.otlp_endpoint, now=lambda: clock.now(), tick=settings.tick)


class TracedSteps:
    """Tells steps to the log, or whoever else listens, and to the trace of the job."""

    def __init__(self, steps: Steps, traces: Traces) -> None:
        self._steps, self._traces = steps, traces

    def reached(self, step: str, job_id: str) -> None:
        """Tell both."""
        self._traces.reached(step, job_id)
        self._steps.reached(step, job_id)
