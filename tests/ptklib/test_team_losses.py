"""Losses of rows that team code says: clipped, summed and noised by the library, whatever the code is up to."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ptklib import TeamCode, estimator_from_spec
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms import additive
from ptklib.profiling import ExactRisk, LossEstimator, Profiler, risk_of
from ptklib.profiling.estimation import UNITS  # type: ignore[attr-defined]
from ptklib.profiling.risks.team import clipped_losses

WORST = [math.nan, math.inf, -math.inf]
ODD = [*WORST, -1e308, 1e308, -1.0, -0.0, 5e-324, 0.3, 7.5, 1e100]
PARAMS: dict[str, Any] = {
    "bundle": "a" * 64,
    "code": "own:train_dp",
    "columns": ["hour"],
    "tables": {"t": {"keys": ["hour"], "columns": [["hour", "int64"], ["trips", "int64"]]}},
    "epsilon": 0.1,
    "noise_names": [],
}
CODE = TeamCode(**PARAMS, row_losses="own:row_losses", loss_max=4.0)


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "laplace", lambda units, **_: np.asarray(units))


@pytest.mark.parametrize("largest", [1e-100, 0.5, 1.0, 3.0, 1e100])
def test_each_loss_is_clipped_to_its_range_and_told_in_parts_of_it(largest: float) -> None:
    clipped = clipped_losses(ODD, largest)
    assert clipped.shape == (len(ODD),)
    assert ((clipped >= 0) & (clipped <= 1)).all()
    assert clipped[:3].tolist() == [1.0, 1.0, 1.0]  # what is no finite number is the largest loss
    assert clipped_losses([0.0, 0.25 * largest, largest, 2 * largest], largest).tolist() == [0, 0.25, 1, 1]


@pytest.mark.parametrize("loss", ODD)
@pytest.mark.parametrize("n_rows", [1, 7])
@pytest.mark.usefixtures("exact")
def test_a_unit_moves_the_two_sums_by_one_loss_in_all_whatever_its_rows_are_said_to_lose(
    loss: float, n_rows: int
) -> None:
    estimator = LossEstimator(CODE, 0.5)
    before = clipped_losses([0.1, 2.0, 3.9], 4.0)
    one = estimator.of_losses(before, np.array([1, 2, 2]))
    more = np.concatenate([before, clipped_losses([loss] * n_rows, 4.0)])
    other = estimator.of_losses(more, np.array([1, 2, 2, *[3] * n_rows]))
    assert other.lost >= one.lost
    assert other.kept >= one.kept
    assert (other.lost - one.lost) + (other.kept - one.kept) == UNITS


@pytest.mark.usefixtures("exact")
def test_losses_are_means_over_the_rows_of_each_unit() -> None:
    estimate = LossEstimator(CODE, 0.5).of_losses(clipped_losses([4, 0, 1], 4.0), np.array([1, 1, 2]))
    assert (estimate.lost, estimate.kept) == (0.75 * UNITS, 1.25 * UNITS)


@pytest.mark.parametrize("said", [[0.0] * 50, [1e300] * 50, [math.nan] * 50], ids=["none", "huge", "nan"])
def test_the_noise_has_the_law_that_is_paid_for_whatever_the_code_says(said: list[float]) -> None:
    epsilon, estimator = 0.5, LossEstimator(CODE, 0.5)
    losses, units = clipped_losses(said, 4.0), np.arange(50)
    truth = int(np.rint(losses * UNITS).sum())
    drawn = [estimator.of_losses(losses, units) for _ in range(3_000)]
    for noise in ([one.lost - truth for one in drawn], [one.kept - (50 * UNITS - truth) for one in drawn]):
        assert stats.kstest(np.array(noise) / UNITS, stats.laplace(scale=1 / epsilon).cdf).pvalue > 1e-6


def test_a_test_set_without_rows_is_a_release_like_any_other() -> None:
    estimate = LossEstimator(CODE, 0.5).of_losses(np.zeros(0), np.zeros(0, dtype=np.int64))
    assert abs(estimate.lost) + abs(estimate.kept) > 0


def test_code_without_losses_of_rows_has_none_that_could_be_read() -> None:
    plain = TeamCode(**PARAMS)
    with pytest.raises(InvalidParameterError, match=r"declare row_losses\(state, rows\)"):
        risk_of(plain)
    with pytest.raises(InvalidParameterError, match="row_losses"):
        LossEstimator(plain, 0.5).declared_loss()
    with pytest.raises(InvalidParameterError, match="row_losses"):
        LossEstimator(plain, 0.5).of_losses(np.zeros(1), np.zeros(1, dtype=np.int64))


def test_code_without_losses_is_described_as_it_was_before_there_were_any() -> None:
    plain = TeamCode(**PARAMS).to_spec()
    assert not {"row_losses", "loss_max"} & set(plain["params"])
    assert estimator_from_spec(plain).to_spec() == plain
    spec = CODE.to_spec()
    assert (spec["params"]["row_losses"], spec["params"]["loss_max"]) == ("own:row_losses", 4.0)
    assert estimator_from_spec(spec).to_spec() == spec


@pytest.mark.parametrize("largest", [0, -1.0, math.nan, math.inf, "1", True, None, 1e-101, 1e101])
def test_the_largest_loss_is_a_positive_number(largest: object) -> None:
    with pytest.raises(InvalidParameterError, match="loss_max"):
        TeamCode(**PARAMS, row_losses="own:row_losses", loss_max=largest).declared_loss()


@pytest.mark.parametrize("entry", ["own", "own:", "own:a b", 7, "../own:x"])
def test_losses_are_named_like_the_code(entry: object) -> None:
    with pytest.raises(InvalidParameterError, match="row_losses must be written as module:name"):
        TeamCode(**PARAMS, row_losses=entry).declared_loss()


def test_a_largest_loss_of_no_losses_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="there are none"):
        TeamCode(**PARAMS, loss_max=2.0).declared_loss()


def test_team_code_is_profiled_at_the_price_that_it_declares_and_never_called_exact() -> None:
    assert not isinstance(risk_of(CODE), ExactRisk)  # what would let a target be called out of reach
    profiler = Profiler(
        CODE.to_spec(), target=0.1, epsilons=(0.1, 0.3), budget=1.0, n_max=512, evaluation="rows"
    )
    loss = profiler.declared_loss()
    assert (loss.epsilon, loss.delta) == (1.0, 0.0)
    with pytest.raises(InvalidParameterError, match="not run here"):
        risk_of(CODE).losses(None, [])
