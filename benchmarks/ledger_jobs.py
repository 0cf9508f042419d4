"""Looking for due work in a catalog with many jobs that ended and many windows that are late."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from benchmarks.measuring import Row, measured, seconds
from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id
from tests.support.builders import NOW, PTK, STREAM, stream_named

JOBS, FEW_JOBS, LATE = 200_000, 10_000, 500
ROUNDS = 40
AT_ONCE = 200  # jobs that a relay looks for
_OF_A_WINDOW = (JobKind.PREPARE, JobKind.ALLOCATE, JobKind.TRAIN, JobKind.EXPIRE)


def jobs_of(window: int, *, late: bool) -> list[Job]:
    """The jobs of a window: of a late one all wait that can, of any other all have ended."""
    found = []
    for kind in _OF_A_WINDOW:
        ptk_id = PTK if kind is JobKind.TRAIN else None
        name = job_id(kind, ptk_id or STREAM, window)
        waits = late and kind is not JobKind.ALLOCATE
        found.append(
            Job(
                name,
                kind,
                STREAM,
                JobState.READY if waits else JobState.ENDED,
                NOW - timedelta(seconds=1),
                window_index=window,
                ptk_id=ptk_id,
                outcome=None if waits else Outcome.DONE,
            )
        )
    return found


@contextmanager
def filled(url: str, n_jobs: int) -> Iterator[SqlCatalog]:
    """A catalog with so many jobs, those of `LATE` windows unfinished."""
    windows = n_jobs // len(_OF_A_WINDOW)
    with SqlCatalog(url) as catalog:
        with catalog.begin() as uow:
            uow.streams.add(stream_named())
            for start in range(0, windows, 5_000):
                some = range(start, min(start + 5_000, windows))
                uow.jobs.add(
                    *(job for window in some for job in jobs_of(window, late=window >= windows - LATE))
                )
            uow.commit()
        yield catalog


def look(catalog: SqlCatalog) -> Callable[[], object]:
    """What the relay does ten times a second."""

    def due() -> object:
        with catalog.read() as uow:
            found = uow.jobs.due(NOW, AT_ONCE, deliveries=False)
        if len(found) != AT_ONCE:
            raise RuntimeError(f"{len(found)} jobs are due, of more than {AT_ONCE}")
        return found

    return due


def rows(vendor: str, few: str, many: str) -> list[Row]:
    """The time of a look in the large catalog, and how much more that is than in a small one.

    The two take turns, and the quickest of their looks count: other work on the machine only makes them slower.
    """
    with filled(few, FEW_JOBS) as small, filled(many, JOBS) as large:
        for url in (few, many):
            analysed(url)
        looks = look(large), look(small)
        for _ in range(12):  # psycopg prepares what comes again, and PostgreSQL then plans it no more
            for one in looks:
                one()
        ours, theirs = (
            min(times)
            for times in zip(*([seconds(one) for one in looks] for _ in range(ROUNDS)), strict=True)
        )
    what = f"{vendor}: looking for due work, {JOBS:,} jobs and {LATE} late windows"
    return [
        measured(f"jobs-due-{vendor}", what, unit="ms", ours=ours * 1e3, goal=5, direction="min"),
        measured(
            f"jobs-due-{vendor}-growth",
            f"{what}, against as many late windows among {FEW_JOBS:,} jobs",
            unit="ms",
            ours=ours * 1e3,
            goal=1.5,
            direction="min",
            against=f"{FEW_JOBS:,} jobs",
            theirs=theirs * 1e3,
            judged=ours / theirs,
        ),
    ]


def analysed(url: str) -> None:
    """Let PostgreSQL count its rows, as it does by itself within a minute."""
    if url.startswith("postgresql"):
        engine = sa.create_engine(
            url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT"
        )
        with engine.connect() as connection:
            connection.exec_driver_sql("ANALYZE")
        engine.dispose()
