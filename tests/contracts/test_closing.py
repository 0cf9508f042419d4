"""Windows that close: by one of many schedules, in steps that others come between, without a look at old ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from threading import Barrier

import pytest
from sqlalchemy import Engine, event, text

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.adapters.sql.catalog import SqlUnitOfWork
from ptkstore.adapters.sql.content import stream_text
from ptkstore.application.windows import close_windows as closing
from ptkstore.application.windows.close_windows import close_windows
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome
from ptkstore.domain.streams.blocks import BlockRange, BlockState
from ptkstore.domain.streams.policies import Closing
from ptkstore.domain.streams.policy_texts import policy_text
from ptkstore.domain.streams.windows import Window, WindowId, WindowState
from ptkstore.errors import LateWriter
from ptkstore.ports.streams import Progress
from tests.support.builders import (
    NOW,
    ORIGIN,
    PTK,
    STREAM,
    add,
    job,
    ptk_spec,
    request,
    reserve,
    stream_named,
    with_blocks,
)
from tests.support.databases import OnPostgresql, OnSqlite, until_somebody_waits
from tests.support.profile_asks import ASK

DAY = timedelta(days=1)
SCHEDULES = 4


class At:
    """A clock that says the end of so many windows."""

    def __init__(self, windows: float) -> None:
        self.time = ORIGIN + windows * DAY

    def now(self) -> datetime:
        return self.time


def with_stream(catalog: SqlCatalog, **policy: object) -> SqlCatalog:
    made = stream_named()
    made = replace(made, policy=replace(made.policy, **{"closing": Closing.CLOCK, **policy}))  # type: ignore[arg-type]
    with catalog.begin() as uow:
        uow.streams.add(made)
        uow.commit()
    return catalog


def close(catalog: SqlCatalog, windows: float) -> list[int]:
    """What one pass of a schedule closes."""
    return [window.index for window in close_windows(STREAM, begin=catalog.begin, clock=At(windows))]


def states(catalog: SqlCatalog) -> list[WindowState]:
    with catalog.begin() as uow:
        windows = uow.windows.of(STREAM)
    assert [window.id.index for window in windows] == list(range(len(windows)))
    return [window.state for window in windows]


@contextmanager
def statements(catalog: SqlCatalog) -> Iterator[list[str]]:
    seen: list[str] = []

    def see(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(catalog._engine, "before_cursor_execute", see)
    yield seen
    event.remove(catalog._engine, "before_cursor_execute", see)


class ClosingContract:
    def test_of_many_schedules_one_closes_each_window_and_none_fails(self, url: str) -> None:
        rounds = 60
        barrier = Barrier(SCHEDULES)
        with ExitStack() as stack:
            stores = [stack.enter_context(SqlCatalog(url)) for _ in range(SCHEDULES)]
            with_stream(stores[0], retention_windows=2)

            def schedule(store: SqlCatalog) -> list[tuple[int, ...]]:
                found = []
                for windows in range(1, rounds + 1):
                    barrier.wait(120)
                    try:
                        found.append(tuple(close(store, windows)))
                    except BaseException:
                        barrier.abort()
                        raise
                return found

            with ThreadPoolExecutor(SCHEDULES) as pool:
                running = [pool.submit(schedule, store) for store in stores]
                closed = Counter(one for done in running for one in done.result(600))
            assert closed.pop(()) == (SCHEDULES - 1) * rounds
            assert closed == {(n,): 1 for n in range(rounds)}
            assert states(stores[0]) == [WindowState.EXPIRING] * (rounds - 2) + [WindowState.CLOSED] * 2

    def test_many_windows_are_closed_to_the_end_whatever_the_steps(
        self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(closing, "STEP", 4)
        with_stream(catalog, retention_windows=7, lateness=6 * DAY)  # longer than a step
        assert close(catalog, 8) == [0, 1]
        with catalog.begin() as uow:
            uow.streams.advance(STREAM, replace(uow.streams.progress(STREAM), retired_before=6))
            uow.commit()
        assert close(catalog, 30) == list(range(2, 24))
        assert states(catalog) == [WindowState.EXPIRING] * 23 + [WindowState.CLOSED]
        with catalog.begin() as uow:
            jobs = uow.jobs.find(stream=STREAM)
            blocks = {block.number: block.state for block in uow.ledger.blocks(STREAM)}
            progress = uow.streams.progress(STREAM)
        assert {(j.kind, j.state) for j in jobs} == {(JobKind.EXPIRE, JobState.READY)}
        assert sorted(w.index for j in jobs for w in j.expiring_windows) == list(range(23))
        assert max(len(j.expiring_windows) for j in jobs) == 4
        assert sorted(blocks) == [window * 128 + part for window in range(24) for part in range(3)]
        retired = {number // 128 for number, state in blocks.items() if state is BlockState.RETIRED}
        assert retired == {2, 3, 4, 5}
        assert progress == Progress(24, At(30).time, 6)

    def test_nobody_begins_with_a_window_that_has_left_its_retention_when_it_closes(
        self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(closing, "STEP", 4)
        with_stream(catalog, retention_windows=6)
        seen: list[list[WindowState]] = []
        commit = SqlUnitOfWork.commit

        def committed(uow: SqlUnitOfWork) -> None:
            commit(uow)
            seen.append([w.state for w in uow.windows.of(STREAM)])

        monkeypatch.setattr(SqlUnitOfWork, "commit", committed)
        close(catalog, 14)
        expired = [WindowState.EXPIRING] * 8
        assert seen == [expired[:4], expired, *(expired + [WindowState.CLOSED] * n for n in (4, 6))]

    def test_what_an_operator_may_close_is_decided_once_and_what_expires_with_it(
        self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(closing, "STEP", 4)
        with_stream(catalog, closing=Closing.OPERATOR, retention_windows=6)
        until = partial(close_windows, STREAM, clock=At(100))
        until(At(6).time, begin=catalog.begin)
        with catalog.begin() as uow:
            for one in uow.jobs.find(stream=STREAM):
                uow.jobs.save(uow.jobs.lock(one.id).ended(Outcome.DONE))
            for window in uow.windows.of(STREAM):
                uow.windows.set_state(window.id, WindowState.PREPARED)
            uow.commit()
        seen = []

        @contextmanager
        def begin() -> Iterator[SqlUnitOfWork]:
            seen.append(states(catalog))
            if len(seen) == 2:  # somebody asks for a run in window 5, which this call lets expire
                with catalog.begin() as uow:
                    evaluation = JobKind.EVALUATE
                    uow.jobs.add(
                        Job("evaluate/x/5", evaluation, STREAM, JobState.READY, ORIGIN, window_index=5)
                    )
                    uow.commit()
            with catalog.begin() as uow:
                yield uow

        assert [one.index for one in until(At(12).time, begin=begin)] == list(range(6, 12))
        assert seen[1] == [WindowState.EXPIRING] * 6 + [WindowState.CLOSED] * 4
        assert states(catalog) == [WindowState.EXPIRING] * 6 + [WindowState.CLOSED] * 6
        with catalog.begin() as uow:
            expiries = [
                one.window_index for one in uow.jobs.find(stream=STREAM) if one.kind is JobKind.EXPIRE
            ]
        assert sorted(expiries) == list(range(6))

    @pytest.mark.parametrize("every", [1, 3])
    def test_a_window_that_a_ptk_wants_has_jobs_of_its_own_and_the_others_share_one(
        self, catalog: SqlCatalog, every: int
    ) -> None:
        with_stream(catalog, retention_windows=2)
        with catalog.begin() as uow:
            uow.ptks.add(replace(ptk_spec(), every=every))
            uow.commit()
        assert close(catalog, 2) == [0, 1]
        assert close(catalog, 12) == list(range(2, 12))
        with catalog.begin() as uow:
            jobs = uow.jobs.find(stream=STREAM)
        prepared = {j.window.index for j in jobs if j.kind is JobKind.PREPARE}
        assert prepared == {n for n in range(12) if n % every == 0}
        expiring = sorted([w.index for w in j.expiring_windows] for j in jobs if j.kind is JobKind.EXPIRE)
        alone = [[n] for n in range(10)]
        assert expiring == (alone if every == 1 else [[0], [1, 2], [3], [4, 5], [6], [7, 8], [9]])
        assert {j.id for j in jobs if j.kind is JobKind.EXPIRE} == {
            f"expire/{STREAM}/{n[0]}" for n in expiring
        }

    def test_a_ptk_that_is_profiled_by_samples_wants_every_window(self, catalog: SqlCatalog) -> None:
        with_stream(catalog)
        with catalog.begin() as uow:
            uow.ptks.add(replace(ptk_spec(), every=9, profile=ASK))
            uow.commit()
        close(catalog, 2)
        with catalog.begin() as uow:
            assert {j.id for j in uow.jobs.find()} >= {f"prepare/{STREAM}/{n}" for n in range(2)}

    def test_windows_that_an_operator_closes_may_be_wanted_later(self, catalog: SqlCatalog) -> None:
        with_stream(catalog, closing=Closing.OPERATOR, retention_windows=5)
        close_windows(STREAM, At(2).time, begin=catalog.begin, clock=At(2))
        with catalog.begin() as uow:
            assert {j.id for j in uow.jobs.find()} == {f"prepare/{STREAM}/{n}" for n in range(2)}

    def test_thousands_of_windows_that_nobody_wants_need_a_job_per_step(self, catalog: SqlCatalog) -> None:
        with_stream(catalog)
        assert len(close(catalog, 1_000)) == 1_000
        with catalog.begin() as uow:
            jobs = uow.jobs.find()
        assert len(jobs) == 5
        assert sorted(w.index for j in jobs for w in j.expiring_windows) == list(range(999))

    def test_one_step_leaves_the_rest_to_the_next_call(self, catalog: SqlCatalog) -> None:
        with_stream(catalog)
        step = partial(close_windows, STREAM, at_most=4, begin=catalog.begin, clock=At(10))
        assert [[w.index for w in step()] for _ in range(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9], []]

    # what has ended

    def test_what_has_ended_of_expired_windows_is_removed_and_still_counts(self, catalog: SqlCatalog) -> None:
        with_stream(catalog, retention_windows=2)
        close(catalog, 6)  # 0 to 3 are expiring
        kinds = (JobKind.PREPARE, JobKind.ALLOCATE, JobKind.PARTIAL, JobKind.TRAIN, JobKind.EVALUATE)
        with catalog.begin() as uow:
            for one in uow.jobs.find():
                uow.jobs.save(one.ended(Outcome.DONE))
            for window in range(6):
                made = (job(f"{kind}/{window}", kind, window=window, ptk_id=PTK) for kind in kinds)
                uow.jobs.add(*(one.ended(Outcome.DONE) for one in made))
            uow.jobs.add(job("unfinished", window=0), job("elsewhere", window=0, stream="bikes"))
            for window in (0, 1, 3):
                uow.windows.set_state(WindowId(STREAM, window), WindowState.EXPIRED)
            uow.commit()
        with catalog.begin() as uow:
            before = uow.operations.numbers(NOW).ended
            for _ in range(2):
                uow.jobs.remove_ended(before=WindowId(STREAM, 3))
            left = {one.id for one in uow.jobs.find()}
            assert uow.operations.numbers(NOW).ended == before
            uow.commit()
        kept = {f"{kind}/{window}" for kind in kinds for window in range(6)}
        kept -= {f"{kind}/{window}" for kind in kinds[:3] for window in (0, 1)}
        assert left == kept | {"unfinished", "elsewhere"}
        with catalog.begin() as uow:  # a later one finds what was not yet expired
            uow.windows.set_state(WindowId(STREAM, 2), WindowState.EXPIRED)
            uow.jobs.remove_ended(before=WindowId(STREAM, 5))
            left -= {f"{kind}/{window}" for kind in kinds[:3] for window in (2, 3)}
            assert {one.id for one in uow.jobs.find()} == left
            assert uow.operations.numbers(NOW).ended == before

    def test_a_window_expires_at_its_time_though_none_closes_then(self, catalog: SqlCatalog) -> None:
        with_stream(catalog, retention_windows=2, lateness=DAY / 2)
        assert close(catalog, 3.5) == [0, 1, 2]
        assert states(catalog) == [WindowState.EXPIRING, WindowState.CLOSED, WindowState.CLOSED]
        assert close(catalog, 4) == []
        assert states(catalog) == [WindowState.EXPIRING, WindowState.EXPIRING, WindowState.CLOSED]

    def test_others_come_between_steps_and_a_crash_there_loses_nothing(
        self, catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(closing, "STEP", 4)
        with_stream(catalog, retention_windows=3)
        begun = []

        @contextmanager
        def begin() -> Iterator[SqlUnitOfWork]:
            begun.append(len(states(catalog)))  # waits for nobody
            if len(begun) == 3:
                raise KeyboardInterrupt
            with catalog.begin() as uow:
                yield uow

        with pytest.raises(KeyboardInterrupt):
            close_windows(STREAM, begin=begin, clock=At(10))
        assert begun == [0, 4, 8]
        with catalog.begin() as uow:
            assert uow.streams.progress(STREAM).closed_before == 8
        assert close(catalog, 10) == [8, 9]
        assert close(catalog, 10) == []
        assert states(catalog) == [WindowState.EXPIRING] * 7 + [WindowState.CLOSED] * 3

    def test_neither_old_windows_nor_the_number_of_new_ones_cost_statements(
        self, catalog: SqlCatalog
    ) -> None:
        with_stream(catalog, retention_windows=3)
        close(catalog, 4)
        with statements(catalog) as few:
            assert close(catalog, 6) == [4, 5]
        with statements(catalog) as many:
            assert len(close(catalog, 106)) == 100
        assert len(many) == len(few)
        with statements(catalog) as none:
            assert close(catalog, 106) == []
        assert len(none) == 2
        assert not [s for s in none if "window_" in s or not s.startswith("SELECT")]

    # what it stands on

    def test_who_is_late_is_told_so(self, catalog: SqlCatalog) -> None:
        with_blocks(catalog)
        one = Window(WindowId(STREAM, 0), ORIGIN, ORIGIN + DAY, WindowState.CLOSED)
        other = Window(WindowId(STREAM, 1), ORIGIN + DAY, ORIGIN + 2 * DAY, WindowState.CLOSED)
        with catalog.begin() as uow:
            uow.windows.add(one, at=ORIGIN + DAY)
            uow.commit()
        with pytest.raises(LateWriter, match="closed by somebody else"), catalog.begin() as uow:
            uow.windows.add(other, one, at=ORIGIN + DAY)
        with pytest.raises(LateWriter, match="made by somebody else"), catalog.begin() as uow:
            uow.ledger.add_blocks(STREAM, BlockRange(3, 5), Loss.capacity(1))
        assert states(catalog) == [WindowState.CLOSED]

    def test_blocks_that_are_not_committed_are_seen_by_their_own_transaction_alone(
        self, catalog: SqlCatalog
    ) -> None:
        def numbers(uow: SqlUnitOfWork) -> list[int]:
            return [block.number for block in uow.ledger.blocks(STREAM)]

        with_blocks(catalog)
        reserve(catalog, request("k0"))  # what is known of a journal with entries is kept
        with catalog.begin() as uow:
            uow.ledger.add_blocks(STREAM, BlockRange(5, 7), Loss.capacity(1))
            assert numbers(uow) == [2, 3, 5, 6]
            uow.ledger.retire(STREAM, [5])
            assert [b.number for b in uow.ledger.blocks(STREAM) if b.state is BlockState.RETIRED] == [5]
        with catalog.begin() as uow:
            for number in (8, 9):  # under the revisions that were taken back
                uow.ledger.add_blocks(STREAM, [number], Loss.capacity(1))
            uow.commit()
        with catalog.begin() as uow:
            assert numbers(uow) == [2, 3, 8, 9]

    def test_windows_that_a_run_could_open_are_let_go(self, catalog: SqlCatalog) -> None:
        with_stream(catalog)
        kinds = list(WindowState) * 2
        with catalog.begin() as uow:
            for name in (STREAM, "bikes"):
                spans = ((ORIGIN + n * DAY, ORIGIN + (n + 1) * DAY) for n in range(8))
                uow.windows.add(
                    *(
                        Window(WindowId(name, n), *span, kind)
                        for n, (span, kind) in enumerate(zip(spans, kinds, strict=True))
                    ),
                    at=NOW,
                )
            uow.windows.add(at=NOW)
            assert [w.index for w in uow.windows.let_expire(STREAM, 1, 5)] == [1, 4]
            assert uow.windows.let_expire(STREAM, 1, 5) == ()
            assert uow.windows.let_expire(STREAM, 5, 5) == ()
            gone = [*kinds[:1], WindowState.EXPIRING, *kinds[2:4], WindowState.EXPIRING, *kinds[5:]]
            assert [w.state for w in uow.windows.of(STREAM)] == gone
            assert [w.state for w in uow.windows.of("bikes")] == kinds

    def test_windows_are_counted_by_the_time_at_which_they_closed(self, catalog: SqlCatalog) -> None:
        with_stream(catalog)
        with catalog.begin() as uow:
            for name, n, at in (
                (STREAM, 0, NOW - DAY),
                (STREAM, 1, NOW),
                (STREAM, 2, NOW),
                ("bikes", 0, NOW),
            ):
                span = (ORIGIN, ORIGIN + DAY)
                uow.windows.add(Window(WindowId(name, n), *span, WindowState.CLOSED), at=at)
            assert uow.windows.closed_since(NOW - DAY) == {STREAM: 3, "bikes": 1}
            assert uow.windows.closed_since(NOW) == {STREAM: 2, "bikes": 1}
            assert uow.windows.closed_since(NOW + DAY) == {}

    def test_the_first_window_that_is_kept_has_none_before_it_that_is(self, catalog: SqlCatalog) -> None:
        with_stream(catalog)
        span = (ORIGIN, ORIGIN + DAY)
        with catalog.begin() as uow:
            assert uow.windows.first_kept(STREAM) == 0
            for name, kind in ((STREAM, WindowState.EXPIRED), ("bikes", WindowState.PREPARED)):
                uow.windows.add(*(Window(WindowId(name, n), *span, kind) for n in range(4)), at=NOW)
            assert (uow.windows.first_kept(STREAM), uow.windows.first_kept("bikes")) == (4, 0)
            for state in set(WindowState) - {WindowState.EXPIRED}:
                uow.windows.set_state(WindowId(STREAM, 2), state)
                assert uow.windows.first_kept(STREAM) == 2  # window 3 was dropped before its retention ended

    def test_many_jobs_are_added_and_known_ones_left(self, catalog: SqlCatalog) -> None:
        add(catalog, replace(job("job-600"), attempt=7))
        with catalog.begin() as uow:
            uow.jobs.add(*(job(f"job-{n}") for n in range(1200)))
            uow.jobs.add()
            uow.commit()
        with catalog.begin() as uow:
            assert len(uow.jobs.find()) == 1200
            assert uow.jobs.get("job-600").attempt == 7

    def test_windows_with_unfinished_runs_are_told(self, catalog: SqlCatalog) -> None:
        add(
            catalog,
            job("a", window=1),
            job("b", window=1),
            job("c", JobKind.TRAIN, window=2, state=JobState.OPENED),
            job("d", JobKind.TRAIN, window=3, state=JobState.ENDED),
            job("e", JobKind.EXPIRE, window=4),
            job("f", window=5, stream="bikes"),
            job("g", window=6),
            job("h", JobKind.PLACE, window=None, state=JobState.IDLE),
        )
        kinds = (JobKind.PREPARE, JobKind.TRAIN)
        with catalog.begin() as uow:
            assert uow.jobs.unfinished(STREAM, kinds, 0, 6) == {1, 2}
            assert uow.jobs.unfinished(STREAM, kinds, 2, 7) == {2, 6}


class TestClosingOnSqlite(OnSqlite, ClosingContract):
    pass


class TestClosingOnPostgresql(OnPostgresql, ClosingContract):
    def test_a_stream_has_the_policy_of_its_journal_whatever_its_row_says(
        self, catalog: SqlCatalog, outsider: Engine
    ) -> None:
        made = with_stream(catalog)
        with made.begin() as uow:
            honest = uow.streams.get(STREAM)
            uow.ledger.add_policy(STREAM, policy_text(honest.policy))
            uow.commit()
        changed = replace(honest, policy=replace(honest.policy, retention_windows=9_000))
        with outsider.begin() as connection:
            connection.execute(
                text("UPDATE stream SET content = :content WHERE name = :name"),
                {"content": stream_text(changed), "name": STREAM},
            )
        with made.begin() as uow:
            assert uow.streams.get(STREAM) == uow.streams.lock(STREAM) == honest
            assert uow.streams.all() == (honest,)
            assert uow.streams.policy_in_row(STREAM) == changed.policy

    def test_jobs_added_by_two_at_once_are_there_once(self, catalog: SqlCatalog, outsider: Engine) -> None:
        def second() -> None:
            with catalog.begin() as uow:
                uow.jobs.add(job("a", window=2), job("b", window=2), job("c", window=2))
                uow.commit()

        with ThreadPoolExecutor(1) as pool:
            with catalog.begin() as uow:
                uow.jobs.add(job("b", window=1))
                done = pool.submit(second)
                until_somebody_waits(outsider)
                uow.commit()
            done.result(timeout=60)
        with catalog.begin() as uow:
            assert [(j.id, j.window_index) for j in uow.jobs.find()] == [("a", 2), ("b", 1), ("c", 2)]
