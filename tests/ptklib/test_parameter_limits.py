"""What `declared_loss` accepts can be fitted: at the limits of every parameter, on any table, also on none."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from ptklib.base import DPEstimator
from ptklib.exceptions import InvalidParameterError
from tests.support.families import EXAMPLES, Example, label_of, rows

every_family = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)

POWERS = (300, 170, 155, 154, 110, 101, 100, 81, 80, 61, 60, 59, 30, 10)
PAIRS = [
    *((0.0, sign * 10.0**power)[::sign] for power in POWERS for sign in (1, -1)),
    *((0.0, 10.0**-power) for power in POWERS),
    *((-(10.0**power), 10.0**power) for power in POWERS),
    *((-(10.0**-power), 10.0**-power) for power in POWERS),
    *((10.0**power, 10.0**power * (1 + 2**-40)) for power in (*POWERS, -60, -100)),
    (1e15, 1e15 + 0.25),
    (-1e15, -1e15 + 1e-1),
    (1.0, 1.0 + 2**-52),
    (0.0, 1e-280),
    (0.0, 5e-324),
    (-1.7e308, 1.7e308),
    (0.0, 1.7e308),
]
NORMS = [*(10.0**power for power in POWERS), *(10.0**-power for power in POWERS), 1.0, 5e-324, 1.7e308]
LIMITS: Mapping[str, list[Any]] = {
    "epsilon": [1e-6, 10.0, np.float64(0.5), np.timedelta64(1)],
    "delta": [0, 2.3e-308, 1e-300, 1e-15, 0.009999, np.timedelta64(0)],
    "bounds": PAIRS,
    "label_bounds": PAIRS,
    "max_norm": NORMS,
    "max_rows_per_unit": [1, 10_000, np.int64(3), np.timedelta64(3), 0],
    "max_rows_per_user": [1, 10_000, np.timedelta64(3), 10**9],
    "n_clusters": [1, 2, 100, np.timedelta64(3)],
    "n_components": [1, 2, 3, 10, np.timedelta64(1)],
    "n_factors": [1, 2, 3, 4, 64, np.timedelta64(1)],
    "rounds": [1, 2, np.timedelta64(1)],
    "batch_rate": [1e-300, 1e-6, 1.0],
    "max_depth": [1, 2, 6, np.timedelta64(2)],
    "n_estimators": [1, 2, 40, np.timedelta64(2)],
    "n_candidates": [1, 2, 64, np.timedelta64(2)],
    "learning_rate": [1e-300, 1e-6, 1.0],
    "shrinkage": [0, 1e-300, 1e300, 1.0],
    "bins": [2, 3, 1024, np.timedelta64(3)],
    "quantiles": [1e-300, 0.5, 1 - 2**-53, [1e-9, 1 - 1e-9]],
    "hash_buckets": [2, 2**10, np.timedelta64(3)],
    "hash_seed": [0, 2**64 - 1, np.timedelta64(3)],
    "max_values": [1, 2**24, np.timedelta64(3)],
    "seed": [0, 2**63, 2**64 - 1, np.timedelta64(3)],
    "guarantee": ["user", "record"],
    "scale": [True, False],
    "statistics": ["sum", "mean", "variance", "std", "histogram", "quantiles", ["count"], ["mean", "std"]],
}


def with_limit(estimator: Any, name: str, value: Any) -> Any:
    """The estimator with one limit; bounds of each column when it has them by column."""
    before = estimator.get_params()[name]
    if name == "bounds" and isinstance(before, Mapping):
        value = dict.fromkeys(before, value)
    return estimator.set_params(**{name: value})


def fits(estimator: Any, example: Example) -> bool:
    """Whether the declaration is accepted; when it is, everything else works."""
    try:
        estimator.declared_loss()
    except InvalidParameterError:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # an overflow that nobody expected
        check(estimator, example)
    return True


def check(estimator: Any, example: Example) -> None:
    """Fit, keep, load, apply and continue: on no rows, some rows and rows beyond all bounds."""
    plain = rows(30)
    extreme = plain.copy()
    extreme.loc[:9, ["speed", "fare"]] = 1.7e308
    extreme.loc[10:19, ["speed", "fare"]] = -1.7e308
    extreme.loc[20:24, ["speed", "fare"]] = 5e-324
    extreme.loc[25, ["speed", "fare"]] = [np.nan, np.inf]
    for table in (plain[:0], plain, extreme):
        label = label_of(example, table)
        fitted = clone(estimator).fit(table, label)
        state = fitted.to_state()
        for released in state.tables.values():
            for column in released.columns:
                if str(column.type) == "double":
                    assert np.isfinite(column.to_numpy()).all()
        state.to_files()
        again = DPEstimator.from_state(state)
        assert np.isfinite(np.asarray(again.transform(extreme), dtype=np.float64)).all()
        clone(estimator).fit(table, label, previous_state=state)


@pytest.mark.long
@every_family
def test_what_is_accepted_at_a_limit_can_be_fitted(example: Example) -> None:
    for name in sorted(set(example.estimator.get_params()) & set(LIMITS)):
        for value in LIMITS[name]:
            fits(with_limit(clone(example.estimator), name, value), example)


@pytest.mark.long
@every_family
@settings(max_examples=12)
@given(data=st.data())
def test_what_is_accepted_at_several_limits_can_be_fitted(example: Example, data: st.DataObject) -> None:
    estimator = clone(example.estimator)
    names = sorted(set(estimator.get_params()) & set(LIMITS))
    for name in data.draw(
        st.lists(st.sampled_from(names), min_size=2, max_size=5, unique=True), "parameters"
    ):
        numbers = [value for value in LIMITS[name] if not isinstance(value, np.timedelta64)]
        with_limit(estimator, name, data.draw(st.sampled_from(numbers), name))
    fits(estimator, example)


REFUSED = {
    "mean-per-hour": ("bounds", [(0, 1.7e308), (0, 1e154), (0, 1e300), (0, 1e-170)]),
    "every-statistic-of-composite-keys": ("bounds", [(0, 1e61), (0, 1e-61)]),
    "covariance-in-a-ball": ("max_norm", [1e61, 1e80, 1e-61]),
    "regression-on-a-column": ("label_bounds", [(0, 1e154), (0, 1e-170)]),
    "clusters-on-a-grid": ("bounds", [(0, 1e154), (0, 1e-170)]),
    "boosted-trees": ("bounds", [(0, 1.7e308)]),
    "factors-of-items": ("batch_rate", [1e-300]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_fitted_is_refused_before_data_are_read(name: str) -> None:
    (example,) = (one for one in EXAMPLES if one.name == name)
    parameter, values = REFUSED[name]
    for value in values:  # type: ignore[attr-defined]
        with pytest.raises(InvalidParameterError, match=r"too wide or too narrow|must be in"):
            with_limit(clone(example.estimator), parameter, value).declared_loss()


@pytest.mark.parametrize(
    "name", ["mean-per-hour", "covariance-in-a-box", "clusters-on-a-grid", "boosted-trees"]
)
def test_the_widest_bounds_of_all_families_are_accepted(name: str) -> None:
    (example,) = (one for one in EXAMPLES if one.name == name)
    for pair in [(-1e60, 1e60), (-1e-60, 1e-60)]:
        assert fits(with_limit(clone(example.estimator), "bounds", pair), example)
