"""The Celery worker of the service, in whose processes faults strike."""

from __future__ import annotations

import os
from pathlib import Path

import feast  # noqa: F401 - before the pool forks: a process that replaces a killed one then starts at once

from ptkstore.settings import load_settings
from ptkstore.wiring import Service
from tests.faults.strikes import FAULTS, StrikingSteps
from workers import process, worker


def make_service() -> Service:
    """The service of one pool process."""
    return Service(load_settings(), steps=StrikingSteps(Path(os.environ[FAULTS])))


if __name__ == "__main__":
    process.make_service = make_service
    worker.main()
