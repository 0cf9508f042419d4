"""What a policy promises in words and what it means for a user."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from scipy import stats

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import ATTO, Loss
from ptkstore.domain.scheduling.choices import Scheduler
from ptkstore.domain.streams.guarantees import COMPOSITION, neighbours, of_a_group, protections
from ptkstore.domain.streams.policies import Policy, PrivacyUnit
from tests.support.device_streams import device_policy

LOSS = Loss.capacity(1, 1e-6)


def policy(unit: PrivacyUnit) -> Policy:
    if unit is PrivacyUnit.DEVICE:
        return device_policy()
    users = {} if unit is PrivacyUnit.RECORD else {"unit_column": "rider", "max_rows_per_unit": 7}
    return Policy(LOSS, timedelta(days=1), datetime(2026, 1, 5, tzinfo=UTC), privacy_unit=unit, **users)


def test_every_accountant_has_its_theorem_and_every_unit_its_neighbours() -> None:
    assert set(COMPOSITION) == set(Accountant)
    assert len({neighbours(policy(unit)) for unit in PrivacyUnit}) == len(PrivacyUnit)
    assert "at most 7" in neighbours(policy(PrivacyUnit.USER))


@pytest.mark.parametrize(
    ("unit", "in_one", "in_all"),
    [
        (PrivacyUnit.RECORD, of_a_group(LOSS, 10), of_a_group(LOSS, 10)),
        (PrivacyUnit.USER_IN_WINDOW, LOSS, Loss(30 * LOSS.epsilon_nano, 30 * LOSS.delta_atto)),
        (PrivacyUnit.USER, LOSS, LOSS),
    ],
)
def test_a_user_in_many_windows_is_told_what_the_unit_means_for_them(
    unit: PrivacyUnit, in_one: Loss, in_all: Loss
) -> None:
    record, window, whole = protections(policy(unit), LOSS, 30)
    assert (record.loss, window.loss, whole.loss) == (LOSS, in_one, in_all)
    assert "30 windows" in whole.who
    assert protections(policy(unit), LOSS, 0)[2].loss.epsilon_nano >= LOSS.epsilon_nano


@pytest.mark.parametrize("scheduler", [one for one in Scheduler if one.lets_wait])
def test_delta_grows_as_that_of_a_group_if_one_training_may_read_several_windows(
    scheduler: Scheduler,
) -> None:
    """Gaussian noise of (1, 1e-6) over three windows: a user in all of them exceeds three times delta."""
    stream = policy(PrivacyUnit.USER_IN_WINDOW)
    if scheduler is Scheduler.BUDGETING:
        stream = replace(stream, scheduler=scheduler, least_significance=1.0, most_significance=2.0)
    else:
        stream = replace(stream, scheduler=scheduler)
    _, in_one, in_all = protections(stream, LOSS, 3)
    assert (in_one.loss, in_all.loss) == (LOSS, of_a_group(LOSS, 3))
    assert 3e-6 < _gaussian_delta(3 * _SHIFT, 3.0) < in_all.loss.delta
    assert _gaussian_delta(_SHIFT, 1.0) == pytest.approx(LOSS.delta, rel=1e-6)


_SHIFT = 0.23670438066343172
"""What one unit moves, in deviations of the noise, so that the release is (1, 1e-6)-DP."""


def _gaussian_delta(shift: float, epsilon: float) -> float:
    """The exact delta of Gaussian noise (Balle and Wang 2018, Theorem 8)."""
    upper, lower = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
    return float(stats.norm.cdf(upper) - math.exp(epsilon) * stats.norm.cdf(lower))


def test_a_groups_loss_is_that_of_one_step_after_the_other() -> None:
    assert of_a_group(LOSS, 1).epsilon_nano == LOSS.epsilon_nano
    assert of_a_group(LOSS, 3).epsilon == 3.0
    assert of_a_group(LOSS, 3).delta == pytest.approx(1e-6 * (1 + math.e + math.e**2), rel=1e-9)
    assert of_a_group(Loss(LOSS.epsilon_nano), 3).delta_atto == 0
    assert of_a_group(Loss(10**10, 1), 1000) == Loss(10**13, ATTO)  # no delta left to promise
