"""Writers of one ledger are killed -9 at random, again and again; an independent reader counts what is missing."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter, defaultdict
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.ledger.filters import Filters
from ptkstore.domain.ledger.journal import EntryKind
from ptkstore.domain.ledger.rules import verify
from tests.faults.ledger_tables import SQLITE
from tests.faults.ledger_writer import write
from tests.support.builders import stream_named
from tests.support.plugins.measurements import Measured

pytestmark = pytest.mark.long

WRITERS = 3
# Imports what a writer needs once; each writer is forked from that, without a connection or a lock.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.faults.ledger_writer"])


class Fire:
    """Processes that charge, and somebody who kills them."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.draw = random.Random(20_261_121)
        self.kills = self.started = 0
        self.running = [self._start() for _ in range(WRITERS)]

    def until(self, operations: int) -> None:
        """Kill one after the other until so many answers are in the logs."""
        while sum(path.read_bytes().count(b"\n") for path in self.logs()) < operations:
            time.sleep(self.draw.uniform(0.3, 3.0))
            place = self.draw.randrange(WRITERS)
            assert self.running[place].is_alive(), "a writer ended by itself"
            self.running[place].kill()
            self.running[place].join()
            self.kills += 1
            self.running[place] = self._start()
        self.end()

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.join()

    def logs(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def told(self) -> dict[str, Counter[str]]:
        """What writers were told, by kind, and how often; the last line of a killed writer may be cut."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for path in self.logs():
            for line in path.read_text().split("\n")[:-1]:
                kind, _, key = line.partition(" ")
                found[kind][key] += 1
        return found

    def _start(self) -> BaseProcess:
        self.started += 1
        name = f"w{self.started}"
        log = str(self.folder / f"{name}.log")
        process = FORKS.Process(target=write, args=(self.url, log, name, self.draw.getrandbits(32)))
        process.start()
        return process


def survive(folder: Path, url: str, operations: int) -> tuple[Fire, dict[str, int]]:
    """Run, then count what an outsider finds wrong."""
    with SqlCatalog(url) as catalog, catalog.begin() as uow:
        uow.streams.add(stream_named())
        uow.commit()
    fire = Fire(folder, url)
    try:
        fire.until(operations)
    finally:
        fire.end()
    told = fire.told()
    with SqlCatalog(url) as catalog, catalog.begin() as uow:
        ledgers = [
            (uow.ledger.created(stream.name)[0], uow.ledger.journal(stream.name))
            for stream in uow.streams.all()
        ]
    kinds: dict[EntryKind, set[str]] = defaultdict(set)
    for entry in (entry for _, journal in ledgers for entry in journal):
        kinds[entry.kind].add(entry.key)
    return fire, {
        "kinds of answers never met": len({"G", "D", "S", "R", "W"} - set(told)),
        "faults of the journal": sum(len(verify(records, journal)) for records, journal in ledgers),
        "blocks overspent": sum(len(Filters.of(records, journal).over()) for records, journal in ledgers),
        "grants lost": len(set(told["G"]) - kinds[EntryKind.RESERVE]),
        "spends lost": len(set(told["S"]) - kinds[EntryKind.SPEND]),
        "releases lost": len(set(told["R"]) - kinds[EntryKind.RELEASE]),
        "trainings that spent twice": sum(n > 1 for n in told["W"].values()),
        "redelivered requests answered otherwise": len(told["X"]),
    }


def test_killed_writers_lose_and_overspend_nothing(tmp_path: Path) -> None:
    fire, wrong = survive(tmp_path, f"{SQLITE}{tmp_path / 'catalog.db'}", 1_500)
    assert fire.kills > 0
    del wrong["kinds of answers never met"]  # chance, in a walk as short as this
    assert wrong == dict.fromkeys(wrong, 0)


@pytest.mark.soak
@pytest.mark.real
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_million_faulted_operations(
    tmp_path: Path, database: str, request: pytest.FixtureRequest, measured: Measured
) -> None:
    url = f"{SQLITE}{tmp_path / 'catalog.db'}"
    if database == "postgresql":
        url = request.getfixturevalue("fresh_postgres_url")
    fire, wrong = survive(tmp_path, url, 500_000)
    name = f"ledger-under-fire-{database}"
    measured(
        id=f"{name}/kills", measure=f"writers killed -9 ({database})", unit="kills", ours=fire.kills, goal=100,
        direction="max",
    )  # fmt: skip
    for what, n in wrong.items():
        measured(
            id=f"{name}/{what.replace(' ', '-')}", measure=f"{what} ({database})", unit="", ours=n, goal=0,
            direction="min",
        )  # fmt: skip
