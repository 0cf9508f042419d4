"""Losses of sampled noise, of parallel parts, and of a whole plan of rounds."""

import decimal
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp import RdpAccountant

from ptklib.accounting import (
    ORDERS,
    epsilon_of,
    event_delta,
    gaussian_sigma,
    pure_epsilon,
    renyi_curve,
    renyi_epsilon,
)
from ptklib.accounting.concentrated import zcdp_rho
from ptklib.accounting.sampled import sampled_gaussian_curve
from ptklib.arrays import Floats
from ptklib.embeddings.plan import UNIT, Shape, plan_rounds
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.privacy import PrivacyLoss

PUBLIC = Shape(n_users=1000, n_items=50, k=5, rounds=6, batch_rate=0.5, guarantee="user")


def sampled(rate: float, scale: float, count: int = 1, sensitivity: int = 1) -> dict[str, Any]:
    noise = {"name": "DiscreteGaussian", "scale": scale, "l2_sensitivity": sensitivity, "shape": [1]}
    return {"name": "PoissonSampled", "sampling_rate": rate, "event": noise, "count": count}


@pytest.mark.parametrize(("rate", "scale"), [(0.2, 1.0), (0.01, 0.7), (0.05, 4.0), (0.5, 8.0), (1e-4, 2.0)])
def test_the_curve_is_dp_accountings_at_whole_orders(rate: float, scale: float) -> None:
    orders = [2, 3, 5, 17, 64, 512, 1024]
    accountant = RdpAccountant(orders)
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(scale)))
    theirs = accountant._rdp
    ours = sampled_gaussian_curve(np.asarray(orders, dtype=np.float64), 0.5 / scale**2, rate)
    assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("rate", "rho"), [(0.01, 1e-3), (0.1, 1e-3), (0.002, 1e-3), (0.01, 0.01), (1e-3, 0.1)]
)
@pytest.mark.parametrize("order", [2, 64, 512, 1024])
def test_the_curve_is_the_exact_sum_where_weights_are_too_small_for_float64(
    order: int, rate: float, rho: float
) -> None:
    with decimal.localcontext(decimal.Context(prec=60, Emin=-(10**7), Emax=10**7)):
        q = decimal.Decimal(rate)
        moment = sum(
            math.comb(order, j) * (1 - q) ** (order - j) * q**j * (decimal.Decimal(rho) * j * (j - 1)).exp()
            for j in range(order + 1)
        )
        exact = float(moment.ln() / (order - 1))
    found = sampled_gaussian_curve(np.asarray([float(order)]), rho, rate)[0]
    assert found == pytest.approx(min(exact, order * rho), rel=1e-8, abs=1e-14)
    assert found >= min(exact, order * rho) * (1 - 1e-15)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rho", [0.0, 5e-324, 1e300, math.inf])
def test_the_curve_of_any_noise_is_a_number_or_infinite(rho: float) -> None:
    orders = np.asarray([1.5, 2.0, 512.0])
    found = sampled_gaussian_curve(orders, rho, 0.1)
    assert (found >= 0).all()
    assert (found <= orders * rho).all()


@pytest.mark.parametrize("moved", [1, 2, 5])
@pytest.mark.parametrize("scale", [0.6, 1.5, 4.0])
def test_the_curve_bounds_discrete_noise_in_both_directions(moved: int, scale: float) -> None:
    rate, x = 0.3, np.arange(-200.0, 201.0)

    def law(centre: float) -> Floats:
        weight = np.exp(-((x - centre) ** 2) / (2 * scale**2))
        return np.asarray(weight / weight.sum())

    without, mixed = law(0), (1 - rate) * law(0) + rate * law(moved)
    orders = np.asarray([1.05, 1.5, 2, 2.5, 3, 8, 8.3, 30])
    curve = renyi_curve(sampled(rate, scale, sensitivity=moved), tuple(orders))
    for p, q in ((mixed, without), (without, mixed)):
        there = (p > 0) & (q > 0)
        for order, bound in zip(orders, curve, strict=True):
            terms = order * np.log(p[there]) + (1 - order) * np.log(q[there])
            exact = (terms.max() + np.log(np.exp(terms - terms.max()).sum())) / (order - 1)
            assert exact <= bound + 1e-12


def test_a_sample_of_all_and_orders_too_large_to_sum_are_charged_like_no_sample() -> None:
    plain = {"name": "DiscreteGaussian", "scale": 3.0, "l2_sensitivity": 1, "count": 4}
    assert renyi_curve(sampled(1, 3.0, 4)) == pytest.approx(renyi_curve(plain), rel=1e-12)
    large = [1025.0, 1e6]
    assert renyi_curve(sampled(0.1, 3.0, 4), large) == pytest.approx(renyi_curve(plain, large), rel=1e-12)
    assert np.all(renyi_curve(sampled(0.1, 3.0, 4)) <= renyi_curve(plain) * (1 + 1e-12))
    assert np.all(np.diff(renyi_curve(sampled(0.1, 3.0))) >= -1e-12)


def test_several_draws_on_one_sample_are_not_as_cheap_as_on_several() -> None:
    together = sampled(0.1, 3.0)
    together["event"] = {**together["event"], "count": 9}
    assert renyi_curve(together) == pytest.approx(renyi_curve(sampled(0.1, 1.0)), rel=1e-9)


def test_sampled_noise_has_no_pure_epsilon_and_no_delta_of_its_own() -> None:
    assert pure_epsilon(sampled(0.5, 1.0)) == math.inf
    assert event_delta(sampled(0.5, 1.0)) == 0


@pytest.mark.parametrize(
    "broken",
    [
        {"sampling_rate": 1.01},
        {"sampling_rate": 0},
        {"sampling_rate": True},
        {"event": None},
        {"event": {"name": "DiscreteLaplace", "scale": 1.0, "l1_sensitivity": 1}},
        {"count": 0},
    ],
)
def test_malformed_sampled_events_are_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(PrivacyParameterError):
        renyi_curve({**sampled(0.5, 1.0), **broken})


@pytest.mark.parametrize("name", ["Parallel", "OneOf"])
def test_of_parallel_or_chosen_parts_the_greatest_counts(name: str) -> None:
    gaussian = {"name": "DiscreteGaussian", "scale": 2.0, "l2_sensitivity": 1}
    laplace = {"name": "DiscreteLaplace", "scale": 2.0, "l1_sensitivity": 1}
    known = {"name": "EpsilonDelta", "epsilon": 0.1, "delta": 1e-5}
    event = {"name": name, "events": [gaussian, laplace, known], "count": 2}
    parts = np.asarray([renyi_curve(part) for part in (gaussian, laplace, known)])
    assert np.array_equal(renyi_curve(event), 2 * parts.max(axis=0))
    assert event_delta(event) == 2e-5
    assert pure_epsilon(event) == math.inf
    assert zcdp_rho({**event, "events": [gaussian, laplace]}) == max(map(zcdp_rho, (gaussian, laplace))) * 2
    assert pure_epsilon({"name": name, "events": [laplace, laplace]}) == pytest.approx(0.5)
    assert np.array_equal(renyi_curve({"name": name, "events": []}), np.zeros(len(ORDERS)))


@pytest.mark.parametrize("guarantee", ["user", "record"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-6, 1e-6), (0.05, 1e-9), (1.0, 1e-6), (10.0, 1e-3)])
def test_a_plan_spends_what_it_promises_and_little_less(guarantee: Any, epsilon: float, delta: float) -> None:
    rate = 0.3 if guarantee == "user" else 1.0
    shape = Shape(1000, 50, 5, rounds=6, batch_rate=rate, guarantee=guarantee)
    loss = plan_rounds(shape, epsilon, delta).loss
    assert (loss.epsilon, loss.delta) == (epsilon, delta)
    best = math.sqrt(2 * math.log(1 / delta)) * gaussian_sigma(epsilon, delta, 1.0)
    orders = [*ORDERS, *(1 + best * 2 ** (step / 16) for step in range(-64, 65))]
    proved = renyi_epsilon(orders, renyi_curve(loss.event, orders), delta)
    assert 0.98 * epsilon <= proved <= epsilon * 1.005  # other orders than the plan looks at
    if epsilon >= 1:  # the orders of the ledger are about as good there
        assert epsilon_of([PrivacyLoss(1e9, 0.5, loss.event)], delta) <= epsilon * 1.001


def test_a_row_moves_items_twice_as_far_as_a_user_and_no_sampling_helps() -> None:
    plan = plan_rounds(Shape(1000, 50, 5, 6, 1.0, "record"), 1.0, 1e-6)
    assert {p.sensitivity for p in (plan.counts, plan.directions, plan.rounds, plan.gain)} == {2 * UNIT}
    with pytest.raises(InvalidParameterError, match="batch_rate"):
        plan_rounds(Shape(1000, 50, 5, 6, 0.5, "record"), 1.0, 1e-6)


def test_gaussian_rounds_need_a_delta() -> None:
    with pytest.raises(PrivacyParameterError, match="delta"):
        plan_rounds(PUBLIC, 1.0, 0)


def test_sampling_users_saves_noise_per_round() -> None:
    scales = [
        plan_rounds(Shape(1000, 50, 5, 6, rate, "user"), 1.0, 1e-6).rounds.scale for rate in (1.0, 0.5, 0.1)
    ]
    assert scales[0] > 1.5 * scales[1] > 2 * scales[2]
