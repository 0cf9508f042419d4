"""Noise and loss of releases of sums and products."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ptklib import AdaSSPRegressor, CovarianceMatrix
from ptklib.accounting import gaussian_multiplier
from ptklib.gram import RADIUS
from ptklib.mechanisms import additive, vectorised
from tests.statistical.tools import FALSE_ALARM

NAMES = [f"x{i}" for i in range(60)]
RUNS = 8000
ERROR = 6 * np.sqrt(2 / RUNS)
"""Six standard errors: a false alarm in 5 * 10**8; half the noise is eight further away."""


def normal_pvalue(noise: Any, scale: float) -> float:
    return float(stats.kstest(noise, stats.norm(scale=scale).cdf).pvalue)


def halved_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    measurement, draw = additive._gaussian_measurement, vectorised.discrete_gaussian
    monkeypatch.setattr(additive, "_gaussian_measurement", lambda scale: measurement(scale / 2))
    monkeypatch.setattr(vectorised, "discrete_gaussian", lambda scale, n: draw(scale / 2, n))


def test_released_products_and_sums_carry_the_declared_noise() -> None:
    estimator = CovarianceMatrix(NAMES, max_norm=3.0, epsilon=0.5, delta=1e-6).finalize([])
    events = {tuple(event["shape"]): event for event in estimator.declared_loss().event.to_json()["events"]}
    block = estimator._blocks()[0]
    table = estimator.tables_["covariance"]
    product = table["product"].to_numpy() / block.step**2
    diagonal = np.equal(table["row"].to_pylist(), table["column"].to_pylist())
    event = events[(60 * 61 // 2,)]
    assert event["l2_sensitivity"] == RADIUS**2
    for noise, scale in (
        (product[~diagonal], event["scale_beside_diagonal"]),
        (product[diagonal], event["scale"]),
        (estimator.tables_["components"]["sum"].to_numpy() / block.step, events[(60,)]["scale"]),
    ):
        assert normal_pvalue(noise, scale) > FALSE_ALARM
    assert normal_pvalue(product[~diagonal], event["scale_beside_diagonal"] * 2) < FALSE_ALARM
    assert normal_pvalue(product[~diagonal], event["scale_beside_diagonal"] / 2) < FALSE_ALARM
    std = estimator.noise_std_["covariance"]["product"]
    # 60 values: the relative error of a standard deviation is about 9 %
    assert np.std(table["product"].to_numpy()[diagonal]) == pytest.approx(std, rel=0.7)


def advantage(estimator: Any, row: Any, label: Any = None) -> float:
    """Return how many standard deviations one row moves the most telling function of the noisy vectors."""
    plan = estimator._plan()
    empty, full = estimator.merge([]).arrays, estimator.partial_statistics(row, label).arrays
    scores = []
    for exact in (full, empty):
        noisy = plan.draw({name: np.tile(units, (RUNS, 1)) for name, units in exact.items()})
        scores.append(sum(noisy[name] @ (full[name] / plan.scales[name] ** 2) for name in noisy))
    with_row, without = scores
    pooled = np.sqrt((np.var(with_row) + np.var(without)) / 2)
    return float((with_row.mean() - without.mean()) / pooled)


WORST: list[Any] = [
    (CovarianceMatrix(["a", "b"], max_norm=1.0, epsilon=1.0, delta=1e-6), [[1.0, 0.0]], None),
    (CovarianceMatrix(["a", "b"], max_norm=1.0, epsilon=1.0, delta=1e-6), [[-3.0, 3.0]], None),
    (CovarianceMatrix(["a", "b"], bounds=(-1, 1), epsilon=1.0, delta=1e-6), [[1.0, -5.0]], None),
    (
        AdaSSPRegressor(["a", "b"], max_norm=1.0, label_bounds=(0, 2), epsilon=1.0, delta=1e-6),
        [[0.7, 9.0]],
        [2.0],
    ),
]


@pytest.mark.parametrize(("estimator", "row", "label"), WORST)
def test_the_worst_row_is_as_visible_as_declared_and_no_more(estimator: Any, row: Any, label: Any) -> None:
    """A Gaussian mechanism is fully described by this one number; its standard error is sqrt(2 / RUNS)."""
    promised = 1 / gaussian_multiplier(1.0, 1e-6)
    assert promised - ERROR < advantage(estimator, np.array(row), label) < promised + ERROR


@pytest.mark.parametrize(("estimator", "row", "label"), WORST)
def test_half_noised_products_are_caught(
    estimator: Any, row: Any, label: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    halved_noise(monkeypatch)
    promised = 1 / gaussian_multiplier(1.0, 1e-6)
    assert advantage(estimator, np.array(row), label) > promised + ERROR
