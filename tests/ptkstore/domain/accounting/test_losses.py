"""Integer losses: exact sums, charges up, capacities down, nothing but plain numbers in range."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptkstore.domain.accounting.losses import NANO, NO_LOSS, Loss, checked_delta, checked_epsilon
from ptkstore.errors import InvalidRequest

EPSILONS = st.floats(1e-6, 10, allow_nan=False)
DELTAS = st.floats(0, 1e-2, allow_nan=False)


def test_a_tenth_ten_times_is_exactly_one() -> None:
    total = sum((Loss.charge(0.1, 1e-7) for _ in range(10)), NO_LOSS)
    assert total == Loss(10**9, 10**12)
    assert total.fits(Loss.capacity(1.0, 1e-6))
    assert not (total + Loss(1)).fits(Loss.capacity(1.0, 1e-6))
    assert not (total + Loss(0, 1)).fits(Loss.capacity(1.0, 1e-6))


@pytest.mark.parametrize(
    ("epsilon", "charged", "held"),
    [
        (0.1234567891, 123_456_790, 123_456_789),
        (Decimal("0.1234567890001"), 123_456_790, 123_456_789),
        (0.3, 300_000_000, 300_000_000),
        (1, 10**9, 10**9),
        (1e-6, 1000, 1000),
        (10, 10**10, 10**10),
    ],
)
def test_charges_are_rounded_up_and_capacities_down(epsilon: object, charged: int, held: int) -> None:
    assert Loss.charge(epsilon).epsilon_nano == charged
    assert Loss.capacity(epsilon).epsilon_nano == held


@given(epsilon=EPSILONS, delta=DELTAS)
def test_a_charge_is_never_below_what_was_asked_nor_a_capacity_above(epsilon: float, delta: float) -> None:
    up, down = Loss.charge(epsilon, delta), Loss.capacity(epsilon, delta)
    exact = Fraction(repr(epsilon)) * NANO, Fraction(repr(delta)) * 10**18
    assert down.epsilon_nano <= exact[0] <= up.epsilon_nano < exact[0] + 1
    assert down.delta_atto <= exact[1] <= up.delta_atto < exact[1] + 1


@given(epsilon=EPSILONS, delta=DELTAS)
def test_a_trainer_is_never_handed_more_than_was_charged(epsilon: float, delta: float) -> None:
    loss = Loss.charge(epsilon, delta)
    assert 0 < Fraction(loss.spendable_epsilon) * NANO <= loss.epsilon_nano
    assert 0 <= Fraction(loss.spendable_delta) * 10**18 <= loss.delta_atto
    assert Loss.charge(0.5).spendable_delta == 0.0


@given(nano=st.integers(1000, 10**10), atto=st.integers(0, 10**16))
def test_what_a_loss_says_of_itself_can_be_asked_for_exactly(nano: int, atto: int) -> None:
    _, epsilon, _, delta = str(Loss(nano, atto)).replace(",", "").split()
    assert Loss.charge(Decimal(epsilon), Decimal(delta)) == Loss(nano, atto)
    assert Loss.charge(float(epsilon)).epsilon_nano == nano


def test_numpy_numbers_that_are_floats_count_as_floats() -> None:
    assert Loss.charge(np.float64(0.1)) == Loss(10**8)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        5e-324,
        9.999999e-7,
        10.000000001,
        0,
        -1,
        10**400,
        10**5000,
        True,
        False,
        "0.1",
        b"1",
        None,
        [1],
        1j,
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("Infinity"),
        np.float32(0.1),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, int) else repr(value),
)
def test_an_epsilon_that_is_no_number_in_range_is_refused(value: object) -> None:
    for check in (checked_epsilon, Loss.charge, Loss.capacity):
        with pytest.raises(InvalidRequest, match="epsilon"):
            check(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e-9, 0.0100001, True, "0", None])
def test_a_delta_that_is_no_number_in_range_is_refused(value: object) -> None:
    for check in (checked_delta, lambda delta: Loss.charge(1, delta), lambda delta: Loss.capacity(1, delta)):
        with pytest.raises(InvalidRequest, match="delta"):
            check(value)


def test_a_loss_is_never_negative() -> None:
    with pytest.raises(InvalidRequest):
        Loss(-1)
    with pytest.raises(InvalidRequest):
        Loss(1) - Loss(1, 1)
