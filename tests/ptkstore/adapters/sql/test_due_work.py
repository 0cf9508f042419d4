"""How databases look for jobs again and again."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.jobs import average_of
from ptkstore.domain.streams.windows import WindowId
from tests.support.builders import NOW


def plan_of(path: Path, look: Callable[[Any], object]) -> list[str]:
    """Return how SQLite finds what a look reads with one statement."""
    seen: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, parameters))

    with SqlCatalog(f"sqlite:///{path}") as catalog, catalog.read() as uow:
        sa.event.listen(sa.engine.Engine, "before_cursor_execute", keep)
        try:
            look(uow)
        finally:
            sa.event.remove(sa.engine.Engine, "before_cursor_execute", keep)
    ((statement, parameters),) = seen
    with closing(sqlite3.connect(path)) as database:
        return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]


def test_a_look_for_due_work_reads_no_jobs_of_later_windows(tmp_path: Path) -> None:
    """Reading them for each window that expires takes 20 times as long with 500 late windows."""
    plan = plan_of(tmp_path / "catalog.db", lambda uow: uow.jobs.due(NOW, 10, deliveries=False))
    assert any("job_leased" in step for step in plan)
    assert not any("window_index>?" in step for step in plan)


def test_a_look_for_the_last_refused_average_reads_refused_ones_alone(tmp_path: Path) -> None:
    """It comes each second for each PTK that devices train, and windows only become more."""
    plan = plan_of(tmp_path / "catalog.db", lambda uow: uow.jobs.refused_average("team.model"))
    assert plan == ["SEARCH job USING COVERING INDEX job_refused_average (ptk_id=? AND kind=? AND outcome=?)"]


@pytest.mark.real
def test_postgresql_reads_refused_averages_alone_as_well(catalog_url: str) -> None:
    with SqlCatalog(catalog_url) as catalog, catalog.begin() as uow:
        uow.jobs.add(*(average_of("team.model", WindowId("phones", one), NOW) for one in range(1_000)))
        connection = uow._connection
        connection.exec_driver_sql("ANALYZE job")
        seen: list[tuple[str, Any]] = []
        sa.event.listen(connection, "before_cursor_execute", lambda *said: seen.append(said[2:4]))
        assert uow.jobs.refused_average("team.model") is None
        statement, parameters = seen[-1]
        plan = [row[0] for row in connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)]
    assert any("job_refused_average" in step for step in plan)


@pytest.mark.real
def test_a_search_that_comes_again_is_prepared_by_postgresql_and_planned_once(catalog_url: str) -> None:
    """It is sought ten times a second. A rollback would have psycopg forget what it has prepared."""
    with SqlCatalog(catalog_url) as catalog:
        for _ in range(20):  # psycopg prepares a statement once it came five times
            with catalog.read() as uow:
                uow.jobs.due(NOW, 200, deliveries=False)
        with catalog.read() as uow:
            prepared = uow.jobs._connection.exec_driver_sql(
                "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"
            )
            ((planned_once, planned_anew),) = (
                plans for statement, *plans in prepared if "row_number" in statement
            )
            assert planned_once > 10
            assert planned_anew == 0
            mode = uow.jobs._connection.exec_driver_sql("SHOW plan_cache_mode")
            assert mode.scalar_one() == "auto"  # other statements go by their parameters
