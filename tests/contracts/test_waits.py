"""What every table of waits and allowances must do, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.scheduling.shares import Share
from ptkstore.domain.scheduling.waits import MOST_ENDED, EndedWait, Wait
from tests.support.builders import NOW, PTK, STREAM
from tests.support.databases import OnPostgresql, OnSqlite

WAIT = Wait(PTK, STREAM, NOW, 7, 3)
SECOND = timedelta(seconds=1)
OTHER = replace(WAIT, ptk_id="taxi.other")
SHARES = [Share("taxi.other", 2, 5, 0, 1), Share(PTK, 2, 9, 4, 1), Share(PTK, 130, 10**15, 10**18)]


class WaitsContract:
    def test_a_wait_comes_back_as_it_was_written_and_begins_anew(self, catalog: SqlCatalog) -> None:
        later = replace(WAIT, since=NOW + timedelta(microseconds=1), after=2**60)
        with catalog.begin() as uow:
            for wait in (OTHER, WAIT, replace(WAIT, ptk_id="bikes.a", stream="bikes"), later):
                uow.waits.begin(wait)
            assert uow.waits.of(STREAM) == {OTHER.ptk_id: OTHER, PTK: later}

    def test_the_last_wait_of_a_ptk_is_found_by_its_name(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.waits.begin(WAIT)
            uow.waits.begin(OTHER)
            assert uow.waits.last(PTK) == WAIT
            uow.waits.end(PTK)
            assert uow.waits.last(PTK) is None

    def test_waits_that_ended_are_kept_once_and_the_newest_come_first(self, catalog: SqlCatalog) -> None:
        first = EndedWait(PTK, STREAM, NOW, NOW + SECOND, "version")
        later = EndedWait(PTK, STREAM, NOW + SECOND, None, "timeout")
        other = EndedWait("taxi.other", STREAM, NOW, NOW + 2 * SECOND, "changed")
        with catalog.begin() as uow:
            for one in (
                first,
                other,
                later,
                replace(first, end="changed"),
                replace(later, stream="bikes", ptk_id="b"),
            ):
                uow.waits.keep(one)
            assert uow.waits.ended(STREAM) == (later, first, other)
            assert uow.waits.ended(STREAM, 2) == (later, first)
            assert uow.waits.ended(STREAM, 1, [PTK.partition(".")[0], "nobody"]) == (later,)
            assert uow.waits.ended(STREAM, None, ["tax", "tax_", "%"]) == uow.waits.ended(STREAM, 3, []) == ()
            uow.waits.begin(WAIT)
            uow.waits.end(PTK)
            assert len(uow.waits.ended(STREAM)) == 3

    def test_the_newest_waits_of_each_ptk_are_kept_whatever_others_do(self, catalog: SqlCatalog) -> None:
        other = EndedWait("taxi.other", STREAM, NOW - SECOND, NOW, "version")
        many = [EndedWait(PTK, STREAM, NOW + n * SECOND, None, "timeout") for n in range(MOST_ENDED + 2)]
        with catalog.begin() as uow:
            for one in (other, *many):
                uow.waits.keep(one)
            assert uow.waits.ended(STREAM) == (*reversed(many[2:]), other)

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
