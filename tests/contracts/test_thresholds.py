"""What every table of noisy thresholds and their answers must do, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.budgeting.thresholds import Comparison, ReleasedLoss, Threshold
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import LateWriter
from tests.support.builders import NOW, PTK, STREAM
from tests.support.databases import OnPostgresql, OnSqlite

ONE = Threshold(WindowId(STREAM, 3), "common", "compare/a/3", bytes(range(256)))
OTHERS = (replace(ONE, line="ptk taxi.a"), replace(ONE, window=WindowId(STREAM, 2**40)))
ANSWER = Comparison("compare/a/3", PTK, WindowId(STREAM, 3), NOW + timedelta(microseconds=1), above=True)

RELEASED = ReleasedLoss("compare/a/3", PTK, WindowId(STREAM, 3), 2**40, NOW, 7 + 2**-20)


class ThresholdsContract:
    def test_a_line_of_a_window_has_one_threshold(self, catalog: SqlCatalog) -> None:
        newer = replace(ONE, reservation="compare/b/3", sealed=b"\x00")
        with catalog.begin() as uow:
            for one in (*OTHERS, ONE, newer, replace(ONE, window=WindowId("bikes", 3))):
                uow.thresholds.keep(one)
            assert uow.thresholds.of(STREAM) == (newer, *OTHERS)

    def test_a_threshold_that_is_dropped_is_gone_and_no_other(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            for one in (ONE, *OTHERS):
                uow.thresholds.keep(one)
            for _ in range(2):
                uow.thresholds.drop(ONE.window, ONE.line)
            assert uow.thresholds.of(STREAM) == OTHERS

    def test_a_job_gives_one_answer(self, catalog: SqlCatalog) -> None:
        below = replace(ANSWER, job_id="compare/b/3", above=False)
        with catalog.begin() as uow:
            uow.thresholds.add(below)
            uow.thresholds.add(ANSWER)
            uow.thresholds.add(replace(ANSWER, job_id="compare/c/3", window=WindowId("bikes", 3)))
            assert uow.thresholds.answers(STREAM) == (ANSWER, below)
            uow.commit()
        with catalog.begin() as uow, pytest.raises(LateWriter):
            uow.thresholds.add(replace(ANSWER, above=False))

    def test_a_job_releases_one_number_or_none(self, catalog: SqlCatalog) -> None:
        numbers = [-(2.0**62), 0.1, None]
        others = [
            replace(RELEASED, job_id=f"compare/{name}/3", noisy=noisy)
            for name, noisy in zip("bcd", numbers, strict=True)
        ]
        with catalog.begin() as uow:
            for one in (*others, RELEASED):
                uow.thresholds.add_released(one)
            uow.thresholds.add_released(replace(RELEASED, job_id="compare/e/3", window=WindowId("bikes", 3)))
            assert uow.thresholds.released(STREAM) == (RELEASED, *others)
            uow.commit()
        with catalog.begin() as uow, pytest.raises(LateWriter):
            uow.thresholds.add_released(replace(RELEASED, noisy=None))

    def test_what_is_of_an_expired_window_goes_with_it(self, catalog: SqlCatalog) -> None:
        later = replace(ANSWER, job_id="compare/a/4", window=WindowId(STREAM, 4))
        with catalog.begin() as uow:
            for one in (ONE, *OTHERS):
                uow.thresholds.keep(one)
            for answer in (ANSWER, later):
                uow.thresholds.add(answer)
            kept = replace(RELEASED, job_id="compare/a/4", window=WindowId(STREAM, 4))
            for number in (RELEASED, kept):
                uow.thresholds.add_released(number)
            uow.thresholds.expire([WindowId(STREAM, 3), WindowId(STREAM, 5)])
            assert uow.thresholds.of(STREAM) == OTHERS[1:]
            assert uow.thresholds.answers(STREAM) == (later,)
            assert uow.thresholds.released(STREAM) == (kept,)


class TestSqlite(OnSqlite, ThresholdsContract):
    """In a file."""


class TestPostgresql(OnPostgresql, ThresholdsContract):
    """On a real server."""
