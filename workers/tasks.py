"""The one task: an id in, one use case, nothing out."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from celery import shared_task

from ptkstore.adapters.runtime import log_code
from ptkstore.domain.jobs import SMALL_AT_ONCE, Job
from ptkstore.errors import PtkStoreError
from workers import process


@shared_task(name="ptk.run_job", ignore_result=True)  # type: ignore[untyped-decorator]
def run_job(job_id: str) -> None:
    """Wake up: the catalog decides whether there is work, and which job is next.

    The hinted job itself may have to wait: hints are in the order in which they were sent, and teams share the workers
    by the slots that they have now.
    """
    jobs: tuple[Job, ...] = ()
    with _log_errors_of(job_id):
        jobs = process.service().claim_fairest()
    with ThreadPoolExecutor(SMALL_AT_ONCE) as threads:
        for job in jobs[1:]:
            try:
                threads.submit(_do, job)
            except RuntimeError:  # the machine has no room for another thread
                _do(job)
        for job in jobs[:1]:
            _do(job)


def _do(job: Job) -> None:
    with _log_errors_of(job.id):
        process.service().do(job)


@contextmanager
def _log_errors_of(job_id: str) -> Iterator[None]:
    """Log an error as a code: Celery would log its text (differences.md F9)."""
    try:
        yield
    except PtkStoreError as error:
        log_code("job put off", job_id, error.code)
    except Exception as error:  # noqa: BLE001 - whatever it is, the catalog has the job and gives it to somebody again
        log_code("job failed unexpectedly", job_id, type(error).__name__)
