"""The durable steps of a job, as its process tells of them."""

from __future__ import annotations

from ptkstore.adapters.runtime.log import logger


class LoggedSteps:
    """Logs every durable step of a job."""

    def __init__(self) -> None:
        self._log = logger()

    def reached(self, step: str, job_id: str) -> None:
        """Log a line per step."""
        self._log.info("step", step=step, job=job_id)


class SilentSteps:
    """Says nothing, for programs that speak for themselves."""

    def reached(self, step: str, job_id: str) -> None:
        """Say nothing."""
