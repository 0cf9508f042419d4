"""The one task: an id in, one use case, nothing out."""

from __future__ import annotations

from celery import shared_task

from ptkstore.adapters.world import log_code
from ptkstore.errors import PtkStoreError
from workers import process


@shared_task(name="ptk.run_job", ignore_result=True)  # type: ignore[untyped-decorator]
def run_job(job_id: str) -> None:
    """A wake-up hint: the catalog decides whether there is work and who does it."""
    try:
        process.service().work_on(job_id)
    except PtkStoreError as error:
        log_code("job put off", job_id, error.code)
    except Exception as error:  # noqa: BLE001 - Celery would log the text of any other error (differences.md F9)
        log_code("job failed unexpectedly", job_id, type(error).__name__)
