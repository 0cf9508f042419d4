"""Paid estimates of a state's loss: what is summed, what it costs, and that nothing else is told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ptklib import CountFeaturizer, CovarianceMatrix, HistoricalStatistics
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError
from ptklib.mechanisms import additive
from ptklib.profiling import HashedRows, LossEstimate, LossEstimator, risk_of
from ptklib.profiling.estimation import UNITS  # type: ignore[attr-defined]

MEANS = HistoricalStatistics(
    ["hour"], ["speed"], domains={"hour": range(4)}, bounds={"speed": (0.0, 60.0)}, epsilon=5.0
)


def trips(n: int, seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    hour = random.integers(0, 4, n)
    return pd.DataFrame({"hour": hour, "speed": random.normal(10.0 + 10 * hour, 6.0)})


def held_out(table: pd.DataFrame, units: np.ndarray | None = None) -> HashedRows:
    """A test set, by default of one row a unit."""
    hashes = np.arange(len(table)) if units is None else units
    return HashedRows(table, (hashes * 2**40).astype(np.uint64), population=1_000)


@pytest.fixture
def state() -> Any:
    return MEANS.fit(trips(5_000)).to_state()


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """No noise is drawn; what was asked of the mechanism is kept."""
    asked: list[dict[str, Any]] = []

    def without_noise(units: Any, **more: Any) -> Any:
        asked.append(more)
        return np.asarray(units)

    monkeypatch.setattr(additive, "laplace", without_noise)
    return asked


def test_it_sums_the_clipped_loss_of_each_unit(state: Any, exact: list[dict[str, Any]]):
    rows = trips(300, seed=1)
    estimate = LossEstimator(MEANS, 0.5).run(state, held_out(rows))
    losses = np.clip(risk_of(MEANS).losses(state, rows), 0.0, 1.0)
    assert estimate.lost == int(np.rint(losses * UNITS).sum())
    assert estimate.n_units == 300
    assert estimate.loss == pytest.approx(losses.mean(), abs=1e-6)
    assert exact == [{"l1_sensitivity": UNITS, "epsilon": 0.5}]


def test_a_unit_counts_once_however_many_rows_it_has(state: Any, exact: list[dict[str, Any]]):
    rows = trips(300, seed=1)
    by_ten = LossEstimator(MEANS, 0.5).run(state, held_out(rows, np.arange(300) // 10))
    losses = np.clip(risk_of(MEANS).losses(state, rows), 0.0, 1.0).reshape(30, 10).mean(axis=1)
    assert by_ten.n_units == 30
    assert by_ten.loss == pytest.approx(losses.mean(), abs=1e-6)


@pytest.mark.parametrize("speed", [-1e9, 0.0, 30.0, 1e9, math.inf, math.nan])
def test_one_unit_more_moves_the_two_sums_by_one_loss_in_all(
    state: Any, exact: list[dict[str, Any]], speed: float
):
    rows = trips(50, seed=2)
    more = pd.concat([rows, pd.DataFrame({"hour": [1], "speed": [speed]})], ignore_index=True)
    one, other = (LossEstimator(MEANS, 0.5).run(state, held_out(table)) for table in (rows, more))
    assert other.lost >= one.lost
    assert other.kept >= one.kept
    assert (other.lost - one.lost) + (other.kept - one.kept) in (0, UNITS)  # dropped rows are no example


def test_a_users_rows_of_one_window_move_the_two_sums_by_one_loss_whatever_other_windows_hold(
    state: Any, exact: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    class Says:
        """The loss of a row is what it says."""

        def examples(self, table: Any) -> Any:
            return np.ones(len(table))

        def losses(self, state: Any, table: Any) -> Any:
            return table["loss"].to_numpy()

    monkeypatch.setattr("ptklib.profiling.estimation.risk_of", lambda _: Says())
    window = np.array([0] + [1] * 9)  # of one user, who has one good row and then nine bad ones
    rows = pd.DataFrame({"loss": 1.0 * window})
    hashes = np.full(len(rows), 7, dtype=np.uint64)

    def moved(windows: Any) -> int:
        """By how much the sums move when the user's rows of the later window go."""
        sums = []
        for n in (1, 10):
            test_set = HashedRows(rows[:n], hashes[:n], population=1, windows=windows[:n])
            sums.append(LossEstimator(MEANS, 0.5).run(state, test_set))
        return abs(sums[1].lost - sums[0].lost) + abs(sums[1].kept - sums[0].kept)

    assert moved(window) == UNITS
    assert moved(0 * window) > 1.7 * UNITS  # as one unit they would move by more than noise is drawn for


@pytest.mark.parametrize("where", ["losses", "examples", "shape"])
@pytest.mark.parametrize("rows_a_unit", [1, 10])
def test_a_row_that_cannot_be_evaluated_moves_the_two_sums_by_one_loss_and_no_other_units(
    state: Any, exact: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, where: str, rows_a_unit: int
):
    real = risk_of(MEANS)

    class Breaks:
        def examples(self, table: Any) -> Any:
            if where == "examples" and (table["speed"] == -1.0).any():
                raise ValueError("secret")
            return real.examples(table)

        def losses(self, state: Any, table: Any) -> Any:
            poison = (table["speed"] == -1.0).any()
            if where == "losses" and poison:
                raise ValueError("secret")
            return real.losses(state, table)[: -1 if where == "shape" and poison else None]

    monkeypatch.setattr("ptklib.profiling.estimation.risk_of", lambda _: Breaks())
    rows = trips(50, seed=2)
    more = pd.concat([rows, pd.DataFrame({"hour": [1], "speed": [-1.0]})], ignore_index=True)
    units = np.arange(51) // rows_a_unit
    one, other = (
        LossEstimator(MEANS, 0.5).run(state, held_out(table, units[: len(table)])) for table in (rows, more)
    )
    counts = where != "examples"  # of which it cannot be told whether it counts does not
    assert (other.lost - one.lost, other.kept - one.kept) == (UNITS * counts, 0)


def test_a_loss_that_cannot_be_computed_is_the_largest(exact: list[dict[str, Any]]):
    estimate = LossEstimator(MEANS, 0.5).run(object(), held_out(trips(20)))
    assert (estimate.lost, estimate.kept) == (20 * UNITS, 0)


def test_what_it_declares_is_what_it_draws():
    declared = LossEstimator(MEANS.to_spec(), 0.25).declared_loss()
    assert (declared.epsilon, declared.delta) == (0.25, 0.0)
    assert declared.event.to_json() == {
        "name": "DiscreteLaplace",
        "scale": pytest.approx(4 * UNITS),
        "l1_sensitivity": UNITS,
        "shape": [2],
    }


def test_noisy_estimates_are_as_close_as_they_say(state: Any):
    rows = trips(4_000, seed=3)
    true = float(np.clip(risk_of(MEANS).losses(state, rows), 0.0, 1.0).mean())
    for epsilon in (0.05, 0.5):
        estimate = LossEstimator(MEANS, epsilon).run(state, held_out(rows))
        # Laplace noise of both sums beyond 16 of its scales: once in e**16 / 2 draws.
        assert abs(estimate.n_units - 4_000) <= 32 / epsilon
        assert estimate.loss is not None
        assert estimate.standard_error is not None
        assert abs(estimate.loss - true) <= 32 / (epsilon * 4_000)
        assert estimate.standard_error >= math.sqrt(2) / (epsilon * 4_000) * 0.7


def test_the_noise_of_an_estimate_has_the_stated_deviation(state: Any):
    rows = trips(2_000, seed=4)
    true = float(np.clip(risk_of(MEANS).losses(state, rows), 0.0, 1.0).mean())
    n, epsilon = 400, 0.2
    found = [LossEstimator(MEANS, epsilon).run(state, held_out(rows)).loss for _ in range(n)]
    spread = float(np.sqrt(np.mean([(loss - true) ** 2 for loss in found if loss is not None])))
    expected = math.sqrt(2 * ((1 - true) ** 2 + true**2)) / (epsilon * 2_000)
    assert spread == pytest.approx(
        expected, rel=0.5
    )  # 400 squares of Laplace noise stray by 11 % (kurtosis 6)


@pytest.mark.parametrize(
    ("lost", "kept", "loss"),
    [(0, 0, None), (-5, 5, None), (50, -49, None), (100, -20, 1.0), (-20, 100, 0.0), (30, 70, 0.3)],
)
def test_an_estimate_of_noise_alone_says_nothing(lost: int, kept: int, loss: float | None):
    estimate = LossEstimate(0.2, lost * UNITS, kept * UNITS)
    assert estimate.loss == (None if loss is None else pytest.approx(loss))
    assert (estimate.standard_error is None) == (loss is None)
    if loss in (0.0, 1.0):
        assert estimate.standard_error is not None
        assert estimate.standard_error > 0.01


def test_no_row_gives_noise_like_any_other(state: Any):
    estimate = LossEstimator(MEANS, 0.5).run(state, held_out(trips(5)[:0]))
    assert abs(estimate.n_units) <= 64  # beyond 16 scales for each sum: once in e**16
    assert isinstance(estimate.lost, int)


def test_errors_come_before_any_row():
    with pytest.raises(InvalidParameterError, match="no loss of single rows"):
        LossEstimator(
            CovarianceMatrix(bounds={"speed": (0, 60)}, epsilon=1.0, delta=1e-6), 0.1
        ).declared_loss()
    with pytest.raises(InvalidParameterError, match="label is a column"):
        LossEstimator(
            CountFeaturizer(["hour"], classes=[0, 1], domains={"hour": [0]}, epsilon=1), 0.1
        ).declared_loss()
    with pytest.raises(InvalidParameterError, match="estimator or its spec"):
        LossEstimator("HistoricalStatistics", 0.1).declared_loss()
    for epsilon in (0, -1, math.inf, math.nan, True, "1"):
        with pytest.raises(PrivacyParameterError):
            LossEstimator(MEANS, epsilon).declared_loss()
