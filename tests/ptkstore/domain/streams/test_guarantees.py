"""What a policy promises in words and what it means for a user."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.accounting.losses import ATTO, Loss
from ptkstore.domain.streams.guarantees import COMPOSITION, neighbours, of_a_group, protections
from ptkstore.domain.streams.streams import Policy, PrivacyUnit
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


def test_a_groups_loss_is_that_of_one_step_after_the_other() -> None:
    assert of_a_group(LOSS, 1).epsilon_nano == LOSS.epsilon_nano
    assert of_a_group(LOSS, 3).epsilon == 3.0
    assert of_a_group(LOSS, 3).delta == pytest.approx(1e-6 * (1 + math.e + math.e**2), rel=1e-9)
    assert of_a_group(Loss(LOSS.epsilon_nano), 3).delta_atto == 0
    assert of_a_group(Loss(10**10, 1), 1000) == Loss(10**13, ATTO)  # no delta left to promise
