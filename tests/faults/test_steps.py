"""No step of a kind of paid run is left out of the fault tests."""

from __future__ import annotations

from typing import Any

import pytest

from ptkstore.application.paid_runs.paid_run import PaidRun
from tests.faults import test_every_profile_step, test_every_step
from tests.faults.steps import all_points, paid_runs, points_of

KILLED = {
    *all_points(),
    *test_every_step.EVALUATING,
    *test_every_step.VALIDATING,
    *test_every_step.COMPARING,
    *(one.values[0] for one in test_every_profile_step.STRIKES if one.values[1] == "kill"),
}


@pytest.mark.parametrize("run", list(paid_runs()), ids=lambda run: run.__name__)
def test_a_worker_is_killed_at_every_step_of_every_kind_of_paid_run(run: type[PaidRun[Any]]) -> None:
    points = points_of(run)
    assert {point.step for point in points} == {"spent", "opened", run.ran_step, run.kept_step}
    assert points <= KILLED
