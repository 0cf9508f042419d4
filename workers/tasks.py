"""The one task: an id in, one use case, nothing out."""

from __future__ import annotations

from celery import shared_task

from ptkstore.adapters.world import log_code
from ptkstore.errors import PtkStoreError
from workers import process


@shared_task(name="ptk.run_job", ignore_result=True)  # type: ignore[untyped-decorator]
def run_job(job_id: str) -> None:
    """A wake-up hint: the catalog decides whether there is work, and which job is next.

    The hinted job itself may have to wait: hints lie in the order in which they were sent, and teams share the workers
    by what they hold of them now.
    """
    try:
        service = process.service()
        job = service.claim_fairest()
        if job is None:
            return
        job_id = job.id
        service.do(job)
    except PtkStoreError as error:
        log_code("job put off", job_id, error.code)
    except Exception as error:  # noqa: BLE001 - Celery would log the text of any other error (differences.md F9)
        log_code("job failed unexpectedly", job_id, type(error).__name__)
