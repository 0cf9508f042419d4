"""Jobs: one id for the same work, whose share it takes, and how far ahead it can be due."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.jobs import (
    DELIVERIES,
    WAIT_FOR_TICKS,
    Job,
    JobKind,
    JobState,
    Outcome,
    backoff,
    cursor,
    drop_of,
    job_of_window,
    latest_due,
    paid_run,
    retry_wait,
    scheduler,
    scheduler_of,
    slots_for_team_code,
)
from ptkstore.domain.streams.windows import WindowId
from ptkstore.errors import InvariantBroken
from tests.support.builders import NOW, PTK, STREAM

WINDOW = WindowId(STREAM, 7)


def test_a_run_is_ready_reserves_under_its_own_id_and_takes_its_teams_share() -> None:
    run = paid_run(JobKind.TRAIN, PTK, WINDOW, NOW, oldest=5, look=2)
    assert (run.id, run.reservation, run.state, run.share) == (
        "train/taxi.speed/7/2",
        "train/taxi.speed/7/2",
        JobState.READY,
        "taxi",
    )
    assert (run.window, run.oldest_window) == (WINDOW, 5)
    assert run.beside(JobKind.VALIDATE) == "validate/taxi.speed/7/2"
    assert paid_run(JobKind.TRAIN, PTK, WINDOW, NOW, oldest=7).oldest_window is None
    assert paid_run(JobKind.EVALUATE, PTK, WINDOW, NOW, version=3).id == "evaluate/taxi.speed/3"


def test_work_without_a_ptk_takes_its_streams_share() -> None:
    assert job_of_window(JobKind.PREPARE, WINDOW, NOW).share == "stream taxi"
    assert scheduler(STREAM, NOW).share == "stream taxi"
    assert scheduler(STREAM, NOW).id == scheduler_of(STREAM) == "schedule/taxi"
    assert scheduler(STREAM, NOW).state is JobState.IDLE


def test_a_cursor_belongs_to_no_window() -> None:
    with pytest.raises(InvariantBroken, match="belongs to no window"):
        _ = cursor(JobKind.PLACE, STREAM, PTK, NOW).window


def test_a_window_is_dropped_or_expires_by_jobs_of_different_names() -> None:
    expiry, drop = job_of_window(JobKind.EXPIRE, WINDOW, NOW), drop_of(WINDOW, NOW)
    assert (expiry.is_drop, drop.is_drop) == (False, True)
    assert (drop.kind, drop.window) == (expiry.kind, expiry.window)
    assert drop.id == f"{expiry.id}/retired"


def test_an_expiry_of_neighbours_names_each_of_them() -> None:
    one = job_of_window(JobKind.EXPIRE, WINDOW, NOW)
    assert one.expiring_windows == (WINDOW,)
    several = Job(one.id, one.kind, one.stream, one.state, NOW, window_index=7, until=10)
    assert several.expiring_windows == (WINDOW, WindowId(STREAM, 8), WindowId(STREAM, 9))


def test_a_rollback_has_ended_when_it_is_written() -> None:
    rollback = Job.rollback(STREAM, PTK, 4, NOW)
    assert (rollback.id, rollback.state, rollback.outcome) == (
        "rollback/taxi.speed/4",
        JobState.ENDED,
        Outcome.PUBLISHED,
    )
    ended = paid_run(JobKind.TRAIN, PTK, WINDOW, NOW).ended(Outcome.FAILED)
    assert (ended.state, ended.outcome) == (JobState.ENDED, Outcome.FAILED)


@pytest.mark.parametrize("kind", list(JobKind))
def test_no_job_is_put_off_beyond_what_a_good_clock_could_say(kind: JobKind) -> None:
    if kind in DELIVERIES:
        assert latest_due(kind) == timedelta(hours=8)
    elif kind in WAIT_FOR_TICKS:
        assert latest_due(kind) == timedelta(minutes=30)
    else:
        assert latest_due(kind) == timedelta(minutes=2)
        assert retry_wait(10**9) < latest_due(kind)


@given(st.integers(0, 100), st.integers(1, 1000), st.integers(1, 10**6))
def test_waits_never_shrink_and_have_an_end(attempt: int, first: int, most: int) -> None:
    one, longest = timedelta(milliseconds=first), timedelta(milliseconds=most)
    waits = [backoff(n, first=one, most=longest) for n in (attempt, attempt + 1)]
    assert timedelta(0) < waits[0] <= waits[1] <= longest
    assert waits[1] in (longest, min(longest, waits[0] * 2), waits[0])
    assert retry_wait(1) == timedelta(milliseconds=500)
    assert retry_wait(100) == timedelta(minutes=1)


@pytest.mark.parametrize(("slots", "of_team_code"), [(1, 1), (2, 1), (3, 2), (8, 7)])
def test_one_slot_of_several_is_left_to_the_library(slots: int, of_team_code: int) -> None:
    assert slots_for_team_code(slots) == of_team_code
