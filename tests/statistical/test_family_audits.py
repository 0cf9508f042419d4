"""Whole trainings of every family on neighbouring made-up datasets; what was found is kept as a measurement.

An audit contradicts when two bounds on trainings of their own do, so with this confidence an honest family fails once
in 10**8 runs.
"""

from typing import Any

import pytest

from ptklib.checks import Audit, at_audit_budget, audit, twin
from tests.measurements import Measured
from tests.ptklib.families import EXAMPLES
from tests.statistical.audited import LONG, QUICK, Audited

CONFIDENCE = 0.9999
HONEST_RUNS = 300
"""For `make test`: a family that forgets a noise is found with as few."""

RUNS, RUNS_OF_MANY_PARTS = 2_500, 8_000
MANY_PARTS = {
    "boosted-trees",
    "boosted-trees-of-a-number-gaussian",
    "greedy-trees-of-a-number",
    "factors-of-items",
}

NOT_ATTAINED = {"vectors-of-users-by-the-row", "factors-of-records"}
"""The guarantee for records pays for one row that turns its user's contribution around, which no row does."""

LONGER = [
    *(
        Audited(
            example.name,
            at_audit_budget(example.estimator),
            RUNS_OF_MANY_PARTS if example.name in MANY_PARTS else RUNS,
        )
        for example in EXAMPLES
    ),
    *LONG,
]

FOUND = [case for case in LONGER if case.name not in NOT_ATTAINED]

quick = pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
longer = pytest.mark.parametrize("case", LONGER, ids=lambda case: case.name)
found_with_half = pytest.mark.parametrize("case", FOUND, ids=lambda case: case.name)


def audit_of_half_the_noise(case: Audited) -> Audit:
    claimed = case.estimator.declared_loss()
    return audit(twin(case.estimator), runs=case.runs, declared=claimed, confidence=CONFIDENCE)


def honest_audit(estimator: Any, runs: int) -> Audit:
    return audit(estimator, runs=runs, confidence=CONFIDENCE)


@quick
def test_small_trainings_do_not_contradict_what_is_declared(case: Audited) -> None:
    found = honest_audit(case.estimator, HONEST_RUNS)
    assert found.verdict == "consistent", found


@quick
def test_small_trainings_with_half_the_noise_are_contradicted(case: Audited) -> None:
    found = audit_of_half_the_noise(case)
    assert found.verdict == "contradicted", found


@pytest.mark.soak
@longer
def test_trainings_do_not_contradict_what_is_declared(case: Audited, measured: Measured) -> None:
    found = honest_audit(case.estimator, case.runs)
    assert found.verdict == "consistent", found
    measured(
        id=f"audit/{case.name}",
        measure=f"epsilon proved lost by {found.runs} trainings, {found.confidence:.2%} confidence",
        unit="nats",
        ours=found.lower_bound,
        goal=found.epsilon,
        direction="min",
    )


@pytest.mark.soak
@found_with_half
def test_trainings_with_half_the_noise_are_contradicted(case: Audited, measured: Measured) -> None:
    found = audit_of_half_the_noise(case)
    assert found.verdict == "contradicted", found
    measured(
        id=f"audit-of-half-the-noise/{case.name}",
        measure=f"epsilon proved lost by {found.runs} trainings of a twin with half the noise",
        unit="nats",
        ours=found.lower_bound,
        goal=found.epsilon,
        direction="max",
    )
