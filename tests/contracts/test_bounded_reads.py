"""Reads of pages that show the newest of a long history: on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from datetime import timedelta

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.evaluations import Evaluation, RiskMass
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.validations import Validation
from ptkstore.domain.versions.versions import Version
from tests.support.builders import NOW, PTK, add, job
from tests.support.databases import OnPostgresql, OnSqlite

MASS = RiskMass(1, 10)


class BoundedReadsContract:
    def test_the_newest_verdicts_are_read_in_their_order(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            for number in (3, 1, 2):
                at = NOW + timedelta(seconds=number)
                verdict = {"decision": "retry"}
                uow.validations.add(Validation(PTK, f"v{number}", number, number, 0.1, MASS, verdict, at, 0))
            uow.commit()
        with catalog.begin() as uow:
            for newest, jobs in ((None, ["v1", "v2", "v3"]), (2, ["v2", "v3"]), (9, ["v1", "v2", "v3"])):
                assert [one.job_id for one in uow.validations.of(PTK, newest=newest)] == jobs

    def test_estimates_are_read_after_a_version(self, catalog: SqlCatalog) -> None:
        add(catalog, *(job(f"t{number}", JobKind.TRAIN, ptk_id=PTK) for number in (1, 2, 3)))
        with catalog.begin() as uow:
            for number in (1, 2, 3):
                uow.versions.add(Version(PTK, number, f"t{number}", f"d{number}", 0, NOW, "{}"))
                uow.evaluations.add(Evaluation(PTK, number, f"e{number}", (0,), 0.1, MASS, NOW))
            uow.commit()
        with catalog.begin() as uow:
            assert [one.number for one in uow.evaluations.of(PTK)] == [1, 2, 3]
            assert [one.number for one in uow.evaluations.of(PTK, after=1)] == [2, 3]


class TestBoundedReadsOnSqlite(OnSqlite, BoundedReadsContract):
    pass


class TestBoundedReadsOnPostgresql(OnPostgresql, BoundedReadsContract):
    pass
