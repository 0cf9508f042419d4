"""Keep a job's lease while its worker lives."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import TracebackType
from typing import Self

from ptkstore.domain.jobs import Job
from ptkstore.errors import LeaseLost, PtkStoreError
from ptkstore.ports.catalog import Begin
from ptkstore.ports.runtime import Clock


class Heartbeat:
    """Extends a lease from a thread of its own, each third of it: finer times would show durations (differences.md F6).

    A worker that is killed or frozen stops extending, and another takes the job. A worker that hangs stops after
    `at_most_seconds`.
    """

    def __init__(
        self, job: Job, begin: Begin, clock: Clock, lease: timedelta, *, at_most_seconds: float
    ) -> None:
        self._job, self._begin, self._clock, self._lease = job, begin, clock, lease
        self._until = time.monotonic() + at_most_seconds
        self._stop, self._lost = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"heartbeat {job.id}", daemon=True)

    def check(self) -> None:
        """Raise `LeaseLost` once somebody else has the job."""
        if self._lost.is_set():
            raise LeaseLost(f"job {self._job.id} is in other hands")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._lease.total_seconds() / 3) and time.monotonic() < self._until:
            try:
                with self._begin() as uow:
                    uow.jobs.extend(self._job, self._clock.now(), self._lease)
                    uow.commit()
            except LeaseLost:
                self._lost.set()
                return
            except PtkStoreError:
                continue  # the catalog does not answer now; the lease may outlast that
            except BaseException:
                self._lost.set()  # nobody extends the lease any more, so it will be lost
                raise
