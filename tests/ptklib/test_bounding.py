"""At most so many rows of a privacy unit count, and noise covers that many."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats
from sklearn.base import clone

from ptklib import (
    Clustering,
    CovarianceMatrix,
    DPEstimator,
    DPSGDClassifier,
    DPSGDRegressor,
    HistoricalStatistics,
)
from ptklib.bounding import bounded_rows
from ptklib.exceptions import InvalidParameterError, PrivacyParameterError, SchemaError
from ptklib.partials import PartialStatistics
from tests.support.families import EXAMPLES, Example, label_of, rows

# UserEmbeddings has a unit of its own, the user, and `max_rows_per_user`.
BOUNDED = [e for e in EXAMPLES if "max_rows_per_unit" in e.estimator.get_params()]
BY_NAME = pytest.mark.parametrize("example", BOUNDED, ids=lambda e: e.name)

UNITS = [
    np.array([3, 1, 3, 3, 1, 2]),
    np.array([3.5, np.nan, 3.5, 3.5, np.nan, 2]),
    np.array(["c", "a", "c", "c", "a", "b"]),
    np.array(["c", None, "c", "c", [1], {}], dtype=object),
    np.array(["2020-01-03", "NaT", "2020-01-03", "2020-01-03", "NaT", "2020-01-02"], dtype="datetime64[D]"),
    pa.array(["c", None, "c", "c", None, "b"]),
    pa.chunked_array([["c", "a"], ["c", "c"], ["a", "b"]]).dictionary_encode(),
    pa.array([2**53 + 1, None, 2**53 + 1, 2**53 + 1, None, 2**53]),
    pa.array([3.5, float("nan"), 3.5, 3.5, None, 2.0]),
]


@pytest.mark.parametrize("units", UNITS, ids=str)
@pytest.mark.parametrize("most", [1, 2, 9])
def test_of_each_unit_at_most_so_many_rows_stay(units: Any, most: int) -> None:
    kept = bounded_rows(units, most)
    assert np.array_equal(kept, np.unique(kept))
    assert len(set(kept) & {0, 2, 3}) == min(most, 3)
    others = {1, 4} & set(kept)
    second = units[1] if isinstance(units, np.ndarray) else units[1].as_py()
    assert len(others) == (min(most, 2) if second in (1, "a") else 0)


@pytest.mark.parametrize(
    "odd", [None, 5, float("nan"), "\ud800", Decimal("sNaN"), np.float32("nan"), [1], pd.NA]
)
def test_one_odd_unit_changes_nothing_about_the_others(odd: object) -> None:
    units = [f"x\0{i}" for i in range(50)] + ["\ud801", "'\\ud801'"]
    for column in (np.array(units, dtype=object), np.array([*units, odd], dtype=object)[:53]):
        kept = bounded_rows(column, 1)
        assert set(range(52)) <= set(kept.tolist())


def test_the_two_zeros_are_one_unit() -> None:
    for units in (np.array([0.0, -0.0, 1.0]), pa.array([0.0, -0.0, 1.0])):
        assert len(bounded_rows(units, 1)) == 2


def test_a_loss_per_unit_is_no_loss_per_record() -> None:
    model = HistoricalStatistics(
        domains={"hour": [0, 1]}, statistics="count", epsilon=1.0, max_rows_per_unit=2
    )
    assert model.privacy_unit() == "record"
    assert clone(model).set_params(unit="who").privacy_unit() == "user"


def test_noise_that_cannot_be_drawn_is_refused_before_data() -> None:
    huge = {"max_rows_per_unit": 10_000, "epsilon": 1e-6, "delta": 1e-9}
    wide = Clustering([f"x{i}" for i in range(5)], 8, bounds=(0, 1), **huge)
    with pytest.raises(PrivacyParameterError, match="scale"):
        wide.declared_loss()


def test_no_row_at_all_keeps_none() -> None:
    assert len(bounded_rows(np.array([], dtype=object), 1)) == 0
    assert len(bounded_rows(pa.array([], type=pa.string()), 1)) == 0


def test_the_choice_is_uniform_and_new_each_time() -> None:
    units = np.repeat(np.arange(20_000), 5)
    first, second = bounded_rows(units, 2), bounded_rows(units, 2)
    assert not np.array_equal(first, second)
    pairs = first.reshape(-1, 2) % 5
    chosen = np.bincount(pairs[:, 0] * 5 + pairs[:, 1], minlength=25).reshape(5, 5)[np.triu_indices(5, 1)]
    assert chosen.sum() == 20_000
    assert stats.chisquare(chosen).pvalue > 1e-6


@BY_NAME
def test_noise_and_events_cover_all_rows_of_a_unit(example: Example) -> None:
    one, many = clone(example.estimator), clone(example.estimator).set_params(max_rows_per_unit=7)
    assert many.declared_loss().epsilon == one.declared_loss().epsilon
    pairs = list(zip(_events(one), _events(many), strict=True))
    for before, after in pairs:
        for name in ("l1_sensitivity", "l2_sensitivity"):
            if name in before:
                assert after[name] == 7 * before[name]
                assert after["scale"] == pytest.approx(7 * before["scale"], rel=0.02)
    assert pairs


def _events(estimator: DPEstimator) -> list[Any]:
    event = estimator.declared_loss().event.to_json()
    return list(event.get("events", [event]))


@BY_NAME
def test_rows_beyond_the_bound_leave_nothing_behind(example: Example) -> None:
    data = rows(60).assign(who=np.arange(60) // 3)
    estimator = clone(example.estimator).set_params(unit="who", max_rows_per_unit=3)
    label = label_of(example, data)
    whole = estimator.partial_statistics(data, label)
    assert estimator.input_columns() == (*estimator.required_columns(), "who")
    single = clone(estimator).set_params(max_rows_per_unit=1)
    one_each = single.partial_statistics(data.assign(who=np.arange(60)), label)
    assert _but_beginnings(estimator, one_each) == _but_beginnings(estimator, whole)
    nobody = single.partial_statistics(data.assign(who=None), label)
    empty = single.merge([])
    assert {n: a.tolist() for n, a in nobody.arrays.items()} == {
        n: a.tolist() for n, a in empty.arrays.items()
    }


def _but_beginnings(estimator: DPEstimator, partial: PartialStatistics) -> dict[str, Any]:
    """Statistics without what gradient descent says of each row: whether its unit begins there."""
    arrays = {name: array.tolist() for name, array in partial.arrays.items()}
    if isinstance(estimator, DPSGDClassifier | DPSGDRegressor):
        width = partial.arrays["rows"].size // 60
        arrays["rows"] = partial.arrays["rows"].reshape(-1, width)[:, :-1].tolist()
    return arrays


def test_moments_of_an_array_find_the_unit_by_its_place() -> None:
    rows = np.column_stack([np.linspace(-1, 1, 40), np.linspace(1, -1, 40), np.arange(40) // 4])
    model = CovarianceMatrix(["a", "b"], bounds=(-1, 1), epsilon=1.0, delta=1e-6, unit="who")
    assert model.partial_statistics(rows).arrays["count"].tolist() == [10]


@pytest.mark.parametrize("form", ["pandas", "arrow", "numpy"])
def test_fit_counts_one_row_per_person(form: str) -> None:
    frame = pd.DataFrame({"hour": [0] * 50 + [1] * 50, "who": [f"p{i % 10}" for i in range(50)] * 2})
    data: Any = {"pandas": frame, "arrow": pa.table(frame), "numpy": frame.to_numpy()}[form]
    model = HistoricalStatistics(
        domains={"hour": [0, 1]}, statistics="count", epsilon=10.0, unit="who", max_rows_per_unit=1
    )
    counts = [
        sum(model.partial_statistics(data).arrays["count"].tolist()),
        float(sum(model.fit(data).tables_["statistics"]["count"].to_numpy())),
    ]
    assert counts[0] == 10
    assert counts[1] == pytest.approx(10, abs=6)  # a false alarm in e**-60
    assert model.privacy_spent_.event.to_json()["l1_sensitivity"] == 1


def test_bounding_parameters_are_checked_before_data() -> None:
    model = HistoricalStatistics(domains={"hour": [0, 1]}, statistics="count", epsilon=1.0)
    for wrong in (0, -1, True, 1.5, "2", None, 10_001):
        with pytest.raises(InvalidParameterError, match="max_rows_per_unit"):
            clone(model).set_params(max_rows_per_unit=wrong).declared_loss()
    with pytest.raises(InvalidParameterError, match="unit"):
        clone(model).set_params(unit=5).declared_loss()
    with pytest.raises(SchemaError, match="'who' is missing"):
        clone(model).set_params(unit="who").fit(pd.DataFrame({"hour": [0]}))
