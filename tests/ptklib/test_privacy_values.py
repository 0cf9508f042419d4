"""Epsilon, delta, bounds and losses at their edges."""

from typing import Any

import numpy as np
import pytest

from ptklib.exceptions import InvalidParameterError, PrivacyParameterError, UnboundedSensitivityError
from ptklib.privacy import Bounds, PrivacyLoss, check_delta, check_epsilon


@pytest.mark.parametrize("value", [1e-6, 1, 10, 10.0, np.float64(0.1), np.int32(2)])
def test_usable_epsilons_pass_unchanged(value: Any) -> None:
    assert check_epsilon(value) == float(value)


@pytest.mark.parametrize("value", [np.True_, [1.0], np.array([1.0]), 10**400, 9.99e-7, 10.0000001, b"1"])
def test_other_epsilons_are_refused(value: object) -> None:
    with pytest.raises(PrivacyParameterError):
        check_epsilon(value)


@pytest.mark.parametrize("value", [0, 0.0, 1e-6, 0.0099])
def test_usable_deltas_pass_unchanged(value: float) -> None:
    assert check_delta(value) == value


@pytest.mark.parametrize("value", [-1e-9, 0.01, 1, float("nan"), False, "0", 5e-324])
def test_other_deltas_are_refused(value: object) -> None:
    with pytest.raises(PrivacyParameterError):
        check_delta(value)


@pytest.mark.parametrize(
    "pair", [(1, 1), (2, 1), (0, float("inf")), (float("nan"), 1), (-1e308, 1e308), (0, 5e-324)]
)
def test_bounds_that_bound_nothing_are_refused(pair: tuple[float, float]) -> None:
    with pytest.raises(InvalidParameterError):
        Bounds.of(pair, "speed")


@pytest.mark.parametrize("pair", [3, "ab", (1,), (1, 2, 3), ("0", "1"), (True, 2)])
def test_bounds_that_are_no_pair_of_numbers_are_refused(pair: object) -> None:
    with pytest.raises(InvalidParameterError):
        Bounds.of(pair, "speed")


def test_missing_bounds_are_named() -> None:
    with pytest.raises(UnboundedSensitivityError, match="'speed'"):
        Bounds.of(None, "speed")


def test_a_loss_survives_json_and_does_not_share_its_event() -> None:
    event = {"name": "DiscreteLaplace", "scale": 2.0, "l1_sensitivity": 1, "shape": [3]}
    loss = PrivacyLoss(0.5, 0.0, event)
    event["scale"] = 1.0
    assert loss.event.to_json()["scale"] == 2.0
    assert PrivacyLoss.from_json(loss.to_json()) == loss


def test_a_loss_prints_its_promise_and_mechanisms_in_one_short_line() -> None:
    noise = {"name": "DiscreteLaplace", "scale": 170353270.15, "l1_sensitivity": 1, "shape": [3]}
    gauss = {"name": "DiscreteGaussian", "scale": 2.0, "l2_sensitivity": 1, "shape": [3]}
    whole = {"name": "Composed", "events": [{**noise, "count": 3}, gauss]}
    assert repr(PrivacyLoss(3.0, 0.0, noise)) == "PrivacyLoss(epsilon=3, delta=0, event=<DiscreteLaplace>)"
    loss = PrivacyLoss(0.30000000000000004, 1e-6, whole)
    assert str(loss) == (
        "PrivacyLoss(epsilon=0.30000000000000004, delta=1e-06, event=<3 x DiscreteLaplace, DiscreteGaussian>)"
    )
    assert loss.event.to_json() == whole


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (float("inf"), 0), (1, 1), (1, -0.1), (True, 0)])
def test_impossible_losses_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(PrivacyParameterError):
        PrivacyLoss(epsilon, delta, {"name": "DiscreteLaplace"})
