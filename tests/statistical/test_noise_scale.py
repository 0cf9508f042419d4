"""Noise has the promised shape and scale; each test also rejects a scale 30 % off."""

import numpy as np
import pandas as pd
import pytest

from ptklib import CountFeaturizer, HistoricalStatistics
from ptklib.accounting import discrete_scale, gaussian_multiplier
from ptklib.mechanisms import additive, gaussian, laplace
from ptklib.release import laplace_variance
from tests.statistical.tools import (
    FALSE_ALARM,
    discrete_gaussian_pvalue,
    discrete_laplace_pvalue,
    fine_laplace_pvalue,
)

pytestmark = pytest.mark.fresh_noise  # OpenDP draws too

N = 20_000
ZEROS = np.zeros(N, dtype=np.int64)


@pytest.fixture(params=["ours", "opendp"])
def each_sampler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let long vectors be noised by our sampler, as always, or by OpenDP."""
    if request.param == "opendp":
        monkeypatch.setattr(additive, "VECTOR_MIN", N)
        monkeypatch.setattr(additive, "SHORT_SCALE", float("inf"))


@pytest.mark.usefixtures("each_sampler")
@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 2.0), (1, 0.25), (6, 0.5), (2**21, 0.1)])
def test_laplace_noise_has_the_promised_scale(sensitivity: int, epsilon: float) -> None:
    noise, scale = laplace(ZEROS, l1_sensitivity=sensitivity, epsilon=epsilon), sensitivity / epsilon
    assert discrete_laplace_pvalue(noise, scale) > FALSE_ALARM
    assert discrete_laplace_pvalue(noise, 1.3 * scale) < FALSE_ALARM
    assert discrete_laplace_pvalue(noise, scale / 1.3) < FALSE_ALARM


@pytest.mark.usefixtures("each_sampler")
@pytest.mark.parametrize("scale", [0.8, 4.6, 300.0])
def test_gaussian_noise_has_the_promised_scale(scale: float) -> None:
    noise = gaussian(ZEROS, scale=scale)
    assert discrete_gaussian_pvalue(noise, scale) > FALSE_ALARM
    assert discrete_gaussian_pvalue(noise, 1.3 * scale) < FALSE_ALARM
    assert discrete_gaussian_pvalue(noise, scale / 1.3) < FALSE_ALARM


def test_neighbouring_cells_are_not_correlated() -> None:
    noise = laplace(ZEROS, l1_sensitivity=10**6, epsilon=1.0).astype(np.float64)
    correlation = np.corrcoef(noise[:-1], noise[1:])[0, 1]
    assert abs(correlation) < 6 / np.sqrt(N)  # six standard errors: a false alarm in 5 * 10**8


@pytest.mark.parametrize("scale", [0.3, 1.0, 40.0])
def test_the_declared_variance_is_the_one_of_discrete_laplace_noise(scale: float) -> None:
    x = np.arange(-int(60 * scale) - 60, int(60 * scale) + 61, dtype=np.float64)
    mass = np.exp(-np.abs(x) / scale)
    assert laplace_variance(scale) == pytest.approx(float((x * x * mass).sum() / mass.sum()))


def test_released_counts_and_sums_carry_the_declared_noise() -> None:
    data = pd.DataFrame({"k": np.repeat(np.arange(N // 4), 3), "v": 0.25})
    estimator = HistoricalStatistics(domains={"k": range(N // 4)}, bounds={"v": (0, 1)}, epsilon=0.5).fit(
        data
    )
    table, events = estimator.tables_["statistics"], estimator.declared_loss().event.to_json()["events"]
    count = table["count"].to_numpy() - 3
    assert discrete_laplace_pvalue(count.astype(np.int64), events[0]["scale"]) > FALSE_ALARM
    assert discrete_laplace_pvalue(count.astype(np.int64), events[0]["scale"] * 1.3) < FALSE_ALARM
    centred = table["v_sum"].to_numpy() - 0.5 * table["count"].to_numpy() + 3 * 0.25
    scale = 0.5 * events[1]["scale"] / 2**21
    assert fine_laplace_pvalue(centred, scale) > FALSE_ALARM
    assert fine_laplace_pvalue(centred, scale * 1.5) < FALSE_ALARM
    # 5000 cells: the relative error of a Laplace standard deviation is about 1.6 %
    assert np.std(count) == pytest.approx(estimator.noise_std_["statistics"]["count"], rel=0.12)
    total = table["v_sum"].to_numpy() - 3 * 0.25
    assert np.std(total) == pytest.approx(estimator.noise_std_["statistics"]["v_sum"], rel=0.12)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_contingency_tables_carry_noise_of_the_number_of_features(delta: float) -> None:
    n_features, cells = 12, 500
    domains = {f"f{i}": range(cells) for i in range(n_features)}
    estimator = CountFeaturizer(label="y", classes=(0, 1), domains=domains, epsilon=1.0, delta=delta)
    estimator.finalize([])
    noise = np.concatenate(
        [t[c].to_numpy() for t in estimator.tables_.values() for c in ("count_0", "count_1")]
    ).astype(np.int64)
    if delta:
        scale = discrete_scale(gaussian_multiplier(1.0, 1e-6) * np.sqrt(n_features))
        pvalue = discrete_gaussian_pvalue
    else:
        scale, pvalue = float(n_features), discrete_laplace_pvalue
    assert pvalue(noise, scale) > FALSE_ALARM
    assert pvalue(noise, scale * 1.3) < FALSE_ALARM
    assert pvalue(noise, scale / 1.3) < FALSE_ALARM
    # 12,000 cells: the relative error of a Laplace standard deviation is about 1 %
    assert np.std(noise) == pytest.approx(estimator.noise_std_["f0"]["count_0"], rel=0.08)


@pytest.mark.soak
@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0, 1e6])
def test_noise_has_the_promised_scale_over_many_draws(scale: float) -> None:
    zeros = np.zeros(300_000, dtype=np.int64)
    assert discrete_laplace_pvalue(laplace(zeros, l1_sensitivity=1, epsilon=1 / scale), scale) > FALSE_ALARM
    assert (
        discrete_laplace_pvalue(laplace(zeros, l1_sensitivity=1, epsilon=1 / scale), scale * 1.1)
        < FALSE_ALARM
    )
    wide = min(
        max(scale, 0.5), 1e4
    )  # below, nearly all draws are zero; above, the table of masses is too long
    assert discrete_gaussian_pvalue(gaussian(zeros, scale=wide), wide) > FALSE_ALARM
    assert discrete_gaussian_pvalue(gaussian(zeros, scale=wide), wide * 1.1) < FALSE_ALARM
