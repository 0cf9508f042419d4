"""A Celery worker process for this service."""

from __future__ import annotations

import sys

from celery.signals import setup_logging

from ptkstore.adapters.world import configure_logging
from ptkstore.settings import load_settings
from ptkstore.wiring import Service
from workers.app import make_app


@setup_logging.connect  # type: ignore[untyped-decorator]
def _own_logging(**_: object) -> None:
    """Keep Celery from installing handlers that print arguments and tracebacks (PAPERS F9)."""
    configure_logging()


def main() -> None:
    """Run a worker until told to stop."""
    settings = load_settings()
    app = make_app(Service(settings).broker_url)
    app.worker_main(
        [
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
