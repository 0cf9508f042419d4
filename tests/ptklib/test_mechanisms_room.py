"""Grids and noise at their edges."""

import copy
import multiprocessing
import os
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptklib.accounting import pure_epsilon
from ptklib.exceptions import PrivacyParameterError
from ptklib.mechanisms import (
    AboveThreshold,
    Grid,
    additive,
    exponential_mechanism,
    gaussian,
    laplace,
    laplace_scale,
    report_noisy_max,
    selection,
    threshold,
)
from ptklib.mechanisms.grid import ROWS_MAX, UNITS_MAX, count_by, sum_by
from ptklib.privacy import Bounds

pytestmark = pytest.mark.fresh_noise  # the room itself: OpenDP draws too

ZEROS = np.zeros(64, dtype=np.int64)
LONG = np.zeros(additive.VECTOR_MIN + 1, dtype=np.int64)


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12), st.floats(allow_nan=True, allow_infinity=True))
def test_no_value_weighs_more_than_half_the_width(low: float, width: float, value: float) -> None:
    if low + width <= low:
        return
    grid = Grid.for_bounds(Bounds(low, low + width))
    assert abs(int(grid.quantise(np.array([value]))[0])) <= grid.width


def test_the_grid_reaches_its_bounds_and_restores_what_it_rounds() -> None:
    grid = Grid.for_bounds(Bounds(-3.0, 7.0))
    values = np.array([-3.0, 2.0, 7.0, 1.2345])
    units = grid.quantise(values)
    assert units[:3].tolist() == [-UNITS_MAX, 0, UNITS_MAX]
    assert grid.centre + grid.restore(units) == pytest.approx(values, abs=10 / UNITS_MAX)


def test_nan_becomes_the_centre_and_infinities_the_bounds() -> None:
    grid = Grid.for_bounds(Bounds(0.0, 1.0))
    assert grid.quantise(np.array([np.nan, np.inf, -np.inf])).tolist() == [0, UNITS_MAX, -UNITS_MAX]


def test_sums_of_all_rows_and_their_noise_stay_below_the_largest_integer() -> None:
    assert ROWS_MAX * UNITS_MAX <= 2**61


def test_a_row_moves_an_integer_sum_by_itself_whatever_the_other_rows_are() -> None:
    grid = Grid.for_bounds(Bounds(0.0, 1e6))
    others = grid.quantise(np.random.default_rng(1).uniform(0, 1e6, 100_000))
    row = grid.quantise(np.array([0.1]))
    codes = np.zeros(len(others) + 1, dtype=np.int64)
    with_row = sum_by(codes, np.concatenate([others, row]), 1)
    assert int(with_row[0] - sum_by(codes[1:], others, 1)[0]) == int(row[0])


def test_sums_are_exact_beyond_the_precision_of_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptklib.mechanisms.grid._CHUNK", 3)
    codes = np.array([0, 2, 2, 0, 1, 2, 2], dtype=np.int64)
    units = np.array([5, -1, 7, 2, 9, 4, -3], dtype=np.int64)
    assert sum_by(codes, units, 4).tolist() == [7, 9, 7, 0]
    assert count_by(codes, 4).tolist() == [2, 1, 4, 0]


@given(st.integers(1, 2**22), st.floats(1e-6, 10.0))
@settings(max_examples=300)
def test_a_laplace_scale_never_costs_more_than_promised(sensitivity: int, epsilon: float) -> None:
    scale = laplace_scale(l1_sensitivity=sensitivity, epsilon=epsilon)
    assert Fraction(sensitivity) / Fraction(scale) <= Fraction(epsilon)
    assert scale == pytest.approx(sensitivity / epsilon)


def test_opendp_agrees_with_the_declared_losses() -> None:
    for sensitivity, epsilon in ((1, 0.1), (3, 1.0), (2**21, 0.3), (7, 10.0)):
        scale = laplace_scale(l1_sensitivity=sensitivity, epsilon=epsilon)
        assert additive._laplace_measurement(scale).map(sensitivity) == pytest.approx(epsilon, rel=1e-12)
    assert additive._gaussian_measurement(4.0).map(2.0) == pytest.approx((2 / 4.0) ** 2 / 2, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf"), True, 1e-300, 1e300, "1"])
def test_scales_that_would_return_the_input_or_overflow_are_refused(epsilon: Any) -> None:
    with pytest.raises(PrivacyParameterError):
        laplace(ZEROS, l1_sensitivity=1, epsilon=epsilon)


@pytest.mark.parametrize("scale", [0.0, 1e-9, -1.0, float("nan"), float("inf"), 2.0**56, True])
def test_gaussian_scales_outside_the_safe_range_are_refused(scale: float) -> None:
    with pytest.raises(PrivacyParameterError):
        gaussian(ZEROS, scale=scale)


@pytest.mark.parametrize("sensitivity", [0, -1, 1.5, True, None])
def test_a_sensitivity_is_a_positive_integer(sensitivity: Any) -> None:
    with pytest.raises(PrivacyParameterError):
        laplace(ZEROS, l1_sensitivity=sensitivity, epsilon=1.0)


def test_noise_refuses_floats() -> None:
    with pytest.raises(TypeError):
        laplace(np.zeros(3), l1_sensitivity=1, epsilon=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [additive.VECTOR_MIN, additive.VECTOR_MIN + 1, 2**16 + 1])
def test_every_cell_of_a_long_vector_gets_its_own_noise(size: int) -> None:
    noisy = laplace(np.arange(size, dtype=np.int64), l1_sensitivity=10**9, epsilon=1.0)
    noise = noisy - np.arange(size)
    assert len(np.unique(noise)) > size - 5
    assert noisy.shape == (size,)
    assert noisy.dtype == np.int64


@pytest.mark.fresh_noise  # with noise that is replayed our sampler draws everything
@pytest.mark.parametrize(("size", "scale", "asked"), [(1, 3.0, True), (1, 128.0, False), (17, 3.0, False)])
def test_opendp_is_asked_for_few_values_of_a_small_scale_alone(
    monkeypatch: pytest.MonkeyPatch, size: int, scale: float, asked: bool
) -> None:
    scales: list[float] = []
    real = additive._gaussian_measurement
    monkeypatch.setattr(additive, "_gaussian_measurement", lambda s: scales.append(s) or real(s))
    gaussian(np.zeros(size, dtype=np.int64), scale=scale)
    assert scales == ([scale] if asked else [])


def test_shapes_survive_and_empty_vectors_stay_empty() -> None:
    for shape in ((3, 4), (2, additive.VECTOR_MIN)):
        assert laplace(np.zeros(shape, dtype=np.int64), l1_sensitivity=1, epsilon=1.0).shape == shape
        assert gaussian(np.zeros(shape, dtype=np.int64), scale=3.0).shape == shape
    assert gaussian(np.zeros(0, dtype=np.int64), scale=3.0).shape == (0,)


def test_sums_beyond_the_guard_saturate_instead_of_wrapping() -> None:
    edge = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min], dtype=np.int64)
    for vector in (edge, np.tile(edge, additive.VECTOR_MIN)):
        noisy = laplace(vector, l1_sensitivity=1, epsilon=1.0)
        assert np.all(np.abs(noisy[::2] - 2**62) < 10**4)
        assert np.all(np.abs(noisy[1::2] + 2**62) < 10**4)


def _noise_into(pipe: Any) -> None:
    pipe.send(laplace(ZEROS, l1_sensitivity=10**6, epsilon=1.0).tolist())
    pipe.send(gaussian(ZEROS, scale=1e6).tolist())
    pipe.send(laplace(LONG, l1_sensitivity=10**6, epsilon=1.0)[:64].tolist())
    pipe.send(gaussian(LONG, scale=1e6)[:64].tolist())


def test_forked_processes_draw_different_noise() -> None:
    """F11: a generator kept in memory would repeat in every child."""
    for vector in (ZEROS, LONG):
        _ = laplace(vector, l1_sensitivity=1, epsilon=1.0), gaussian(vector, scale=2.0)  # warm in the parent
    fork = multiprocessing.get_context("fork")
    draws = []
    for _ in range(4):
        ours, theirs = fork.Pipe(duplex=False)
        child = fork.Process(target=_noise_into, args=(theirs,))
        child.start()
        draws += [tuple(ours.recv()) for _ in range(4)]
        child.join()
        assert child.exitcode == 0
    assert len(set(draws)) == len(draws)
    assert os.getpid() != child.pid


SCORES = np.array([4, 9, 2], dtype=np.int64)


@pytest.mark.parametrize("select", [report_noisy_max, exponential_mechanism])
def test_a_selection_with_little_noise_finds_the_highest_score(select: Any) -> None:
    assert {select(1000 * SCORES, sensitivity=1, epsilon=10.0) for _ in range(20)} == {1}
    assert select(SCORES[:1], sensitivity=1, epsilon=0.1) == 0
    assert isinstance(select(SCORES, sensitivity=1, epsilon=Fraction(1, 3)), int)


@pytest.mark.parametrize("select", [report_noisy_max, exponential_mechanism])
def test_selections_refuse_what_is_no_vector_of_scores(select: Any) -> None:
    for scores in (SCORES.astype(np.float64), SCORES.reshape(1, 3), np.int64(3)):
        with pytest.raises(TypeError):
            select(scores, sensitivity=1, epsilon=1.0)
    with pytest.raises(PrivacyParameterError):
        select(SCORES[:0], sensitivity=1, epsilon=1.0)
    for sensitivity, epsilon in ((0, 1.0), (1.0, 1.0), (1, 0.0), (1, float("nan")), (1, True)):
        with pytest.raises(PrivacyParameterError):
            select(SCORES, sensitivity=sensitivity, epsilon=epsilon)


def test_the_event_of_a_selection_has_the_scale_that_opendp_is_asked_for() -> None:
    for name, monotonic, scale in (("PermuteAndFlip", False, 12.0), ("ExponentialMechanism", True, 6.0)):
        event = selection.selection_event(
            name, n_candidates=7, sensitivity=3, epsilon=0.5, monotonic=monotonic
        )
        assert event.to_json() == {
            "name": name,
            "scale": scale,
            "sensitivity": 3,
            "monotonic": monotonic,
            "shape": [7],
        }
        assert pure_epsilon(event) == pytest.approx(0.5)
    with pytest.raises(PrivacyParameterError):
        selection.selection_event("ReportNoisyMax", n_candidates=7, sensitivity=3, epsilon=0.5)


def test_opendp_agrees_with_the_declared_losses_of_selections() -> None:
    for monotonic in (False, True):
        events = [
            selection.selection_event(name, n_candidates=2, sensitivity=3, epsilon=0.5, monotonic=monotonic)
            for name in ("PermuteAndFlip", "ExponentialMechanism")
        ]
        dp = additive.opendp()
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64", monotonic=monotonic)
        pure = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=events[0].scale)
        assert pure.map(3) == pytest.approx(pure_epsilon(events[0]), rel=1e-9)
        zero = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=events[1].scale)
        assert zero.map(3) == pytest.approx(pure_epsilon(events[1]) ** 2 / 8, rel=1e-9)


class Filter:
    """A block that pays until its capacity is used up."""

    def __init__(self, capacity: float) -> None:
        self.left, self.paid = capacity, []

    def __call__(self, loss: Any) -> None:
        if loss.epsilon > self.left:
            raise PermissionError("retired")
        self.left -= loss.epsilon
        self.paid.append(loss)


def test_a_threshold_is_paid_before_it_is_drawn_and_kept_until_it_is_exceeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B1: "below" is free only while the noisy threshold stays the same."""
    order: list[Any] = []
    draw = threshold.laplace  # type: ignore[attr-defined]

    def recorded(units: Any, *, l1_sensitivity: int, epsilon: Fraction) -> Any:
        order.append((int(units[0]), l1_sensitivity, epsilon))
        return draw(units, l1_sensitivity=l1_sensitivity, epsilon=epsilon)

    monkeypatch.setattr(threshold, "laplace", recorded)
    test = AboveThreshold(threshold=50, sensitivity=2, epsilon=10.0, pay=lambda loss: order.append("paid"))
    assert order == []
    answers = [test.is_above(value) for value in (-(10**6), -(10**6), 10**6, -(10**6))]
    assert answers == [False, False, True, False]
    assert [step if step == "paid" else step[:2] for step in order] == [
        "paid", (50, 2), (-10**6, 4), (-10**6, 4), (10**6, 4), "paid", (50, 2), (-10**6, 4),
    ]  # fmt: skip
    assert order[1][2] + order[2][2] == 10


def test_a_refused_payment_leaves_nothing_drawn_or_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """B4, B5: the filter is asked before any private comparison."""
    block = Filter(1.0)
    test = AboveThreshold(threshold=0, sensitivity=1, epsilon=0.5, pay=block)
    assert [test.is_above(10**6) for _ in range(2)] == [True, True]
    monkeypatch.setattr(threshold, "laplace", lambda *a, **k: pytest.fail("nothing may be drawn"))
    for _ in range(2):
        with pytest.raises(PermissionError):
            test.is_above(10**6)
    assert block.paid == [test.loss, test.loss]
    assert test.loss.epsilon == 0.5
    assert pure_epsilon(test.loss.event) == pytest.approx(0.5)


def test_a_retired_threshold_compares_nothing_even_when_it_was_paid() -> None:
    test = AboveThreshold(threshold=0, sensitivity=1, epsilon=0.5, pay=Filter(0.5))
    assert test.is_above(-(10**6)) is False
    test.retire()
    with pytest.raises(PrivacyParameterError):
        test.is_above(-(10**6))


def test_a_noisy_threshold_is_neither_copied_nor_shown() -> None:
    test = AboveThreshold(threshold=7, sensitivity=1, epsilon=0.5, pay=Filter(0.5))
    test.is_above(-(10**6))
    for leak in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            leak(test)
    assert repr(test) == "AboveThreshold(threshold=7, epsilon=0.5)"
    with pytest.raises(TypeError):
        vars(test)


@pytest.mark.parametrize(
    "wrong",
    [{"threshold": 0.5}, {"threshold": True}, {"sensitivity": 0}, {"epsilon": 0.0}, {"epsilon": "1"}],
)
def test_unusable_thresholds_are_refused_before_anything_is_paid(wrong: dict[str, Any]) -> None:
    block = Filter(9.0)
    with pytest.raises(PrivacyParameterError):
        AboveThreshold(**({"threshold": 0, "sensitivity": 1, "epsilon": 0.5, "pay": block} | wrong))
    with pytest.raises(PrivacyParameterError):
        AboveThreshold(threshold=0, sensitivity=1, epsilon=0.5, pay=block).is_above(0.5)  # type: ignore[arg-type]
    assert block.paid == []


def test_values_beyond_the_guard_saturate() -> None:
    test = AboveThreshold(threshold=2**70, sensitivity=1, epsilon=10.0, pay=Filter(100.0))
    assert [test.is_above(value) for value in (-(2**80), 2**61, np.int64(5))] == [False] * 3
