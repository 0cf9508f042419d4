"""The tight figure of reports: above the exact one, below every other that we prove, and never infinite work."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ptklib.accounting import basic_composition, epsilon_of, pld, pld_epsilon, profile_epsilon
from ptklib.accounting.profiles import BoundedRange, Gaussian, Laplace, Pure, parts_of
from ptklib.arrays import Floats
from ptklib.privacy import PrivacyLoss

DELTA = 1e-6
EPSILONS = np.linspace(-3.0, 3.0, 601)


def pure(epsilon: float) -> dict[str, Any]:
    return {"name": "EpsilonDelta", "epsilon": epsilon, "delta": 0.0}


def laplace(distance: int, scale: float) -> dict[str, Any]:
    return {"name": "DiscreteLaplace", "scale": scale, "l1_sensitivity": distance}


def gaussian(multiplier: float, unit: float = 2.0**15) -> dict[str, Any]:
    return {"name": "DiscreteGaussian", "scale": multiplier * unit, "l2_sensitivity": unit}


def sampled(rate: float, multiplier: float, count: int = 1) -> dict[str, Any]:
    return {"name": "PoissonSampled", "sampling_rate": rate, "event": gaussian(multiplier), "count": count}


def selected(name: str, epsilon: float) -> dict[str, Any]:
    return {"name": name, "sensitivity": 1, "scale": 2 / epsilon, "monotonic": False}


def losses(*events: Mapping[str, Any], epsilon: float = 9.0, delta: float = 0.0) -> list[PrivacyLoss]:
    return [PrivacyLoss(epsilon, delta, event) for event in events]


def divergence(p: Floats, q: Floats, epsilons: Floats) -> Floats:
    """The exact delta of two laws on the same points at each epsilon."""
    return np.array([np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for epsilon in epsilons])


def noise(law: Callable[[Floats], Floats], shape: tuple[int, ...], shift: tuple[int, ...]) -> Floats:
    """The joint law of independent integer noise on a grid, moved by `shift`."""
    axes = [law(np.arange(-half, half + 1) - moved) for half, moved in zip(shape, shift, strict=True)]
    joint = axes[0]
    for axis in axes[1:]:
        joint = np.multiply.outer(joint, axis)
    return joint.ravel()


def laplace_law(scale: float) -> Callable[[Floats], Floats]:
    return lambda x: np.exp(-np.abs(x) / scale) * math.tanh(1 / (2 * scale))


# profiles


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 2.0])
def test_a_pure_profile_is_that_of_randomised_response(epsilon: float) -> None:
    keep = 1 / (1 + math.exp(-epsilon))
    exact = divergence(np.array([keep, 1 - keep]), np.array([1 - keep, keep]), EPSILONS)
    assert np.allclose(Pure(epsilon).deltas(EPSILONS)[0], exact, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("distance", "scale"), [(1, 2.0), (3, 2.0), (7, 5.0), (20, 9.0)])
def test_a_laplace_profile_is_exact_for_one_number(distance: int, scale: float) -> None:
    law, half = laplace_law(scale), int(50 * scale) + distance
    exact = divergence(noise(law, (half,), (0,)), noise(law, (half,), (distance,)), EPSILONS)
    assert np.allclose(Laplace(distance, scale).deltas(EPSILONS)[0], exact, rtol=0, atol=1e-13)


def clamped(distance: int, scale: float) -> Floats:
    """The law of discrete Laplace noise, clamped to [0, distance]: all that tells 0 from `distance`."""
    ratio = math.exp(-1 / scale)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.arange(distance + 1)
    law[0], law[-1] = 1 / (1 + ratio), ratio**distance / (1 + ratio)
    return law


@pytest.mark.parametrize(
    "shift", [(1, 1), (2, 1), (4, 3), (1, 1, 1), (3, 1, 2), (7, 9, 5), (1, 1, 1, 1, 1, 1)]
)
@pytest.mark.parametrize("scale", [0.3, 0.7, 2.0, 9.0, 300.0])
def test_no_vector_of_a_norm_is_worse_than_one_number_of_it(shift: tuple[int, ...], scale: float) -> None:
    here = there = np.ones(1)
    for distance in shift:
        here = np.multiply.outer(here, clamped(distance, scale)).ravel()
        there = np.multiply.outer(there, clamped(distance, scale)[::-1]).ravel()
    epsilons = np.linspace(-1.0, 1.0, 401) * sum(shift) / scale
    exact, bound = divergence(here, there, epsilons), Laplace(sum(shift), scale).deltas(epsilons)[0]
    assert np.all(exact <= bound + 1e-13)
    assert np.any(exact < 0.99 * bound)  # and they do differ


@given(st.lists(st.integers(-6, 6), min_size=2, max_size=6), st.data(), st.floats(0.2, 3.0))
@settings(max_examples=60, deadline=None)
def test_a_range_profile_covers_the_exponential_mechanism(
    scores: list[int], data: st.DataObject, epsilon: float
) -> None:
    moves = data.draw(st.lists(st.integers(-1, 1), min_size=len(scores), max_size=len(scores)))
    p = np.exp(np.array(scores) * epsilon / 2)
    q = np.exp((np.array(scores) + moves) * epsilon / 2)
    exact = divergence(p / p.sum(), q / q.sum(), EPSILONS)
    assert np.all(exact <= BoundedRange(epsilon).deltas(EPSILONS)[0] + 1e-12)


@pytest.mark.parametrize(("multiplier", "rate"), [(0.8, 1.0), (1.5, 0.3), (4.0, 0.01), (1.0, 0.9)])
def test_a_gaussian_profile_is_that_of_the_mixture(multiplier: float, rate: float) -> None:
    x = np.linspace(-14.0, 14.0, 100_001)
    width = x[1] - x[0]
    without = stats.norm.pdf(x) * width
    with_it = (1 - rate) * without + rate * stats.norm.pdf(x, 1 / multiplier) * width
    some = EPSILONS[::10]
    removed, added = Gaussian(multiplier, rate).deltas(some)
    assert np.allclose(removed, divergence(with_it, without, some), rtol=0, atol=1e-8)
    assert np.allclose(added, divergence(without, with_it, some), rtol=0, atol=1e-8)


@pytest.mark.parametrize("shift", [(2,), (1, 1), (2, -1)])
def test_discrete_noise_on_a_sample_is_covered(shift: tuple[int, ...]) -> None:
    scale, rate, half = 3.0, 0.2, 40
    weights = np.exp(-(np.arange(-200, 201) ** 2) / (2 * scale * scale)).sum()
    shape = (half,) * len(shift)
    here = noise(lambda x: np.exp(-x * x / (2 * scale * scale)) / weights, shape, (0,) * len(shift))
    there = noise(lambda x: np.exp(-x * x / (2 * scale * scale)) / weights, shape, shift)
    mixture = (1 - rate) * here + rate * there
    norm = math.hypot(*shift)
    parts = parts_of(
        {
            "name": "PoissonSampled",
            "sampling_rate": rate,
            "event": {"name": "DiscreteGaussian", "scale": scale, "l2_sensitivity": norm},
        }
    )
    assert parts is not None
    removed, added = parts.leaves[0][0].deltas(EPSILONS)  # type: ignore[union-attr]
    assert np.all(divergence(mixture, here, EPSILONS) <= removed + 1e-12)
    assert np.all(divergence(here, mixture, EPSILONS) <= added + 1e-12)


# compositions


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 2), (0.25, 12), (0.1, 100), (0.01, 1000)])
def test_many_pure_losses_cost_what_randomised_responses_do(epsilon: float, count: int) -> None:
    keep, k = 1 / (1 + math.exp(-epsilon)), np.arange(count + 1)
    p, q = stats.binom.pmf(k, count, keep), stats.binom.pmf(k, count, 1 - keep)

    def delta(at: float) -> float:
        return float(np.maximum(p - math.exp(at) * q, 0.0).sum())

    found = pld_epsilon(losses(*[pure(epsilon)] * count), DELTA)
    assert delta(found) <= DELTA
    assert delta(found * 0.998) > DELTA  # and no more than that


@pytest.mark.parametrize(("multiplier", "count"), [(4.2, 1), (13.0, 10), (130.0, 1000)])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-9])
def test_gaussians_beside_almost_nothing_cost_what_gaussians_do(
    multiplier: float, count: int, delta: float
) -> None:
    exact = profile_epsilon(multiplier / math.sqrt(count), delta)
    events = [*[gaussian(multiplier)] * count, pure(1e-9), laplace(2**20, 2.0**50)]
    found = pld_epsilon(losses(*events), delta)
    assert exact * (1 - 1e-7) <= found <= exact * 1.001
    assert found < epsilon_of(losses(*events), delta)


def test_gaussians_on_samples_cost_what_dp_accounting_says_of_continuous_ones() -> None:
    peer = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, sampling_prob=0.01, value_discretization_interval=1e-3, use_connect_dots=True
    ).self_compose(500)
    found = pld_epsilon(losses(sampled(0.01, 1.0, 500)), DELTA)
    assert found == pytest.approx(peer.get_epsilon_for_delta(DELTA), rel=2e-3)
    assert found < 0.95 * epsilon_of(losses(sampled(0.01, 1.0, 500)), DELTA)


def test_losses_are_the_same_one_by_one_and_with_a_count() -> None:
    events = [laplace(1, 10.0), selected("PermuteAndFlip", 0.1), sampled(0.1, 4.0)]
    apart = pld_epsilon(losses(*[event for event in events for _ in range(7)]), DELTA)
    counted = pld_epsilon(losses(*[{**event, "count": 7} for event in events]), DELTA)
    composed = pld_epsilon(losses({"name": "Composed", "events": events, "count": 7}), DELTA)
    assert apart == pytest.approx(counted, rel=1e-12)
    assert apart == pytest.approx(composed, rel=1e-12)


@pytest.mark.parametrize("name", ["Parallel", "OneOf"])
def test_parallel_or_chosen_losses_cost_the_worst_of_them(name: str) -> None:
    several = {"name": "Composed", "events": [pure(0.2), laplace(3, 20.0)], "count": 4}
    parallel = {"name": name, "events": [several, pure(0.05)]}
    alone, beside = pld_epsilon(losses(several), DELTA), pld_epsilon(losses(parallel), DELTA)
    assert alone * (1 - 1e-6) <= beside <= alone * 1.01
    # neither part is the worst at every epsilon
    crossed = pld_epsilon(losses({"name": name, "events": [pure(0.9), gaussian(4.0)]}), DELTA)
    assert crossed >= max(pld_epsilon(losses(one), DELTA) for one in (pure(0.9), gaussian(4.0))) * (1 - 1e-9)


def test_deltas_of_events_are_taken_off_first() -> None:
    events = [
        {"name": "ThresholdedLaplace", "l1_sensitivity": 1, "scale": 10.0, "threshold": 9, "delta": 1e-7}
    ] * 5
    found = pld_epsilon(losses(*events, delta=1e-7), DELTA)
    keep = 1 / (1 + math.exp(-0.1))
    exact = 0.5 + math.log1p(-5e-7 / keep**5)  # only five times the greatest loss is above it
    assert exact <= found <= exact * (1 + 1e-4)
    assert pld_epsilon(losses(*events, *events, delta=1e-7), DELTA) == math.inf
    thresholded = [{**gaussian(13.0), "name": "ThresholdedGaussian", "threshold": 9, "delta": 1e-7}] * 5
    exact = profile_epsilon(13.0 / math.sqrt(5), 5e-7)
    assert exact * (1 - 1e-7) <= pld_epsilon(losses(*thresholded, delta=1e-6), DELTA) <= exact * 1.001


def test_an_unknown_event_counts_as_its_promise() -> None:
    promise = losses({"name": "EpsilonDelta", "epsilon": 0.3, "delta": 1e-9}, epsilon=0.3, delta=1e-9) * 4
    for event in ({"name": "Magic"}, {}, {"name": "Parallel", "events": [{}]}):
        assert pld_epsilon(losses(event, epsilon=0.3, delta=1e-9) * 4, DELTA) == pld_epsilon(promise, DELTA)


def test_noise_too_small_for_a_profile_counts_by_its_curve() -> None:
    small = {"name": "DiscreteGaussian", "scale": 1.5, "l2_sensitivity": 0.2}
    assert parts_of(small) is None
    found = pld_epsilon(losses(*[small] * 3, *[pure(0.2)] * 3), DELTA)
    assert 0 < found <= epsilon_of(losses(*[small] * 3, *[pure(0.2)] * 3), DELTA)
    parts, _ = pld._together(losses(*[small] * 3), DELTA)
    assert parts.delta == pytest.approx(DELTA / 1000)  # the chance that its curve leaves open
    assert pld_epsilon(losses({"name": "Parallel", "events": [small]}), DELTA) > 0


def test_nothing_costs_nothing_and_without_delta_pure_losses_add_up() -> None:
    assert pld_epsilon([], DELTA) == 0.0
    assert pld_epsilon(losses(pure(0.25), pure(0.5)), 0.0) == pytest.approx(0.75, rel=1e-9)
    assert pld_epsilon(losses(gaussian(4.0), delta=DELTA), 0.0) == math.inf


def test_a_delta_below_what_float64_can_tell_changes_nothing() -> None:
    many = losses(*[pure(0.1)] * 50)
    assert pld_epsilon(many, 1e-15) == pytest.approx(epsilon_of(many, 1e-15), rel=1e-12)


def test_a_delta_above_the_greatest_that_is_asked_for_counts_as_that() -> None:
    several = losses(*[pure(0.3)] * 3)
    assert 0 < pld_epsilon(several, 0.05) == pld_epsilon(several, 0.01) <= pld_epsilon(several, 0.009)


@pytest.mark.parametrize(
    "events",
    [
        [laplace(1 + i % 3, 40.0 + i) for i in range(90)],
        [pure(0.01 + i / 10_000) for i in range(90)],
        [sampled(0.1, 10.0 + i / 10) for i in range(70)],
    ],
    ids=["laplace", "pure", "sampled"],
)
def test_mechanisms_near_each_other_become_the_worst_of_them(
    events: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = pld_epsilon(losses(*events), DELTA)
    monkeypatch.setattr(pld, "GROUPS_MAX", 1000)
    apart = pld_epsilon(losses(*events), DELTA)
    assert apart * (1 - 1e-6) <= together <= apart * 1.05
    assert together < epsilon_of(losses(*events), DELTA)


EVENTS = st.one_of(
    st.floats(1e-4, 1.5).map(pure),
    st.tuples(st.integers(1, 9), st.floats(2.0, 500.0)).map(lambda x: laplace(*x)),
    st.floats(1.0, 200.0).map(gaussian),
    st.tuples(st.floats(1e-3, 1.0), st.floats(0.8, 20.0)).map(lambda x: sampled(*x)),
    st.tuples(st.sampled_from(["ExponentialMechanism", "PermuteAndFlip"]), st.floats(0.01, 1.0)).map(
        lambda x: selected(*x)
    ),
)


@given(st.lists(EVENTS, min_size=1, max_size=5), st.sampled_from([1e-9, 1e-6, 1e-3]))
@settings(max_examples=15, deadline=None)
def test_no_figure_is_above_the_others_and_more_losses_never_cost_less(
    events: list[dict[str, Any]], delta: float
) -> None:
    found = pld_epsilon(losses(*events), delta)
    assert found <= epsilon_of(losses(*events), delta) * (1 + 1e-9)
    for fewer in itertools.islice(itertools.combinations(events, len(events) - 1), 2):
        assert pld_epsilon(losses(*fewer), delta) <= found * 1.01 + 1e-9  # grids differ


@given(st.lists(st.tuples(st.floats(1e-3, 1.0), st.floats(0.0, 1e-7)), min_size=1, max_size=20))
@settings(max_examples=40, deadline=None)
def test_no_figure_is_above_basic_composition(promises: list[tuple[float, float]]) -> None:
    made = [
        PrivacyLoss(epsilon, delta, {"name": "EpsilonDelta", "epsilon": epsilon, "delta": delta})
        for epsilon, delta in promises
    ]
    epsilon, spent = basic_composition(made)
    assert spent > 1e-5 or pld_epsilon(made, 1e-5) <= epsilon * (1 + 1e-9)


def test_a_thousand_different_losses_are_a_matter_of_seconds() -> None:
    """No clock: the number of compositions is what is bounded."""
    events = [laplace(1 + i % 7, 100.0 + i) for i in range(1000)]
    parts, composed = pld._together(losses(*events), DELTA)
    assert (composed, len(parts.leaves)) == (1000, 1000)
    assert len(pld._grouped(parts.leaves)) <= pld.GROUPS_MAX
    assert sum(count for _, count in pld._grouped(parts.leaves)) == 1000
