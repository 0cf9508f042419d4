"""What every table of waits and allowances must do, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.scheduling.shares import Share
from ptkstore.domain.scheduling.waits import Wait
from tests.support.builders import NOW, PTK, STREAM
from tests.support.databases import OnPostgresql, OnSqlite

WAIT = Wait(PTK, STREAM, NOW, 7, 3)
OTHER = replace(WAIT, ptk_id="taxi.other")
SHARES = [Share("taxi.other", 2, 5, 0, 1), Share(PTK, 2, 9, 4, 1), Share(PTK, 130, 10**15, 10**18)]


class WaitsContract:
    def test_a_wait_comes_back_as_it_was_written_and_begins_anew(self, catalog: SqlCatalog) -> None:
        later = replace(WAIT, since=NOW + timedelta(microseconds=1), after=2**60)
        with catalog.begin() as uow:
            for wait in (OTHER, WAIT, replace(WAIT, ptk_id="bikes.a", stream="bikes"), later):
                uow.waits.begin(wait)
            assert uow.waits.of(STREAM) == {OTHER.ptk_id: OTHER, PTK: later}

    def test_allowances_take_the_place_of_those_of_before(self, catalog: SqlCatalog) -> None:
        changed = [SHARES[0], replace(SHARES[1], nano=8), Share(PTK, 258, 1, 1)]
        with catalog.begin() as uow:
            uow.waits.allow("bikes", SHARES)
            for shares in (SHARES, changed, changed):
                uow.waits.allow(STREAM, reversed(shares))
                assert sorted(uow.waits.allowed(STREAM), key=str) == sorted(shares, key=str)
            uow.waits.allow(STREAM, ())
            assert (uow.waits.allowed(STREAM), len(uow.waits.allowed("bikes"))) == ((), 3)

    @pytest.mark.parametrize("anew", [True, False])
    def test_who_begins_anew_or_waits_no_longer_has_no_allowance(
        self, catalog: SqlCatalog, anew: bool
    ) -> None:
        with catalog.begin() as uow:
            uow.waits.begin(WAIT)
            uow.waits.allow(STREAM, SHARES)
            if anew:
                uow.waits.begin(replace(WAIT, after=9))
            else:
                uow.waits.end(PTK)
                uow.waits.end(PTK)
            assert uow.waits.allowed(STREAM) == (SHARES[0],)
            assert (PTK in uow.waits.of(STREAM)) is anew

    def test_no_allowance_is_below_nothing(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow, pytest.raises(IntegrityError):
            uow.waits.allow(STREAM, [Share(PTK, 2, -1, 0)])


class TestSqlite(OnSqlite, WaitsContract):
    pass


class TestPostgres(OnPostgresql, WaitsContract):
    pass
