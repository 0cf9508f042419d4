"""Catalogs of another time: taken, put back, and worked with."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from ptkstore.errors import PtkStoreError
from tests.faults.rig import Rig


class Listening:
    """Steps that are only remembered."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def reached(self, step: str, job: str) -> None:
        self.steps.append(step)


def publish(chain: Rig, window: int) -> None:
    chain.close(window)
    chain.work(chain.service())


def copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


def restore(chain: Rig, catalog: Path) -> Rig:
    """The same home with this catalog."""
    for service in chain.services:
        service.close()
    for path in chain.settings.root.glob("catalog.db*"):
        path.unlink()
    shutil.copy(catalog, chain.settings.root / "catalog.db")
    return Rig(chain.settings.root, chain.receiver)


def try_all(chain: Rig) -> tuple[list[str], list[PtkStoreError]]:
    """One try at every job, and at those that follow: the steps that were reached, and the errors."""
    listening, errors = Listening(), []
    service = chain.service()
    service.steps = listening
    while due := service.due():
        for one in due:
            try:
                service.work_on(one)
            except PtkStoreError as error:
                errors.append(error)
    return listening.steps, errors


def lake_of(chain: Rig) -> dict[str, bytes]:
    lake = Path(chain.settings.lake)
    return {str(path.relative_to(lake)): path.read_bytes() for path in lake.rglob("*") if path.is_file()}
