"""Measures the ledger: `make bench-ledger`. Charges over 365 blocks at 16 orders, durable, by 16 writers at once.

Also how long it takes to find due work in a catalog of many jobs.
"""

import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # this file's directory would hide the package of the same name

from benchmarks import ledger_jobs  # noqa: E402
from benchmarks.measuring import Row, measured, report  # noqa: E402
from ptkstore.adapters.sql import SqlCatalog  # noqa: E402
from ptkstore.application.ledger.charging import charge_of  # noqa: E402
from ptkstore.application.ledger.group_commit import GroupCommit, Wishes  # noqa: E402
from ptkstore.domain.accounting.accountants import SATURATED, Accountant, Charge, caps_of  # noqa: E402
from ptkstore.domain.accounting.losses import Loss  # noqa: E402
from ptkstore.domain.accounting.sharing import COMMON  # noqa: E402
from ptkstore.domain.ledger.block_ledgers import BlockRecord  # noqa: E402
from ptkstore.domain.ledger.filters import Filters  # noqa: E402
from ptkstore.domain.ledger.journal import BudgetRequest  # noqa: E402
from ptkstore.domain.ledger.rules import Granted, decide, verify  # noqa: E402
from ptkstore.domain.streams.blocks import BlockSet  # noqa: E402
from ptkstore.ports.catalog import UnitOfWork  # noqa: E402
from tests.services.postgres import running_postgres  # noqa: E402
from tests.support.builders import stream_named  # noqa: E402

STREAM, BLOCKS, WRITERS, AT_ONCE = "taxi", BlockSet((0, 365)), 16, 4
CHARGES = 40_000
CAPACITY, LOSS = Loss.capacity(10, 1e-6), Loss.charge(1e-5)
EVENT = {"name": "DiscreteLaplace", "l1_sensitivity": 1, "scale": 1e5, "count": 1}
CHARGE = charge_of(EVENT, Accountant.RENYI, LOSS)


def request(key: str, blocks: BlockSet = BLOCKS) -> BudgetRequest:
    return BudgetRequest(STREAM, key, "bench.ptk", blocks, LOSS, CHARGE)


def _asked(wishes: list[tuple[BudgetRequest, dict[str, object]]], _: UnitOfWork) -> Wishes[list[Any]]:
    return wishes, list


def charges(url: str) -> tuple[float, float]:
    """Charges per second of 16 writers that ask for four at a time, and the 99th percentile of their waits."""
    with SqlCatalog(url) as catalog:
        with catalog.begin() as uow:
            uow.streams.add(stream_named(STREAM))
            uow.ledger.add_blocks(STREAM, BLOCKS, CAPACITY, Accountant.RENYI)
            uow.commit()
        queue, waits, granted = GroupCommit(catalog.begin), [], []

        def write(writer: int) -> None:
            for first in range(0, CHARGES // WRITERS, AT_ONCE):
                wishes = [(request(f"{writer}.{first + n}"), EVENT) for n in range(AT_ONCE)]
                start = time.perf_counter()
                answers = queue.reserve(STREAM, partial(_asked, wishes))
                granted.extend(isinstance(answer, Granted) for answer in answers)
                waits.append(time.perf_counter() - start)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - start
        with catalog.begin() as uow:
            journal, (records, _) = uow.ledger.journal(STREAM), uow.ledger.created(STREAM)
    faults = verify(records, journal)
    if faults or len(journal) != len(granted) or not all(granted):
        raise RuntimeError(f"the ledger is wrong: {faults[:3]}, {len(journal)} entries of {len(granted)}")
    return len(granted) / took, float(np.quantile(waits, 0.99))


def row_per_block(path: Path, n: int = 200) -> float:
    """Charges per second of the usual design: one row per block and order, updated in a transaction each."""
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("PRAGMA journal_mode = WAL")
        sql.execute("PRAGMA synchronous = FULL")
        columns = [f"o{n}" for n in range(len(CHARGE.amounts))]
        sql.execute(
            f"CREATE TABLE block (number INTEGER PRIMARY KEY, {', '.join(f'{c} INTEGER' for c in columns)})"
        )
        values = ", ".join("0" for _ in columns)
        insert = f"INSERT INTO block VALUES (?, {values})"  # noqa: S608  (zeros)
        sql.executemany(insert, [(b,) for b in BLOCKS])
        adding = ", ".join(f"{c} = {c} + {a}" for c, a in zip(columns, CHARGE.amounts, strict=True))
        update = f"UPDATE block SET {adding} WHERE number = ?"  # noqa: S608  (whole numbers)
        start = time.perf_counter()
        for _ in range(n):
            sql.execute("BEGIN IMMEDIATE")
            for number in BLOCKS:
                sql.execute(update, (number,))
            sql.execute("COMMIT")
        return n / (time.perf_counter() - start)


def microseconds_to_decide(n_blocks: int, *, alike: bool, apart: bool = False) -> float:
    """How long one decision that grants takes over all blocks, in memory.

    Parameters
    ----------
    alike : bool
        Whether some order has room in all blocks. Otherwise each block has room at one order only, and no two
        neighbours at the same one.
    apart : bool
        Whether each block is a range of its own, as those of a part of every window are.
    """
    step = 2 if apart else 1
    filters = Filters.of(BlockRecord(n, {COMMON: CAPACITY}, Accountant.RENYI) for n in range(step * n_blocks))
    edges = (0, n_blocks)
    if apart:
        edges = tuple(edge for n in range(0, 2 * n_blocks, 2) for edge in (n, n + 1))
    wish = request("k", BlockSet(edges))
    filters.promise(wish)
    useful = [place for place, cap in enumerate(caps_of(Accountant.RENYI, CAPACITY).amounts) if cap > 0]
    for n in range(0 if alike else n_blocks):
        kept = useful[n % len(useful)]
        full = Charge(tuple(1 if place == kept else SATURATED for place in range(len(CHARGE.amounts))))
        filters.promise(replace(request(f"full {n}", BlockSet((n, n + 1))), charge=full))
    if decide(filters, wish) != Granted("k"):
        raise RuntimeError("there is room in every block")
    took = []
    for _ in range(2_000):
        start = time.perf_counter()
        decide(filters, wish)
        took.append(time.perf_counter() - start)
    return statistics.median(took) * 1e6


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        running_postgres(durable=True) as server,
        server.fresh_database() as url,
    ):
        yield {"sqlite": f"sqlite:///{folder}/catalog.db", "postgresql": url}


def rows() -> list[Row]:
    with databases() as urls:
        peer = row_per_block(Path(urls["sqlite"].removeprefix("sqlite:///")).with_name("peer.db"))
        found = []
        for name, goal in (("sqlite", 5_000), ("postgresql", 2_000)):
            rate, wait = charges(urls[name])
            found += [
                measured(
                    f"ledger-{name}-charges",
                    f"{name}: charges of 365 blocks x 16 orders, 16 writers, durable",
                    unit="1/s",
                    ours=rate,
                    goal=goal,
                    direction="max",
                    against="one row per block (SQLite)",
                    theirs=peer,
                ),
                measured(
                    f"ledger-{name}-p99",
                    f"{name}: 99th percentile of a writer's wait",
                    unit="ms",
                    ours=wait * 1e3,
                    goal=50,
                    direction="min",
                ),
            ]
    with databases() as few, databases() as many:
        for name in few:
            found += ledger_jobs.rows(name, few[name], many[name])
    for state, alike, where in (("", True, ""), ("-unlike", False, ", no order with room in all")):
        few, many = (microseconds_to_decide(n, alike=alike) for n in (365, 3_650))
        found += [
            measured(
                f"ledger-decision{state}",
                f"a decision over 365 blocks{where}",
                unit="us",
                ours=few,
                goal=50,
                direction="min",
            ),
            measured(
                f"ledger-decision{state}-10x",
                f"a decision over 3,650 blocks{where}",
                unit="us",
                ours=many,
                goal=4,
                direction="min",
                against="365 blocks",
                theirs=few,
                judged=many / few,
            ),
        ]
    together, separate = (microseconds_to_decide(365, alike=True, apart=apart) for apart in (False, True))
    found.append(
        measured(
            "ledger-decision-apart",
            "a decision over 365 separate ranges",
            unit="us",
            ours=separate,
            goal=4,
            direction="min",
            against="one range of 365 blocks",
            theirs=together,
            judged=separate / together,
        )
    )
    return found


def main() -> int:
    return report("ledger", rows())


if __name__ == "__main__":
    raise SystemExit(main())
