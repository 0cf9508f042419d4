"""Disjoint samples by ranges of hashes, and privacy units as examples."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ptklib.exceptions import InvalidParameterError, SchemaError
from ptklib.profiling import HashedRows, HashRange
from ptklib.profiling.samples import HASHES, Examples


def table(n: int = 200) -> tuple[pd.DataFrame, np.ndarray]:
    random = np.random.default_rng(5)
    return pd.DataFrame({"x": np.arange(n)}), random.integers(0, 2**64, n, dtype=np.uint64)


@pytest.mark.parametrize("kind", ["pandas", "arrow", "numpy"])
def test_parts_of_a_set_are_disjoint_and_hold_every_row(kind: str) -> None:
    frame, hashes = table()
    data = {"pandas": frame, "arrow": pa.Table.from_pandas(frame), "numpy": frame.to_numpy()}[kind]
    rows = HashedRows(data, hashes, population=200)
    parts = HashRange(0, HASHES).split(7)
    assert parts[0].low == 0
    assert parts[-1].high == HASHES
    assert all(a.high == b.low for a, b in pairwise(parts))
    seen, units = list[int](), list[int]()
    for part in parts:
        found, numbers = rows.sample(part)
        values = found["x"].to_numpy() if kind != "numpy" else found[:, 0]
        assert all(part.low <= int(word) < part.high for word in hashes[values])
        assert len(found) == len(numbers)
        seen += values.tolist()
        units += numbers.tolist()
    assert sorted(seen) == list(range(200))
    assert len(set(units)) == 200  # across all samples


def test_a_range_holds_its_lower_and_not_its_upper_end() -> None:
    words = np.array([0, 5, 9, 10, 2**64 - 1], dtype=np.uint64)
    rows = HashedRows(np.arange(5)[:, None], words, population=5)
    assert rows.sample(HashRange(5, 10))[0][:, 0].tolist() == [1, 2]
    assert rows.sample(HashRange(10, HASHES))[0][:, 0].tolist() == [3, 4]
    assert rows.sample(HashRange(3, 3))[0].shape == (0, 1)


def test_a_set_without_rows_has_its_columns() -> None:
    frame, hashes = table()
    assert list(HashedRows(frame, hashes, population=1).empty().columns) == ["x"]
    none = HashedRows(frame[:0], hashes[:0], population=10)
    assert len(none.sample(HashRange(0, HASHES))[0]) == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"hashes": np.arange(200)}, SchemaError),
        ({"hashes": np.zeros(3, dtype=np.uint64)}, SchemaError),
        ({"table": [1, 2]}, SchemaError),
        ({"population": 0}, InvalidParameterError),
        ({"population": float("nan")}, InvalidParameterError),
        ({"windows": np.zeros(3, dtype=np.int64)}, SchemaError),
        ({"windows": np.zeros(200)}, SchemaError),
        ({"within": (5, 5)}, InvalidParameterError),
        ({"within": (0, 2**64 + 1)}, InvalidParameterError),
    ],
)
def test_a_set_refuses_what_it_cannot_read(change: dict, error: type[Exception]) -> None:
    frame, hashes = table()
    with pytest.raises(error):
        HashedRows(**({"table": frame, "hashes": hashes, "population": 10} | change))


def test_neither_text_nor_errors_tell_the_number_of_rows() -> None:
    frame, hashes = table(137)
    assert "137" not in repr(HashedRows(frame, hashes, population=100))
    with pytest.raises(SchemaError) as told:
        HashedRows(frame, hashes[:-1], population=100)
    assert "13" not in str(told.value)


def test_all_rows_of_a_unit_are_one_example_and_dropped_rows_are_none() -> None:
    units = np.array([7, 3, 7, 9, 7])
    kept = np.array([True, True, True, False, True])
    examples = Examples.of(units, kept)
    assert examples.n_units == 2
    assert examples.weights() == pytest.approx([1 / 3, 1, 1 / 3, 0, 1 / 3])
    losses = examples.per_unit(np.array([0.0, 0.4, 0.3, 99.0, 0.6]))
    assert losses == pytest.approx([0.4, 0.3])


def test_a_hash_is_one_unit_without_windows_and_one_for_each_window_with_them() -> None:
    words = np.array([5, 9, 5, 5, 9, 2], dtype=np.uint64)
    rows = np.arange(6)[:, None]
    told, units = HashedRows(rows, words, population=3).sample(HashRange(0, HASHES))
    assert (told[:, 0].tolist(), units.tolist()) == ([5, 0, 2, 3, 1, 4], [0, 1, 1, 1, 2, 2])
    windows = np.array([4, 4, 3, 4, 4, 3])
    told, units = HashedRows(rows, words, population=3, windows=windows).sample(HashRange(0, HASHES))
    assert (told[:, 0].tolist(), units.tolist()) == ([5, 2, 0, 3, 1, 4], [0, 1, 2, 2, 3, 3])
    some, units = HashedRows(rows, words, population=3, windows=windows).sample(HashRange(5, 9))
    assert (some[:, 0].tolist(), units.tolist()) == ([2, 0, 3], [1, 2, 2])


def test_a_loss_that_is_no_number_or_out_of_range_is_clipped_for_its_own_unit() -> None:
    examples = Examples.of(np.arange(4), np.ones(4, dtype=bool))
    losses = examples.per_unit(np.array([np.nan, np.inf, -3.0, 0.25]))
    assert losses.tolist() == [1.0, 1.0, 0.0, 0.25]
