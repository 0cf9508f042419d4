"""A Celery worker process for this service."""

from __future__ import annotations

import sys

from celery.signals import setup_logging, worker_process_init, worker_process_shutdown, worker_shutting_down

from ptkstore.adapters.runtime import configure_logging, log_code, log_no_texts
from ptkstore.application.operations.liveness import ProcessRole
from ptkstore.errors import NoSandbox
from ptkstore.settings import load_settings
from ptkstore.wiring import Service
from workers import process
from workers.app import make_app
from workers.liveness import LivenessReporter
from workers.online_check import keep_checking


@setup_logging.connect  # type: ignore[untyped-decorator]
def _own_logging(**_: object) -> None:
    """Keep Celery from installing handlers that print arguments and tracebacks (differences.md F9)."""
    configure_logging()
    log_no_texts()


@worker_process_init.connect  # type: ignore[untyped-decorator]
def _live(**_: object) -> None:
    """Show life from the processes that do the jobs: the one that forks them should have no thread."""
    LivenessReporter(process.service(), ProcessRole.WORKER).keep_showing()
    keep_checking(process.service())


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _end(**_: object) -> None:
    """Send the spans that are left."""
    process.close()


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _leave_off(**_: object) -> None:
    """Celery waits for jobs that are under way: one that waits for the catalog leaves off."""
    process.leave_off()


def main() -> None:
    """Run a worker until told to stop."""
    _own_logging()
    settings = load_settings()
    service = Service(settings)
    try:
        service.sandbox.check()
    except NoSandbox as error:  # `ptk sandbox` tells why
        log_code("team code is refused", "-", error.code)
    app = make_app(service.broker_url)
    app.worker_main(
        [
            "--quiet",  # its banner is printed, and whoever prints to a full disk ends
            "worker",
            "--pool=prefork",
            f"--concurrency={settings.worker_concurrency}",
            "--loglevel=WARNING",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            *sys.argv[1:],
        ]
    )


if __name__ == "__main__":
    main()
