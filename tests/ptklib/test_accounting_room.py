"""Composition and calibration against dp-accounting and against first principles."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant, privacy_loss_mechanism
from dp_accounting.rdp import RdpAccountant

from ptklib.accounting import (
    ORDERS,
    analytic,
    basic_composition,
    discrete_scale,
    epsilon_of,
    gaussian_epsilon,
    gaussian_multiplier,
    gaussian_sigma,
    joint_multiplier,
    profile_epsilon,
    pure_epsilon,
    renyi_curve,
)
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms.comparisons import above_threshold_event
from ptklib.privacy import PrivacyLoss
from tests.statistical.tools import exponential, permute_and_flip

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


def gaussian(scale: float, sensitivity: float = 1.0) -> dict[str, object]:
    return {"name": "DiscreteGaussian", "scale": scale, "l2_sensitivity": sensitivity}


def exact_delta(scales: tuple[float, ...], shift: tuple[int, ...], epsilon: float) -> float:
    """Sum the delta of discrete Gaussian noise term by term, over all integer vectors."""
    p, q = np.ones(1), np.ones(1)
    for scale, d in zip(scales, shift, strict=True):
        reach = int(12 * scale) + d + 4
        x = np.arange(-reach, reach + 1)
        one, other = (np.exp(-((x - at) ** 2) / (2 * scale**2)) for at in (0, d))
        total = float(np.exp(-(np.arange(-2 * reach, 2 * reach + 1) ** 2) / (2 * scale**2)).sum())
        p, q = np.outer(p, one / total).ravel(), np.outer(q, other / total).ravel()
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("multiplier", [0.4, 1.0, 4.2, 36.0])
def test_the_gaussian_profile_is_the_one_of_dp_accounting_rounded_up(
    epsilon: float, multiplier: float
) -> None:
    theirs = privacy_loss_mechanism.GaussianPrivacyLoss(multiplier).get_delta_for_epsilon(epsilon)
    ours = analytic.profile_delta(multiplier, epsilon)
    assert theirs <= ours <= theirs + 1e-11 + 1e-9 * theirs
    if 1e-300 < ours < 1e-2:
        found = profile_epsilon(multiplier, ours)
        assert epsilon <= found
        assert found == pytest.approx(epsilon, rel=1e-5) or theirs < 1e-9


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-10, 1e-6, 9e-3])
def test_noise_by_its_profile_keeps_its_promise_and_is_smaller(epsilon: float, delta: float) -> None:
    multiplier = gaussian_multiplier(epsilon, delta)
    assert analytic.profile_delta(multiplier, epsilon) <= delta
    assert analytic.profile_delta(multiplier * (1 - 1e-5), epsilon) > delta
    assert multiplier < 0.97 * gaussian_sigma(epsilon, delta, 1.0)
    assert profile_epsilon(multiplier, delta) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(10.0, 9e-3), (10.0, 1e-6), (3.0, 1e-6), (1.0, 1e-3), (0.5, 9e-3)]
)
@pytest.mark.parametrize("shift", [(1,), (2,), (5,), (1, 1), (2, 1), (3, 4)])
def test_discrete_noise_keeps_the_promise_of_the_continuous_profile(
    epsilon: float, delta: float, shift: tuple[int, ...]
) -> None:
    scale = discrete_scale(gaussian_multiplier(epsilon, delta) * math.hypot(*shift))
    assert exact_delta((scale,) * len(shift), shift, epsilon) <= delta


def test_discrete_noise_of_different_scales_keeps_the_promise_together() -> None:
    multiplier = gaussian_multiplier(3.0, 1e-5)
    shares, shift = (0.2, 0.8), (2, 3)
    scales = tuple(discrete_scale(multiplier * d / math.sqrt(s)) for d, s in zip(shift, shares, strict=True))
    assert 1e-7 < exact_delta(scales, shift, 3.0) <= 1e-5
    events = [gaussian(scale, d) for scale, d in zip(scales, shift, strict=True)]
    assert joint_multiplier(events) == pytest.approx(multiplier)


def test_discrete_noise_of_the_scale_of_continuous_noise_would_break_the_promise() -> None:
    assert exact_delta((gaussian_multiplier(10.0, 9e-3),), (1,), 10.0) > 9e-3


def test_gaussian_losses_compose_by_their_joint_profile() -> None:
    multiplier = 30.0
    losses = [PrivacyLoss(0.13, 1e-6, gaussian(discrete_scale(7 * multiplier), 7.0))] * 10
    accountant = pld_privacy_accountant.PLDAccountant()
    accountant.compose(dp_event.GaussianDpEvent(multiplier), 10)
    exact = accountant.get_epsilon(1e-6)
    assert 0.999 * exact < epsilon_of(losses, 1e-6) <= 1.001 * exact
    composed = {"name": "Composed", "events": [losses[0].event], "count": 10}
    assert epsilon_of([PrivacyLoss(2.0, 1e-6, composed)], 1e-6) == pytest.approx(epsilon_of(losses, 1e-6))
    assert joint_multiplier([losses[0].event, laplace(1.0, 1)]) is None
    assert joint_multiplier([gaussian(1.7)]) is None  # less noise than the smoothing alone


def test_noise_beside_a_diagonal_counts_with_twice_its_variance() -> None:
    event = gaussian(discrete_scale(20.0)) | {"scale_beside_diagonal": discrete_scale(20.0 / math.sqrt(2))}
    assert joint_multiplier([event]) == pytest.approx(20.0)
    half = event | {"scale_beside_diagonal": discrete_scale(10.0 / math.sqrt(2))}
    assert joint_multiplier([half]) == pytest.approx(10.0)


def test_profiles_without_delta_or_noise_are_refused() -> None:
    with pytest.raises(PrivacyParameterError):
        gaussian_multiplier(1.0, 0.0)
    for multiplier, delta in ((0.0, 1e-6), (1.0, 0.0), (math.nan, 0.5)):
        with pytest.raises(PrivacyParameterError):
            profile_epsilon(multiplier, delta)
    assert profile_epsilon(1e-3, 1e-6) == math.inf


def selection(name: str, epsilon: float, monotonic: bool = False) -> dict[str, object]:
    scale = (1 if monotonic else 2) / epsilon
    return {"name": name, "scale": scale, "sensitivity": 1, "monotonic": monotonic, "shape": [3]}


def above_threshold(epsilon: float, monotonic: bool = False) -> dict[str, object]:
    return above_threshold_event(sensitivity=1, epsilon=epsilon, monotonic=monotonic)


def divergence_of(p: object, q: object, alpha: float) -> float:
    log_p, log_q = np.log(np.asarray(p, dtype=np.float64)), np.log(np.asarray(q, dtype=np.float64))
    return float(np.logaddexp.reduce(alpha * log_p + (1 - alpha) * log_q)) / (alpha - 1)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 5.0])
def test_selection_costs_no_more_than_its_curve_on_any_neighbours(epsilon: float) -> None:
    random = np.random.default_rng(0)
    for name, law in (("PermuteAndFlip", permute_and_flip), ("ExponentialMechanism", exponential)):
        for monotonic in (False, True):
            event = selection(name, epsilon, monotonic)
            curve, scale = renyi_curve(event, ALPHAS), (1 if monotonic else 2) / epsilon
            assert pure_epsilon(event) == pytest.approx(epsilon)
            assert np.all(curve <= pure_epsilon(event) * (1 + 1e-9))
            for _ in range(60):
                scores = random.integers(0, 4, 4)
                moves = random.integers(0 if monotonic else -1, 2, 4)
                p, q = law(scores, scale), law(scores + moves, scale)
                for x, y in ((p, q), (q, p)):
                    assert all(divergence_of(x, y, a) <= c for a, c in zip(ALPHAS, curve, strict=True))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 6.0])
def test_the_curve_of_the_exponential_mechanism_is_reached_and_below_its_zcdp_bound(epsilon: float) -> None:
    """Candidates that gain are rare or common: some mixture of the two ends is the worst case."""
    curve = renyi_curve(selection("ExponentialMechanism", epsilon), ALPHAS)
    assert np.all(curve <= np.asarray(ALPHAS) * epsilon**2 / 8 * (1 + 1e-9))
    for alpha, bound in zip(ALPHAS, curve, strict=True):
        found = 0.0
        for share in 1 / (1 + np.exp(np.linspace(-12, 12, 1201))):
            up = share * math.exp(epsilon) / (1 - share + share * math.exp(epsilon))
            found = max(found, divergence_of([up, 1 - up], [share, 1 - share], alpha))
        assert found <= bound
        assert found == pytest.approx(bound, rel=1e-3) or alpha > 100


def test_permute_and_flip_has_no_bounded_range() -> None:
    """Its cost is not that of the exponential mechanism: OpenDP had claimed so once (opendp/opendp#2911)."""
    q, p = permute_and_flip(np.array([0, 0]), 2.0), permute_and_flip(np.array([1, -1]), 2.0)
    curve = renyi_curve(selection("ExponentialMechanism", 1.0), ALPHAS)
    assert any(divergence_of(p, q, a) > 1.1 * c for a, c in zip(ALPHAS, curve, strict=True))


def test_thresholds_and_selections_compose_with_other_losses() -> None:
    parts = [selection("ExponentialMechanism", 0.1), selection("PermuteAndFlip", 0.1), above_threshold(0.1)]
    losses = [PrivacyLoss(0.1, 0.0, part) for part in [*parts, laplace(10.0, 1)]] * 50
    whole = PrivacyLoss(20.0, 0.0, {"name": "Composed", "events": [*parts, laplace(10.0, 1)], "count": 50})
    assert epsilon_of(losses, 0) == pytest.approx(20.0, rel=1e-9)
    assert epsilon_of(losses, 1e-6) == pytest.approx(epsilon_of([whole], 1e-6))
    alone = [epsilon_of([PrivacyLoss(0.1, 0.0, part)] * 200, 1e-6) for part in parts]
    assert alone[0] < 0.55 * alone[1]
    assert alone[1] == pytest.approx(alone[2], rel=1e-6)


@pytest.mark.parametrize(
    "event",
    [
        {"name": "PermuteAndFlip", "scale": 1.0, "sensitivity": 1},
        {"name": "PermuteAndFlip", "scale": 1.0, "sensitivity": 1, "monotonic": 1},
        {"name": "ExponentialMechanism", "scale": 0.0, "sensitivity": 1, "monotonic": True},
        {"name": "ExponentialMechanism", "scale": 1.0, "monotonic": True},
        {"name": "AboveThreshold", "scale": 1.0, "sensitivity": 1, "monotonic": True},
    ],
)
def test_malformed_selections_are_refused(event: dict[str, object]) -> None:
    for curve in (renyi_curve, pure_epsilon):
        with pytest.raises(PrivacyParameterError):
            curve(event)
