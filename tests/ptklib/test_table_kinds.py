"""Every kind of table is read by the names of its columns, whatever their order and whatever else it has."""

import sqlite3
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, dok_array
from sklearn.base import clone

from ptklib import CountFeaturizer, HistoricalStatistics
from ptklib.exceptions import SchemaError
from ptklib.inputs import InputTable
from ptklib.tables import as_arrow
from tests.support.families import EXAMPLES, Example, label_of, rows
from tests.support.plugins.repeatable import replayed_noise
from tests.support.tables import NAMED, ONE_COLUMN, ArrowStream

every_family = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
every_kind = pytest.mark.parametrize("kind", NAMED)


def outcome(estimator: Any, table: Any, label: Any) -> tuple[dict[str, bytes], Any]:
    """The released files with the exact statistics beside them, and the features; the noise is the same each time."""
    estimator = clone(estimator)
    with replayed_noise("one table"):
        part = estimator.partial_statistics(table, label)
        files = dict(estimator.fit(table, label).to_state().to_files())
        features = estimator.transform(table)
    return files | {f"exact {n}": array.tobytes() for n, array in part.arrays.items()}, features


@pytest.mark.long
@every_family
@settings(max_examples=6)
@given(data=st.data())
def test_all_kinds_of_tables_release_the_same(example: Example, data: st.DataObject) -> None:
    n_rows = data.draw(st.integers(0, 40), "rows")
    plain = rows(n_rows, seed=3).assign(user=np.arange(n_rows) // 3, zone_2="c", other=1.5)
    estimator, label = clone(example.estimator), label_of(example, plain)
    if "unit" in estimator.get_params() and data.draw(st.booleans(), "unit"):
        estimator.set_params(unit="user", max_rows_per_unit=2)
    read = set(estimator.input_columns())
    extra = data.draw(st.sets(st.sampled_from([name for name in plain.columns if name not in read])), "extra")
    names = data.draw(st.permutations([name for name in plain.columns if name in read | extra]), "columns")
    expected, features = outcome(estimator, plain, label)
    for kind in data.draw(
        st.lists(st.sampled_from(sorted(NAMED)), min_size=8, max_size=8, unique=True), "kinds"
    ):
        found, features_found = outcome(estimator, NAMED[kind](plain[names]), label)
        assert found == expected, kind
        np.testing.assert_array_equal(features_found, features, err_msg=kind)


@every_kind
def test_the_column_of_the_privacy_unit_is_found_by_its_name(kind: str) -> None:
    """One user's 2,000 rows count once: read by position, another column was the unit and all of them counted."""
    frame = pd.DataFrame(
        {"speed": np.arange(200.0), "user": np.zeros(200, dtype=np.int64), "hour": np.arange(200) % 4}
    )
    estimator = HistoricalStatistics(
        domains={"hour": range(4)}, bounds={"speed": (0, 60)}, epsilon=1.0, unit="user", max_rows_per_unit=1
    )
    assert estimator.partial_statistics(NAMED[kind](frame)).arrays["count"].sum() == 1


@every_kind
def test_a_missing_column_is_told_with_the_columns_that_there_are(kind: str) -> None:
    frame = rows(5)[["zone", "hour", "fare"]]
    estimator = HistoricalStatistics(domains={"hour": range(4)}, bounds={"speed": (0, 60)}, epsilon=1.0)
    with pytest.raises(SchemaError) as told:
        estimator.fit(NAMED[kind](frame))
    assert str(told.value) == (
        "column 'speed' is missing: needed are 'hour', 'speed', and the table has 'zone', 'hour', 'fare'"
    )


def test_the_columns_that_a_message_names_are_bounded() -> None:
    frame = pd.DataFrame({f"{'long' * 100}{i}": [1] for i in range(500)})
    estimator = HistoricalStatistics(domains={"hour": range(4)}, bounds={"speed": (0, 60)}, epsilon=1.0)
    with pytest.raises(SchemaError, match="and 480 more") as told:
        estimator.fit(frame)
    assert len(str(told.value)) < 2_000


@pytest.mark.parametrize("kind", ONE_COLUMN)
@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1)])
def test_all_kinds_of_labels_are_read_alike(kind: str, classes: tuple[Any, Any]) -> None:
    label = [classes[i % 2] for i in range(7)]
    estimator = CountFeaturizer(["hour"], classes=classes, domains={"hour": range(4)}, epsilon=1.0)
    found = estimator.partial_statistics({"hour": [0] * 7}, ONE_COLUMN[kind](label)).arrays["hour"]
    assert found.reshape(4, 2)[0].tolist() == [4, 3]


class Lazy:
    """Names its columns, and gives an array as well."""

    columns = ("hour", "speed")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.zeros((3, 2))


NOT_READ = {
    "a lazy frame": (lambda f: pl.from_pandas(f).lazy(), "collect it first"),
    "a reader": (lambda f: NAMED["Arrow"](f).to_reader(), "read only once"),
    "a data set": (lambda f: pa.dataset.dataset(NAMED["Arrow"](f)), "to_table"),
    "another frame": (lambda f: Lazy(), "names|Arrow table"),
    "named tuples": (lambda f: list(f.itertuples(index=False)), "rows of a list have names"),
    "records": (lambda f: f.to_dict("records"), "rows of a list have names"),
    "a series": (lambda f: f["hour"], "one column"),
    "a series of polars": (lambda f: pl.Series([1, 2]), "cannot read as a table"),
    "objects of polars": (lambda f: pl.DataFrame({"hour": [object()]}, {"hour": pl.Object}), "type Object"),
    "numbers of 128 bits": (
        lambda f: pl.from_pandas(f[["hour"]]).cast(pl.Int128),
        "cannot read as a table",
    ),
    "a sparse array": (lambda f: csr_array(np.ones((3, 2))), "sparse input is not supported"),
    "a sparse array by places": (lambda f: dok_array((3, 2)), "sparse input is not supported"),
    "columns of two lengths": (lambda f: {"hour": [1, 2], "speed": [1.0]}, "different lengths"),
    "a mapping of numbers": (lambda f: {"hour": 1, "speed": 2.0}, "columns as values"),
    "a mapping of places": (lambda f: {0: [1], 1: [2.0]}, "names of columns as keys"),
    "a structured array of two dimensions": (
        lambda f: np.zeros((2, 2), dtype=[("hour", int), ("speed", float)]),
        "one-dimensional",
    ),
}


@pytest.mark.parametrize("case", NOT_READ)
def test_what_has_names_and_cannot_be_read_is_refused_and_not_read_by_position(case: str) -> None:
    make, message = NOT_READ[case]
    estimator = HistoricalStatistics(domains={"hour": range(4)}, bounds={"speed": (0, 60)}, epsilon=1.0)
    frame = rows(3)[["hour", "speed"]]
    with pytest.raises(SchemaError, match=message):
        estimator.fit(make(frame))


def test_what_is_masked_is_missing() -> None:
    masked = np.ma.array([[0.0, 10.0], [1.0, 50.0]], mask=[[False, False], [False, True]])
    estimator = HistoricalStatistics(["x0"], ["x1"], domains={"x0": range(2)}, bounds=(0, 60), epsilon=1.0)
    plain = np.array([[0.0, 10.0], [1.0, np.nan]])
    found, expected = (estimator.partial_statistics(table).arrays for table in (masked, plain))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


def test_a_matrix_is_read_as_an_array() -> None:
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[0.0, 10.0], [1.0, 50.0]])
    estimator = HistoricalStatistics(["x0"], ["x1"], domains={"x0": range(2)}, bounds=(0, 60), epsilon=1.0)
    found, expected = (estimator.partial_statistics(table).arrays for table in (matrix, np.asarray(matrix)))
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


LENGTHS_OF_TIME = [
    np.timedelta64(3),
    np.timedelta64(3, "h"),
    np.timedelta64("NaT"),
    np.datetime64("2024-01-01"),
]


@every_family
def test_times_among_objects_are_no_numbers(example: Example) -> None:
    plain = rows(12)
    label = label_of(example, plain)

    def statistics(value: Any) -> dict[str, Any]:
        table = plain.astype(object)
        for name in example.estimator.required_columns():
            table.loc[3, name] = value
        return dict(clone(example.estimator).partial_statistics(table, label).arrays)

    expected = statistics(None)
    for value in [*LENGTHS_OF_TIME, pd.Timedelta(3), Decimal("sNaN"), Ellipsis, b"3"]:
        found = statistics(value)
        assert [n for n in expected if not np.array_equal(found[n], expected[n])] == [], repr(value)


def test_decimals_among_objects_are_the_numbers_they_are() -> None:
    frame = pd.DataFrame(
        {"hour": [Decimal(3), Decimal("2.5")], "speed": [Decimal("10.25"), Decimal("1e999999")]}
    )
    estimator = HistoricalStatistics(domains={"hour": range(4)}, bounds={"speed": (0, 60)}, epsilon=1.0)
    found = estimator.partial_statistics(frame).arrays
    expected = estimator.partial_statistics(pd.DataFrame({"hour": [3], "speed": [10.25]})).arrays
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@every_kind
def test_rows_to_store_keep_names_and_values(kind: str) -> None:
    plain = rows(6)
    table = as_arrow(NAMED[kind](plain))
    assert table.column_names == list(plain.columns)
    for name in table.column_names:
        assert [float(v) if name == "hour" else v for v in table.column(name).to_pylist()] == [
            *plain[name].tolist()
        ]


@pytest.mark.parametrize("made", [np.zeros((2, 2)), [[1, 2]]], ids=["array", "list"])
def test_rows_without_names_are_not_stored(made: Any) -> None:
    with pytest.raises(SchemaError, match="no column names"):
        as_arrow(made)


def test_values_of_two_types_are_not_stored_and_not_told() -> None:
    with pytest.raises(SchemaError, match="'zone' has values that are not of one type") as told:
        as_arrow(pd.DataFrame({"zone": ["secret", 3]}))
    assert "secret" not in str(told.value)


def test_an_exported_table_with_rows_that_are_null_as_a_whole_is_refused() -> None:
    with pytest.raises(SchemaError, match="cannot read as a table"):
        as_arrow(ArrowStream(pl.Series([{"hour": 1}, None])))


def test_rows_with_names_in_a_list_are_refused() -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    of_a_database = connection.execute("select 1 as b, 2 as a").fetchall()
    of_pandas = [row for _, row in pd.DataFrame({"b": [1], "a": [2]}).iterrows()]
    for named in (of_a_database, of_pandas):
        with pytest.raises(SchemaError, match="rows of a list have names"):
            InputTable(named, ("a", "b"))
