"""Words left for owners and the ends of trainings, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.domain.notices import Notice
from tests.support.builders import NOW, PTK, STREAM, add, job, version
from tests.support.databases import OnPostgresql, OnSqlite

DAY = timedelta(days=1)


class NoticesContract:
    @pytest.fixture
    def words(self, catalog: SqlCatalog) -> list[Notice]:
        """Five words for a team, among as many for another."""
        words = [Notice(NOW + n * DAY, "taxi", f"code-{n}", ptk_id=PTK, window_index=n) for n in range(5)]
        with catalog.begin() as uow:
            for word in words:
                uow.notify_owner(replace(word, team="bikes", code="failed"))
                uow.notify_owner(word)
            uow.commit()
        return words

    def test_a_teams_words_are_read_in_parts_from_either_end(
        self, catalog: SqlCatalog, words: list[Notice]
    ) -> None:
        with catalog.read() as uow:
            assert list(uow.notices("taxi")) == words
            assert list(uow.notices("taxi", skip=1, limit=2)) == words[1:3]
            assert list(uow.notices("taxi", skip=4)) == words[4:]
            assert list(uow.notices("taxi", skip=5, limit=2)) == []
            assert list(uow.notices("taxi", skip=10**18, limit=201)) == []
            assert list(uow.notices("taxi", limit=2, newest=True)) == [words[4], words[3]]

    def test_words_are_read_since_a_time(self, catalog: SqlCatalog, words: list[Notice]) -> None:
        with catalog.read() as uow:
            assert list(uow.notices("taxi", since=words[3].at)) == words[3:]
            assert list(uow.notices("taxi", since=words[3].at, skip=1)) == words[4:]
            assert {word.team for word in uow.notices(since=words[3].at)} == {"taxi", "bikes"}
            assert len(uow.notices(since=words[3].at)) == 4

    def test_words_are_found_by_what_they_are_about(self, catalog: SqlCatalog, words: list[Notice]) -> None:
        many = [4, 1, *range(100, 1_200)]  # more than a statement takes
        refused = Notice(NOW, "taxi", "ptk-rejected", STREAM, PTK)
        others = [
            replace(words[1], run=JobKind.DRIFT),
            replace(words[1], stream=STREAM),
            replace(words[1], ptk_id="taxi.other"),
            replace(refused, stream="other"),
            replace(refused, stream=None),
        ]
        with catalog.begin() as uow:
            for one in (refused, *others):
                uow.notify_owner(one)
            uow.commit()
        with catalog.read() as uow:
            found = uow.notices_about("taxi", PTK, windows=many)
            assert sorted(found, key=lambda one: one.at) == [words[1], words[4]]
            assert list(uow.notices_about("ads", PTK, windows=many)) == []
            assert list(uow.notices_about("taxi", PTK, windows=[])) == []
            assert list(uow.notices_about("taxi", PTK, stream=STREAM)) == [refused]
            assert list(uow.notices_about("taxi", PTK, windows=many, run=JobKind.DRIFT)) == others[:1]

    def test_trainings_are_read_by_window_with_what_they_made(self, catalog: SqlCatalog) -> None:
        speed = [job(f"train/{n}", JobKind.TRAIN, window=n, ptk_id=PTK) for n in (2, 0, 1, 10)]
        other = job("train/other", JobKind.TRAIN, window=1, ptk_id="taxi.other")
        evaluation = job("evaluate/1", JobKind.EVALUATE, window=1, ptk_id=PTK, state=JobState.ENDED)
        add(catalog, *speed, other, evaluation)
        with catalog.begin() as uow:
            uow.versions.add(version(1, "train/0"))
            uow.commit()
        with catalog.read() as uow:

            def windows(**asked: Any) -> list[int | None]:
                return [one.window_index for one in uow.jobs.trainings(PTK, **asked)]

            assert windows() == [0, 1, 2, 10]
            assert windows(start=1, limit=2) == [1, 2]
            assert windows(limit=2, newest=True) == [10, 2]
            assert windows(start=11) == []
            assert windows(start=2, look=2) == [10]
            made = uow.versions.of_jobs(f"train/{n}" for n in range(1_200))
            assert dict(made) == {"train/0": (1, NOW)}

    def test_looks_on_one_window_are_read_in_their_order(self, catalog: SqlCatalog) -> None:
        looks = [
            replace(job(f"train/{look}", JobKind.TRAIN, window=1, ptk_id=PTK), look=look)
            for look in (10, 1, 2)
        ]
        add(catalog, *looks, job("train/later", JobKind.TRAIN, window=2, ptk_id=PTK))
        notice = Notice(NOW, "taxi", "failed", ptk_id=PTK, window_index=1, look=2)
        with catalog.begin() as uow:
            uow.notify_owner(notice)
            uow.commit()
        with catalog.read() as uow:

            def read(**asked: Any) -> list[tuple[int | None, int]]:
                return [(one.window_index, one.look) for one in uow.jobs.trainings(PTK, **asked)]

            assert read() == [(1, 1), (1, 2), (1, 10), (2, 1)]
            assert read(start=1, look=2, limit=2) == [(1, 2), (1, 10)]
            assert read(start=1, look=11) == [(2, 1)]
            assert read(newest=True) == [(2, 1), (1, 10), (1, 2), (1, 1)]
            assert list(uow.notices_about("taxi", PTK, windows=[1])) == [notice]


class TestOnSqlite(OnSqlite, NoticesContract):
    pass


class TestOnPostgresql(OnPostgresql, NoticesContract):
    pass
