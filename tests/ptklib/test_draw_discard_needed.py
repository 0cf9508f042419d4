"""How many reports a model needs: the estimate, and what simulated devices learn from so many."""

from typing import Any

import numpy as np
import pytest

from ptklib.draw_discard import Categorical, Devices, Numeric, Simulation, Specification, reports_needed
from ptklib.draw_discard.needed import SIGNAL

N_DEVICES, ROWS = 1_000, 10


def specification(n_values: int = 8, **other: Any) -> Specification:
    fields: dict[str, Any] = {
        "features": [Categorical("v", range(n_values))],
        "label": Numeric("y", 0, 1),
        "epsilon": 3.5,
        "k": 5,
        "learning_rate": 0.2,
        "max_norm": 0.25,
    }
    return Specification(**(fields | other))


def test_reports_grow_with_the_square_of_weights_over_epsilon_and_with_instances() -> None:
    one = specification()
    assert one.n_weights == 9
    assert reports_needed(one) == pytest.approx(SIGNAL * 8 * 5 * 81 / 3.5**2, rel=1e-3)
    assert reports_needed(specification(17)) == pytest.approx(4 * reports_needed(one), rel=1e-3)
    assert reports_needed(specification(epsilon=1.75)) == pytest.approx(4 * reports_needed(one), rel=1e-3)
    assert reports_needed(specification(k=20)) == pytest.approx(4 * reports_needed(one), rel=1e-3)


def test_neither_learning_rate_nor_norm_nor_the_kind_of_clipping_of_the_whole_report_changes_them() -> None:
    needed = reports_needed(specification())
    for same in ({"learning_rate": 0.05}, {"max_norm": 1.0}, {"grid_bits": 20}, {"clip": "l2"}):
        assert reports_needed(specification(**same)) == pytest.approx(needed, rel=0.01)


def test_an_epsilon_of_each_weight_needs_as_many_whatever_the_weights_are() -> None:
    few, many = (reports_needed(specification(n, clip="coordinate")) for n in (8, 800))
    assert few == pytest.approx(many, rel=1e-3)
    assert few == pytest.approx(SIGNAL * 8 * 5 / 3.5**2, rel=0.05)


def test_gaussian_noise_and_an_l2_norm_need_reports_by_the_number_of_weights_alone() -> None:
    gaussian = {"clip": "l2", "noise": "gaussian", "delta": 1e-6}
    few, many = (reports_needed(specification(n, **gaussian)) for n in (9, 99))
    assert many == pytest.approx(10 * few, rel=0.01)


def test_classes_count_as_weights() -> None:
    softmax = specification(link="softmax", label=Categorical("y", [0, 1, 2]))
    assert reports_needed(softmax) == pytest.approx(9 * reports_needed(specification()), rel=1e-3)


def share_of_gain(one: Specification, n_reports: int, seed: int) -> float:
    """How much of the gain in log loss over a constant a model has after so many reports: 1 is all of it."""
    draws, n_values = np.random.default_rng(seed), one.n_weights - 1
    scores = draws.normal(0, 1.5, n_values)
    chances = 1 / (1 + np.exp(-scores))
    values = draws.integers(0, n_values, N_DEVICES * ROWS)
    labels = (draws.random(len(values)) < chances[values]).astype(float)
    devices = Devices.of(one, {"v": values, "y": labels}, np.repeat(np.arange(N_DEVICES), ROWS))
    instances = Simulation(devices).run(draws.integers(0, N_DEVICES, n_reports)).instances
    weights = instances.mean(axis=0) / 2.0**one.grid_bits

    def loss(score: Any) -> float:
        return float((np.logaddexp(0, score) - chances * score).mean())

    constant = loss(np.full(n_values, np.log(chances.mean() / (1 - chances.mean()))))
    return (constant - loss(weights[0] + weights[1:])) / (constant - loss(scores))


@pytest.mark.parametrize(("n_values", "epsilon", "k"), [(8, 7.0, 5), (8, 7.0, 10), (8, 3.5, 5), (16, 7.0, 5)])
def test_models_have_about_half_of_their_gain_after_so_many_reports(
    n_values: int, epsilon: float, k: int
) -> None:
    one = specification(n_values, epsilon=epsilon, k=k, learning_rate=0.06 * epsilon**2 / (n_values + 1))
    needed = reports_needed(one)
    few, there, many = (
        np.mean([share_of_gain(one, round(times * needed), seed) for seed in range(6)])
        for times in (1 / 8, 1, 4)
    )
    assert few < 0.25 < there < 0.75
    assert there < many
