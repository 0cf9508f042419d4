"""Composition and calibration against dp-accounting and against first principles."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from dp_accounting.rdp import RdpAccountant

from ptklib.accounting import (
    ORDERS,
    basic_composition,
    epsilon_of,
    gaussian_epsilon,
    gaussian_sigma,
    pure_epsilon,
    renyi_curve,
)
from ptklib.exceptions import PrivacyParameterError
from ptklib.privacy import PrivacyLoss

ALPHAS = (1.05, 1.5, 2.0, 7.0, 64.0, 1024.0)


def laplace(scale: float, sensitivity: int, count: int = 1) -> dict[str, object]:
    return {"name": "DiscreteLaplace", "scale": scale, "l1_sensitivity": sensitivity, "count": count}


def divergence(scale: float, shift: tuple[int, ...], alpha: float) -> float:
    """Sum the Rényi divergence of discrete Laplace noise term by term."""
    total = 0.0
    for d in shift:
        x = np.arange(-int(60 * scale) - d - 60, int(60 * scale) + d + 60, dtype=np.float64)
        log_p, log_q = -np.abs(x) / scale, -np.abs(x - d) / scale
        terms = alpha * log_p + (1 - alpha) * log_q + math.log(math.tanh(1 / (2 * scale)))
        total += float(np.logaddexp.reduce(terms)) / (alpha - 1)
    return total


@pytest.mark.parametrize("scale", [0.1, 0.7, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("distance", [1, 2, 7])
def test_the_laplace_curve_is_the_exact_divergence_rounded_up(scale: float, distance: int) -> None:
    curve = renyi_curve(laplace(scale, distance), ALPHAS)
    exact = [divergence(scale, (distance,), alpha) for alpha in ALPHAS]
    assert np.all(curve >= np.asarray(exact) * (1 - 1e-12))
    assert curve == pytest.approx(exact, rel=1e-6)


def test_one_moved_cell_is_worse_than_the_same_distance_over_several() -> None:
    curve = renyi_curve(laplace(2.0, 5), ALPHAS)
    for shift in ((4, 1), (3, 2), (1, 1, 1, 1, 1)):
        assert all(bound >= divergence(2.0, shift, a) for bound, a in zip(curve, ALPHAS, strict=True))


def test_the_continuous_laplace_curve_would_promise_too_much_for_counts() -> None:
    accountant = RdpAccountant(ALPHAS).compose(dp_event.LaplaceDpEvent(1.0))
    assert np.all(renyi_curve(laplace(1.0, 1), ALPHAS) > accountant._rdp)


def test_fine_laplace_noise_has_the_curve_of_continuous_noise() -> None:
    accountant = RdpAccountant(ALPHAS).compose(dp_event.LaplaceDpEvent(2.0))
    assert renyi_curve(laplace(2.0 * 2**21, 2**21), ALPHAS) == pytest.approx(accountant._rdp, rel=1e-5)


def test_the_gaussian_curve_is_the_one_of_dp_accounting() -> None:
    event = {"name": "DiscreteGaussian", "scale": 6.0, "l2_sensitivity": 2.0}
    accountant = RdpAccountant(ALPHAS).compose(dp_event.GaussianDpEvent(3.0))
    assert renyi_curve(event, ALPHAS) == pytest.approx(accountant._rdp, rel=1e-9)
    assert np.all(renyi_curve(event, ALPHAS) >= accountant._rdp)


def test_curves_never_exceed_the_pure_bound_and_grow_with_the_order() -> None:
    for scale in (0.05, 1.0, 1e6, 1e12):
        curve = renyi_curve(laplace(scale, 1), ORDERS)
        assert np.all(curve <= pure_epsilon(laplace(scale, 1)) * (1 + 1e-9))
        assert np.all(np.diff(curve) >= -1e-10 * curve[1:])
        assert np.all(curve > 0)


@pytest.mark.parametrize("orders", [(math.inf,), (2.0, math.inf), (1.0,), (0.5,), (math.nan,)])
def test_infinite_and_small_orders_are_refused(orders: tuple[float, ...]) -> None:
    with pytest.raises(PrivacyParameterError):
        renyi_curve({"name": "DiscreteGaussian", "scale": 1.0, "l2_sensitivity": 1.0}, orders)


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"name": "Laplace"},
        laplace(0.0, 1),
        laplace(-1.0, 1),
        laplace(math.nan, 1),
        laplace(1.0, 1, 0),
        laplace(1.0, 1, True),
        {"name": "DiscreteLaplace", "scale": 1.0},
        {"name": "Composed"},
        {"name": "Composed", "events": [1]},
    ],
)
def test_malformed_events_are_refused(event: dict[str, object]) -> None:
    with pytest.raises(PrivacyParameterError):
        renyi_curve(event)
    with pytest.raises(PrivacyParameterError):
        pure_epsilon(event)


def test_no_loss_costs_nothing() -> None:
    assert epsilon_of([], 1e-6) == 0.0


def test_pure_losses_add_up_without_delta_and_cost_less_with_it() -> None:
    losses = [PrivacyLoss(0.1, 0.0, laplace(10.0, 1))] * 200
    assert epsilon_of(losses, 0) == pytest.approx(20.0, rel=1e-9)
    assert epsilon_of(losses, 0) >= 20.0 - 1e-12
    assert epsilon_of(losses, 1e-6) < 9.5


def test_composition_is_no_better_than_the_exact_privacy_loss_distribution() -> None:
    losses = [PrivacyLoss(0.1, 0.0, laplace(10.0, 1))] * 200
    accountant = pld_privacy_accountant.PLDAccountant()
    accountant.compose(dp_event.DiscreteLaplaceDpEvent(0.1, 1), 200)
    exact = accountant.get_epsilon(1e-6)
    assert exact <= epsilon_of(losses, 1e-6) <= 1.15 * exact


def test_a_gaussian_loss_needs_delta() -> None:
    event = {"name": "DiscreteGaussian", "scale": 4.6, "l2_sensitivity": 1}
    assert epsilon_of([PrivacyLoss(1.0, 1e-6, event)], 0) == math.inf


def test_the_delta_of_an_asserted_loss_is_charged_before_conversion() -> None:
    loss = PrivacyLoss(0.2, 1e-6, {"name": "EpsilonDelta", "epsilon": 0.2, "delta": 1e-6})
    assert epsilon_of([loss] * 2, 1e-6) == math.inf
    assert epsilon_of([loss] * 2, 2.1e-6) == pytest.approx(0.4)


def test_basic_composition_rounds_up() -> None:
    epsilon, delta = basic_composition([PrivacyLoss(0.1, 1e-7, laplace(10.0, 1))] * 3)
    assert epsilon >= 0.3
    assert delta >= 3e-7


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 9e-3])
def test_calibrated_gaussian_noise_keeps_its_promise_and_wastes_little(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta, 1.0)
    assert gaussian_epsilon(sigma, delta) <= epsilon
    assert gaussian_epsilon(sigma * (1 - 1e-6), delta) > epsilon
    assert gaussian_sigma(epsilon, delta, 7.5) == pytest.approx(7.5 * sigma)


def test_calibrated_gaussian_noise_holds_under_the_exact_privacy_loss_distribution() -> None:
    accountant = pld_privacy_accountant.PLDAccountant()
    accountant.compose(dp_event.GaussianDpEvent(gaussian_sigma(1.0, 1e-6, 1.0)))
    assert 0.9 < accountant.get_epsilon(1e-6) <= 1.0


def test_gaussian_noise_without_delta_is_refused() -> None:
    with pytest.raises(PrivacyParameterError):
        gaussian_sigma(1.0, 0.0, 1.0)
