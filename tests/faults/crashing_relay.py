"""The relay of the service, in whose process faults strike."""

from __future__ import annotations

import os
from pathlib import Path

from ptkstore.settings import load_settings
from ptkstore.wiring import Service
from tests.faults.strikes import FAULTS, StrikingSteps
from workers import process, relay


def make_service() -> Service:
    """The service of the relay."""
    return Service(load_settings(), steps=StrikingSteps(Path(os.environ[FAULTS])))


if __name__ == "__main__":
    process.make_service = make_service
    relay.main()
