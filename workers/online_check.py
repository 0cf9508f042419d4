"""Checks of a worker every minute: online rows that were lost, and drafts that nobody needs any more."""

from __future__ import annotations

import time

from ptkstore.adapters.runtime import code_of, log_code
from ptkstore.application.operations.essential_thread import EssentialThread
from ptkstore.application.versions.materialize_ptk import ROWS_LOST
from ptkstore.wiring import Service

EVERY_SECONDS = 60.0


def keep_checking(service: Service) -> None:
    """Check from a thread, as long as this process lives."""

    def check() -> None:
        while True:
            time.sleep(EVERY_SECONDS)
            check_once(service)
            destroy_once(service)

    EssentialThread(check, "online-check").start()


def check_once(service: Service) -> None:
    """Look once; trouble with it, whatever it is, does not keep the next look from being made."""
    try:
        for ptk_id in service.repair_online():
            log_code("online rows are written again", ptk_id, ROWS_LOST)
    except Exception as error:  # noqa: BLE001 - whatever it is, the next look is made
        log_code("online rows not checked", "-", code_of(error))


def destroy_once(service: Service) -> None:
    """Destroy drafts and partials of killed workers; the next look tries again after trouble."""
    for what, destroy in (
        ("refused drafts", service.destroy_refused_drafts),
        ("needless partials", service.destroy_needless_partials),
    ):
        try:
            destroy()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next look is made
            log_code(f"{what} not destroyed", "-", code_of(error))
