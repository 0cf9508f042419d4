"""Which versions a window went into, asked of SQLite and of a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ptklib.canonical_json import canonical_json
from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql.ptks.lineage import AT_ONCE
from ptkstore.application.versions.trace_window import Descendant, trace_window
from ptkstore.domain.jobs import JobKind, JobState
from ptkstore.domain.streams.windows import Window, WindowId, WindowState
from ptkstore.domain.versions.versions import Lineage, Version
from ptkstore.errors import UnknownName
from ptkstore.ports.catalog import UnitOfWork
from tests.support.builders import NOW, ORIGIN, STREAM, job, ptk_spec, stream_named
from tests.support.databases import OnPostgresql, OnSqlite

A, B, C, ELSEWHERE = "ads.a", "taxi.b", "zoo.c", "taxi.elsewhere"
Key = tuple[str, int]


def version(key: Key, window: int, *made_from: Key) -> Version:
    """What the lineage of a version needs of it, beside a list of blocks that looks like origins."""
    ptk_id, number = key
    name = f"{ptk_id}/{number}"
    manifest = {
        "blocks": [{"made_from": [{"ptk_id": B, "version": 1}], "number": n} for n in range(window)],
        "newest_contributing_window": {"index": window, "end": f"end of {window}"},
        "release_decision": "elected",
        "made_from": [{"ptk_id": of, "version": n, "sha256": "0" * 64} for of, n in made_from],
    }
    return Version(ptk_id, number, f"train/{name}", f"draft-{name}", window, NOW, canonical_json(manifest))


class LineageContract:
    @pytest.fixture
    def catalog(self, catalog: SqlCatalog) -> SqlCatalog:
        """Two streams with ten closed windows; three PTKs of the one, of three teams, and one of the other."""
        with catalog.begin() as uow:
            for name in (STREAM, "bikes"):
                uow.streams.add(stream_named(name))
                for n in range(10):
                    day = timedelta(days=1)
                    span = (ORIGIN + n * day, ORIGIN + (n + 1) * day)
                    uow.windows.add(Window(WindowId(name, n), *span, WindowState.EXPIRED), at=NOW)
            for ptk_id in (C, B, A):
                uow.ptks.add(ptk_spec(ptk_id))
            uow.ptks.add(replace(ptk_spec(ELSEWHERE), stream="bikes"))
            uow.commit()
        return catalog

    def take_over(self, uow: UnitOfWork, *versions: Version) -> None:
        """Versions and the runs that made them, and no more."""
        for one in versions:
            stream = "bikes" if one.ptk_id == ELSEWHERE else STREAM
            made_by = job(
                one.job_id, JobKind.TRAIN, ptk_id=one.ptk_id, window=one.window_index, stream=stream
            )
            uow.jobs.add(made_by)
            uow.versions.add(one)

    def add(self, catalog: SqlCatalog, *versions: Version, **placed: int) -> None:
        with catalog.begin() as uow:
            self.take_over(uow, *versions)
            newest = {one.ptk_id: one.number for one in versions} | placed
            for ptk_id, number in newest.items():
                cursor = job(f"place/{ptk_id}", JobKind.PLACE, ptk_id=ptk_id, window=None, position=number)
                uow.jobs.add(replace(cursor, state=JobState.IDLE))
            uow.commit()

    def trace(self, catalog: SqlCatalog, window: int, **more: Any) -> list[Key]:
        found = trace_window(STREAM, window, begin=catalog.read, **more)
        return [(one.ptk_id, one.version) for one in found]

    def test_all_that_a_stream_ever_had_are_known(self, catalog: SqlCatalog) -> None:
        with catalog.begin() as uow:
            uow.ptks.remove(B)
            uow.commit()
        with catalog.read() as uow:
            assert uow.ptks.ids_on(STREAM) == (A, B, C)
            assert uow.ptks.ids_on("bikes") == (ELSEWHERE,)
            assert uow.ptks.ids_on("nowhere") == ()

    def test_a_manifest_tells_where_its_state_comes_from(self, catalog: SqlCatalog) -> None:
        self.add(catalog, version((A, 1), 0), version((A, 2), 5, (A, 1), (B, 7)), version((A, 3), 4))
        with catalog.read() as uow:
            assert uow.versions.lineage(A, WindowId(STREAM, 4)) == (
                Lineage(A, 2, 5, "end of 5", "elected", ((A, 1), (B, 7))),
                Lineage(A, 3, 4, "end of 4", "elected", ()),
            )
            assert len(uow.versions.lineage(A, WindowId(STREAM, 0))) == 3
            for ptk_id, since in (
                (A, WindowId(STREAM, 6)),
                (B, WindowId(STREAM, 0)),
                (A, WindowId("bikes", 0)),
            ):
                assert uow.versions.lineage(ptk_id, since) == ()

    def test_versions_that_are_not_read_in_one_go_come_all_and_once(self, catalog: SqlCatalog) -> None:
        many = 2 * AT_ONCE + 1
        self.add(catalog, version((B, 1), 0), *(version((A, n), n) for n in range(1, many + 1)))
        with catalog.read() as uow:
            found = uow.versions.lineage(A, WindowId(STREAM, 2))
            assert [one.number for one in found] == list(range(2, many + 1))
            everything = [(one.ptk_id, one.number) for one in uow.versions.all()]
            assert everything == [(A, n) for n in range(1, many + 1)] + [(B, 1)]

    def test_a_version_of_several_windows_comes_from_each_of_them(self, catalog: SqlCatalog) -> None:
        several = version((A, 2), 5)
        several = replace(several, manifest=canonical_json({**several.content, "windows": [2, 3, 5]}))
        self.add(catalog, version((A, 1), 1), several, version((A, 3), 6, (A, 2)))
        found = {window: self.trace(catalog, window) for window in (1, 2, 3, 4, 5)}
        from_it = [(A, 2), (A, 3)]
        assert found == {1: [(A, 1)], 2: from_it, 3: from_it, 4: [], 5: from_it}

    def test_a_manifest_from_before_origins_were_written_has_none(self, catalog: SqlCatalog) -> None:
        old = {"newest_contributing_window": {"end": "e"}, "release_decision": "elected"}
        self.add(catalog, replace(version((A, 1), 0), manifest=canonical_json(old)))
        with catalog.read() as uow:
            assert uow.versions.lineage(A, WindowId(STREAM, 0)) == (Lineage(A, 1, 0, "e", "elected", ()),)

    def test_a_text_that_postgresql_cannot_hold_takes_away_no_answer(self, catalog: SqlCatalog) -> None:
        odd = version((A, 1), 1)
        domains = {"state": {"params": {"domains": {"zone": ["a\0b"]}}}}
        self.add(
            catalog,
            replace(odd, manifest=canonical_json({**odd.content, **domains})),
            version((A, 2), 2, (A, 1)),
            version((B, 1), 3),
        )
        with catalog.read() as uow:
            assert uow.versions.lineage(A, WindowId(STREAM, 1))[0] == Lineage(
                A, 1, 1, "end of 1", "elected", ()
            )
        assert self.trace(catalog, 1) == [(A, 1), (A, 2)]

    @pytest.mark.parametrize(
        "damaged",
        [
            "",
            "{",
            "[]",
            "3",
            "{}",
            '{"newest_contributing_window":{"end":"e"},"release_decision":null}',
            '{"newest_contributing_window":{"end":3},"release_decision":"elected"}',
            '{"newest_contributing_window":{"end":"e"},"release_decision":"elected","made_from":[3]}',
            '{"newest_contributing_window":{"end":"e"},"release_decision":"elected",'
            '"made_from":[{"ptk_id":"ads.a","version":"1"}]}',
            '{"newest_contributing_window":{"end":"e"},"release_decision":"elected","x":"\\ud800"}',
            '{"newest_contributing_window":{"end":"e"},"release_decision":"elected","windows":["1"]}',
        ],
    )
    def test_a_version_that_cannot_be_read_is_told_as_that_and_takes_away_no_answer(
        self, catalog: SqlCatalog, damaged: str
    ) -> None:
        self.add(
            catalog,
            replace(version((A, 1), 3), manifest=damaged),
            version((A, 2), 4, (A, 1)),
            version((B, 1), 2),
            version((B, 2), 4),
        )
        with catalog.read() as uow:
            assert uow.versions.lineage(A, WindowId(STREAM, 2))[0] == Lineage(A, 1, 3)
        assert trace_window(STREAM, 2, begin=catalog.read) == (
            Descendant(A, 1, (ORIGIN + timedelta(days=4)).isoformat(), "unreadable", (), newest=False),
            Descendant(A, 2, "end of 4", "elected", (f"{A} v1",), newest=True),
            Descendant(B, 1, "end of 2", "elected", (), newest=False),
        )
        assert self.trace(catalog, 4) == [(A, 2), (B, 2)]

    def test_states_are_followed_from_ptk_to_ptk(self, catalog: SqlCatalog) -> None:
        self.add(
            catalog,
            version((A, 1), 1),
            version((A, 2), 3),
            version((A, 3), 4, (C, 2)),
            version((A, 4), 5, (B, 3), (A, 1)),
            version((B, 1), 2),
            version((B, 2), 3, (B, 1)),
            version((B, 3), 4, (A, 2)),
            version((C, 1), 3, (A, 1)),
            version((C, 2), 4, (C, 1), (B, 2)),
        )
        assert self.trace(catalog, 2) == [(A, 3), (B, 1), (B, 2), (C, 2)]
        assert self.trace(catalog, 1) == [(A, 1), (A, 3), (A, 4), (C, 1), (C, 2)]
        assert self.trace(catalog, 3) == [(A, 2), (A, 3), (A, 4), (B, 2), (B, 3), (C, 1), (C, 2)]
        assert self.trace(catalog, 5) == [(A, 4)]
        assert self.trace(catalog, 6) == []
        found = trace_window(STREAM, 2, begin=catalog.read)
        assert found[0] == Descendant(A, 3, "end of 4", "elected", (f"{C} v2",), newest=False)
        assert [one.newest for one in found] == [False, False, False, True]

    def test_where_several_ways_lead_back_each_version_on_them_is_found(self, catalog: SqlCatalog) -> None:
        self.add(
            catalog,
            version((A, 1), 3, (C, 1), (B, 1)),
            version((A, 2), 3, (B, 2), (C, 2)),
            version((A, 3), 3, (B, 3), (C, 1)),
            version((A, 4), 3, (C, 1), (B, 3)),
            version((A, 5), 3, (B, 3)),
            version((A, 6), 3, (B, 1)),
            version((A, 7), 3, (C, 2)),
            version((B, 1), 2, (C, 1)),
            version((B, 2), 2, (C, 1)),
            version((B, 3), 2),
            version((C, 1), 1),
            version((C, 2), 2, (B, 2)),
        )
        of_a = [(A, number) for number in (1, 2, 3, 4, 6, 7)]
        assert self.trace(catalog, 1) == [*of_a, (B, 1), (B, 2), (C, 1), (C, 2)]

    def test_a_window_of_another_stream_is_another_window(self, catalog: SqlCatalog) -> None:
        self.add(catalog, version((ELSEWHERE, 1), 2), version((A, 1), 3, (ELSEWHERE, 1)))
        assert self.trace(catalog, 2) == []
        assert self.trace(catalog, 3) == [(A, 1)]

    def test_origins_that_are_not_there_or_lead_in_a_circle_end_the_search(self, catalog: SqlCatalog) -> None:
        self.add(
            catalog,
            version((A, 1), 3, (B, 1)),
            version((B, 1), 3, (A, 1), (B, 1)),
            version((C, 1), 3, (C, 9), ("taxi.nobody", 1), (A, 1)),
            version((C, 2), 3, (C, 2), (C, 1)),
        )
        assert self.trace(catalog, 2) == []
        assert self.trace(catalog, 3) == [(A, 1), (B, 1), (C, 1), (C, 2)]

    def test_a_version_that_is_not_in_the_lake_is_not_told(self, catalog: SqlCatalog) -> None:
        chain = [version((A, n), n, *([(A, n - 1)] if n > 1 else [])) for n in (1, 2, 3)]
        self.add(catalog, *chain, version((B, 1), 1), **{A: 2, B: 0})
        found = trace_window(STREAM, 1, begin=catalog.read)
        assert [(one.ptk_id, one.version, one.newest) for one in found] == [(A, 1, False), (A, 2, True)]

    def test_versions_of_a_ptk_that_is_yet_to_be_registered_again_are_told(self, catalog: SqlCatalog) -> None:
        lost, moved = "ads.lost", "zoo.moved"
        self.add(catalog, version((A, 1), 3, (lost, 2)))
        with catalog.begin() as uow:
            self.take_over(
                uow, version((lost, 1), 1), version((lost, 2), 2, (lost, 1)), version((lost, 3), 1)
            )
            self.take_over(uow, version((moved, 1), 2))
            uow.ptks.add(
                replace(ptk_spec(moved), stream="bikes")
            )  # its windows of before stay those of STREAM
            uow.commit()
        with catalog.read() as uow:
            assert uow.ptks.ids_on(STREAM) == (A, lost, B, C, moved)
            assert uow.ptks.ids_on("bikes") == (ELSEWHERE, moved)
        found = trace_window(STREAM, 2, begin=catalog.read)
        assert [(one.ptk_id, one.version, one.newest) for one in found] == [
            (A, 1, True),
            (lost, 2, False),
            (moved, 1, True),
        ]
        assert self.trace(catalog, 1) == [(A, 1), (lost, 1), (lost, 2), (lost, 3)]
        assert trace_window("bikes", 2, begin=catalog.read) == ()

    def test_a_window_that_is_yet_to_be_closed_again_is_known_by_its_versions(
        self, catalog: SqlCatalog
    ) -> None:
        with catalog.begin() as uow:
            self.take_over(uow, version((A, 1), 11), version((A, 2), 12, (A, 1)), version((ELSEWHERE, 1), 13))
            uow.commit()
        assert self.trace(catalog, 11) == [(A, 1), (A, 2)]
        assert self.trace(catalog, 11, after=(A, 1), limit=5) == [(A, 2)]
        assert self.trace(catalog, 11, after=(A, 2)) == []
        for window in (10, 13):
            with pytest.raises(UnknownName):
                self.trace(catalog, window)

    def test_a_long_answer_comes_in_parts(self, catalog: SqlCatalog) -> None:
        for ptk_id in (A, B, C):
            chain = [version((ptk_id, n), n - 1, *([(ptk_id, n - 1)] if n > 1 else [])) for n in range(1, 11)]
            self.add(catalog, *chain)
        everything = self.trace(catalog, 1)
        assert everything == [(ptk_id, n) for ptk_id in (A, B, C) for n in range(2, 11)]
        parts: list[Key] = []
        while part := self.trace(catalog, 1, after=parts[-1] if parts else None, limit=4):
            parts += part
            assert parts == everything[: len(parts)]
            assert len(part) <= 4
        assert parts == everything
        assert self.trace(catalog, 1, after=(B, 9), limit=1) == [(B, 10)]
        assert self.trace(catalog, 1, after=(C, 10)) == []
        assert self.trace(catalog, 1, after=("b", 0), limit=1) == [(B, 2)]

    def test_a_stream_or_a_closed_window_that_there_is_not_is_an_error(self, catalog: SqlCatalog) -> None:
        for stream, window, kind in (("nowhere", 0, "stream"), (STREAM, 10, "closed window")):
            with pytest.raises(UnknownName) as error:
                trace_window(stream, window, begin=catalog.read)
            assert error.value.kind == kind


class TestOnSqlite(OnSqlite, LineageContract):
    pass


class TestOnPostgresql(OnPostgresql, LineageContract):
    pass
