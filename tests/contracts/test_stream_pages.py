"""What the page of a stream asks of the catalog, of SQLite and of a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.domain.audit import DONE, STARTED, AuditEntry
from ptkstore.domain.jobs import JobKind
from ptkstore.domain.streams.blocks import BlockRange, BlockSet
from ptkstore.domain.streams.windows import Window, WindowId, WindowState
from tests.support.builders import (
    NOW,
    ORIGIN,
    PTK,
    STREAM,
    job,
    ptk_spec,
    request,
    reserve,
    stream_named,
    version,
    with_blocks,
)
from tests.support.databases import OnPostgresql, OnSqlite

DAY = timedelta(days=1)


class StreamPagesContract:
    def test_windows_between_two_numbers_are_those_that_closed_in_order(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            for name in (STREAM, "bikes"):
                uow.streams.add(stream_named(name))
                for n in (3, 1, 2, 7):
                    span = (ORIGIN + n * DAY, ORIGIN + (n + 1) * DAY)
                    uow.windows.add(Window(WindowId(name, n), *span, WindowState.CLOSED), at=NOW)
            uow.commit()
        with catalog.read() as uow:
            assert [one.id for one in uow.windows.between(STREAM, 2, 7)] == [
                WindowId(STREAM, 2),
                WindowId(STREAM, 3),
            ]

    def test_lines_on_blocks_are_found_by_any_of_their_ranges_and_no_others(
        self, catalog: SqlCatalog
    ) -> None:
        with_blocks(catalog, (0, 12))
        wide = replace(request("wide"), blocks=BlockSet((0, 1, 6, 8)))
        for wish in (request("a", blocks=(0, 2)), request("b", blocks=(2, 4)), wide):
            reserve(catalog, wish)
        with catalog.read() as uow:

            def keys(lo: int, hi: int, since: int = 0, limit: int = 9) -> list[str]:
                found = uow.ledger.touching(STREAM, BlockRange(lo, hi), since, limit)
                return [one.key for one in found]

            assert keys(0, 12) == ["a", "b", "wide"]
            assert keys(0, 12, limit=2) == ["a", "b"]
            assert keys(7, 8) == ["wide"]
            assert keys(2, 6) == ["b"]
            assert keys(7, 8, since=1) == []
            assert keys(8, 12) == []

    def test_lines_that_pass_over_the_blocks_hide_no_later_one_from_a_limit(
        self, catalog: SqlCatalog
    ) -> None:
        with_blocks(catalog, (0, 12))
        around = [replace(request(f"around{n}"), blocks=BlockSet((0, 1, 6, 8))) for n in range(4)]
        for wish in (*around, request("a", blocks=(2, 4)), request("b", blocks=(3, 4))):
            reserve(catalog, wish)
        with catalog.read() as uow:
            for limit, known in ((1, ["a"]), (2, ["a", "b"]), (3, ["a", "b"])):
                found = uow.ledger.touching(STREAM, BlockRange(2, 4), 0, limit)
                assert [one.key for one in found] == known

    def test_versions_in_the_lake_are_counted_by_the_windows_that_their_runs_read(
        self, catalog: SqlCatalog
    ) -> None:
        with catalog.begin() as uow:
            uow.streams.add(stream_named())
            uow.ptks.add(ptk_spec())
            spans = ((None, 1), (2, 4), (2, 4), (None, 9))
            for number, (oldest, newest) in enumerate(spans, start=1):
                made = job(f"train/{number}", JobKind.TRAIN, ptk_id=PTK, window=newest)
                uow.jobs.add(replace(made, oldest_window=oldest))
                uow.versions.add(replace(version(number, f"train/{number}"), window_index=newest))
            uow.jobs.add(job(f"place/{PTK}", JobKind.PLACE, ptk_id=PTK, window=None, position=3))
            uow.commit()
        with catalog.read() as uow:
            assert sorted(uow.versions.on_windows(STREAM, 0, 20)) == [(1, 1, 1), (2, 4, 2)]  # not the 4th
            assert sorted(uow.versions.on_windows(STREAM, 3, 4)) == [(2, 4, 2)]
            assert uow.versions.on_windows(STREAM, 5, 20) == ()
            assert uow.versions.on_windows("bikes", 0, 20) == ()

    def test_ptks_by_age_begin_with_those_of_which_no_time_is_known(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.streams.add(stream_named())
            for name, window, at in (
                ("taxi.c", 0, NOW + DAY),
                ("taxi.b", 0, NOW),
                ("taxi.z", 2, None),
                ("taxi.y", 3, None),
            ):
                uow.ptks.add(ptk_spec(name), window, at)
            uow.commit()
        with catalog.begin() as uow:
            assert uow.ptks.by_age(STREAM) == ("taxi.z", "taxi.y", "taxi.b", "taxi.c")
            uow.ptks.remove("taxi.b")
            assert uow.ptks.by_age(STREAM) == ("taxi.z", "taxi.y", "taxi.c")
            uow.ptks.add(ptk_spec("taxi.b"), 0, NOW + 2 * DAY)
            assert uow.ptks.by_age(STREAM)[-1] == "taxi.b"

    def test_acts_on_a_subject_are_the_newest_of_these_actions_and_told_once(
        self, catalog: SqlCatalog
    ) -> None:
        with catalog.begin() as uow:
            for number, (action, subject, outcome) in enumerate(
                (
                    ("stream.create", "stream/taxi", STARTED),
                    ("stream.create", "stream/taxi", DONE),
                    ("stream.ingest", "stream/taxi", DONE),
                    ("stream.create", "stream/bikes", DONE),
                    ("stream.close", "stream/taxi", STARTED),
                )
            ):
                request_id = "r0" if number < 2 else f"r{number}"
                uow.audit.append(AuditEntry(NOW, request_id, "taxi", "t", action, subject, outcome))
            uow.commit()
        with catalog.read() as uow:
            found = uow.audit.about("stream/taxi", ["stream.create", "stream.close"], 9)
            assert [(one.action, one.outcome) for one in found] == [
                ("stream.close", STARTED),
                ("stream.create", DONE),
            ]
            assert len(uow.audit.about("stream/taxi", ["stream.create", "stream.close"], 1)) == 1


class TestStreamPagesOnSqlite(OnSqlite, StreamPagesContract):
    pass


class TestStreamPagesOnPostgresql(OnPostgresql, StreamPagesContract):
    pass
