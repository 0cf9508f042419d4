"""When a run may not begin, or not begin again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ptkstore.domain.accounting.assurances import Assurance
from ptkstore.domain.jobs import MAX_ATTEMPTS, Job, JobKind, JobState, Outcome
from ptkstore.domain.runs import hopeless
from ptkstore.domain.streams.windows import WindowState
from tests.support.builders import ptk_spec

NEW = Job("evaluate/a.b/1", JobKind.EVALUATE, "taxi", JobState.READY, datetime(2026, 1, 10, tzinfo=UTC), 0)
BEGUN = replace(NEW, state=JobState.OPENED, attempt=MAX_ATTEMPTS)
KEPT = WindowState.PREPARED


def test_only_runs_of_our_own_estimators_open_rows_once_more() -> None:
    outcomes = {kind: hopeless(BEGUN, replace(ptk_spec(), assurance=kind), [KEPT]) for kind in Assurance}
    assert outcomes == {
        Assurance.LIBRARY: None,
        Assurance.COMPOSED: Outcome.FAILED,
        Assurance.ASSERTED: Outcome.FAILED,
    }
    assert hopeless(replace(BEGUN, attempt=MAX_ATTEMPTS + 1), ptk_spec(), [KEPT]) is Outcome.FAILED


@pytest.mark.parametrize("assurance", Assurance)
def test_waiting_without_rows_uses_no_attempt_up(assurance: Assurance) -> None:
    waited = replace(NEW, attempt=MAX_ATTEMPTS + 1)
    assert hopeless(waited, replace(ptk_spec(), assurance=assurance), [KEPT]) is None


def test_a_run_goes_on_with_the_windows_that_are_left_unless_it_may_get_its_reservation_back() -> None:
    training, waits = (replace(one, kind=JobKind.TRAIN) for one in (BEGUN, NEW))
    partial = replace(NEW, kind=JobKind.PARTIAL)  # its training has paid
    for windows, expected in (([KEPT, KEPT], None), ([WindowState.EXPIRING, KEPT], None)):
        going = (BEGUN, NEW, training, partial)
        assert [hopeless(job, ptk_spec(), windows) for job in going] == [expected] * 4
    gone = [WindowState.EXPIRED, WindowState.EXPIRING]
    assert [hopeless(job, ptk_spec(), gone) for job in going] == [Outcome.EXPIRED] * 4
    assert hopeless(waits, ptk_spec(), [KEPT, KEPT]) is None
    assert hopeless(waits, ptk_spec(), [WindowState.EXPIRING, KEPT]) is Outcome.EXPIRED


@pytest.mark.parametrize("job", [NEW, BEGUN], ids=["new", "begun"])
def test_rows_that_are_gone_and_ptks_that_are_withdrawn_are_not_opened(job: Job) -> None:
    assert hopeless(job, ptk_spec(), [WindowState.EXPIRED]) is Outcome.EXPIRED
    assert hopeless(job, None, [KEPT]) is Outcome.WITHDRAWN
