"""How databases look for due work."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ptkstore.adapters.sql import SqlCatalog
from tests.support.builders import NOW


def test_a_look_for_due_work_reads_no_jobs_of_later_windows(tmp_path: Path) -> None:
    """Reading them for each window that expires takes 20 times as long with 500 late windows."""
    seen: list[tuple[str, Any]] = []

    def keep(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        seen.append((statement, parameters))

    path = tmp_path / "catalog.db"
    with SqlCatalog(f"sqlite:///{path}") as catalog, catalog.read() as uow:
        sa.event.listen(sa.engine.Engine, "before_cursor_execute", keep)
        try:
            uow.jobs.due(NOW, 10, deliveries=False)
        finally:
            sa.event.remove(sa.engine.Engine, "before_cursor_execute", keep)
    ((statement, parameters),) = seen
    database = sqlite3.connect(path)
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
    database.close()
    assert any("job_leased" in step for step in plan)
    assert not any("window_index>?" in step for step in plan)


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
