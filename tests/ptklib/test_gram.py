"""Exact sums of products of clipped, quantised rows."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptklib import gram
from ptklib.exceptions import InvalidParameterError, SchemaError, UnboundedSensitivityError
from ptklib.gram import COLUMNS_MAX, RADIUS, ROWS_MAX, Block, RowTable, block_of, exact_gram

Clipping = tuple[Any, Any]
CLIPPINGS: list[Clipping] = [
    (None, 3.0),
    ((-2.0, 4.0), None),
    ((-2.0, 4.0), 1.5),
    (None, 1e-59),
    (None, 1e59),
]


def names(size: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(size))


def quantised(block: Block, rows: np.ndarray) -> list[list[int]]:
    """Return the grid rows that enter the sums, as Python integers."""
    out = np.empty((len(rows), len(block.names) + 1))
    block.scale(rows, np.empty_like(rows), np.empty(len(rows)), out[:, :-1])
    return [[int(value) for value in row] for row in np.rint(out[:, :-1])]


@pytest.mark.parametrize(("bounds", "norm"), CLIPPINGS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_no_quantised_row_is_longer_than_the_declared_radius(bounds: Any, norm: Any, data: Any) -> None:
    size = data.draw(st.sampled_from([1, 2, 3, 20]))
    entry = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([1e-308, 1e155, -1.7e308, 4.0])
    row = data.draw(st.lists(entry, min_size=size, max_size=size))
    (units,) = quantised(block_of(names(size), bounds, norm), np.array([row]))
    assert sum(unit * unit for unit in units) <= RADIUS * RADIUS


@pytest.mark.parametrize(("bounds", "norm"), [(None, 3.0), ((-2.0, 4.0), 1.5)])
@pytest.mark.parametrize("n_long", [0, 1, 9, 10, 11, 40])
def test_how_a_row_is_clipped_depends_on_that_row_alone(bounds: Any, norm: float, n_long: int) -> None:
    random = np.random.default_rng(n_long)
    block, rows = block_of(names(7), bounds, norm), random.normal(1.0, 0.1, (40, 7))
    rows[:n_long] *= random.uniform(2, 1e3, (n_long, 1))  # the more of them, the more take another way
    rows[-1, 2] = np.nan if n_long == 9 else rows[-1, 2]
    exact = [np.empty((1, 7)) for _ in rows]
    for row, out in zip(rows, exact, strict=True):
        block.scale(row[np.newaxis], np.empty((1, 7)), np.empty(1), out)
    together = np.empty_like(rows)
    block.scale(rows, np.empty_like(rows), np.empty(40), together)
    assert np.array_equal(together, np.concatenate(exact))


@pytest.mark.parametrize("n_short", [0, 400])
def test_rows_within_a_rounding_of_the_bound_have_a_factor_of_their_own(n_short: int) -> None:
    random = np.random.default_rng(0)
    block, rows = block_of(names(7), None, 3.0), random.normal(0.0, 0.1, (60 + n_short, 7))
    edge = rows[:60]
    edge *= (3.0 * (1 + np.arange(-30, 30) * 2.0**-52) / np.linalg.norm(edge, axis=1))[:, np.newaxis]
    out = np.empty_like(rows)
    block.scale(rows, np.empty_like(rows), np.empty(len(rows)), out)
    lengths = np.sqrt(np.vecdot(edge, edge))
    assert 0 < np.count_nonzero(lengths > 3.0) < 60
    factors = (RADIUS - np.sqrt(7) / 2 - 1) / np.maximum(lengths, 3.0)
    assert np.array_equal(out[:60], edge * factors[:, np.newaxis])


@pytest.mark.parametrize(("bounds", "norm"), CLIPPINGS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 20, 511, 2000])
def test_rounding_never_makes_a_full_row_longer_than_the_radius(bounds: Any, norm: Any, size: int) -> None:
    random = np.random.default_rng(size)
    rows = random.choice([-1e4, 1e4, 1.0], (50, size)) * random.random((50, size)) ** 3
    rows[0], rows[1] = 1e4, np.eye(size)[0] * 1e4
    reached = []
    for units in quantised(block_of(names(size), bounds, norm), rows):
        reached.append(sum(unit * unit for unit in units))
        assert reached[-1] <= RADIUS * RADIUS
    if norm != 1e59:
        assert max(reached) > 0.98 * RADIUS * RADIUS  # noise for a radius no row reaches would be wasted


@pytest.mark.parametrize(("bounds", "norm"), CLIPPINGS[:3])
@pytest.mark.parametrize("size", [1, 3, 90])
def test_sums_are_those_of_integers_however_rows_are_chunked(
    bounds: Any, norm: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.random.default_rng(0).normal(size=(300, size)) * 3
    rows[7, 0] = np.nan
    block = block_of(names(size), bounds, norm)
    units = np.array(quantised(block, rows), dtype=object)
    for exact_rows, chunk, product in ((gram._EXACT_ROWS, 8192, 2048), (40, 30, 7), (40, 7, 7), (1, 1, 1)):
        monkeypatch.setattr(gram, "_EXACT_ROWS", exact_rows)
        monkeypatch.setattr(gram, "_CHUNK_ROWS", chunk)
        monkeypatch.setattr(gram, "_rows_per_product", lambda width, product=product: product)
        count, sums, products = exact_gram(RowTable(rows, block.names), [block])
        assert count == 299
        assert sums.tolist() == units.sum(axis=0).tolist()
        assert products.tolist() == (units.T @ units).tolist()


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("share_long", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("size", [1, 2, 20, 60])
def test_the_sums_are_those_of_the_rule_applied_to_one_row_at_a_time(
    size: int, share_long: float, layout: Any
) -> None:
    random = np.random.default_rng(size)
    rows = random.normal(size=(9000, size))
    norm = float(np.quantile(np.linalg.norm(rows, axis=1), 1 - share_long)) * (1 + 1e-9)
    rows[5, 0], rows[6, -1], rows[7, 0], rows[8] = np.nan, np.inf, -np.inf, 0.0
    rows[11], rows[12] = 1e-320, rows[13] * 2.0**700
    rows = np.asarray(rows, order=layout)
    count, sums, products = 0, np.zeros(size, dtype=np.int64), np.zeros((size, size), dtype=np.int64)
    for row in rows:
        if np.isfinite(row).all():
            with np.errstate(over="ignore"):
                length = max(np.sqrt(row @ row), norm)
            if np.isinf(length):
                row = row / np.abs(row).max()
                length = np.linalg.norm(row)
            units = np.rint(row * ((RADIUS - np.sqrt(size) / 2 - 1) / length)).astype(np.int64)
            count, sums, products = count + 1, sums + units, products + np.outer(units, units)
    found = exact_gram(RowTable(rows, names(size)), [block_of(names(size), None, norm)])
    assert (found[0], found[1].tolist(), found[2].tolist()) == (count, sums.tolist(), products.tolist())


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="BLAS has threads on several cores only")
@pytest.mark.parametrize("size", [1, 2, 20, 50])
def test_few_columns_are_multiplied_without_threads_that_would_wait_for_busy_cores(size: int) -> None:
    script = f"""
import time
import numpy as np
from ptklib.gram import RowTable, block_of, exact_gram
names = tuple(f"x{{i}}" for i in range({size}))
rows = np.random.default_rng(0).normal(size=(1_000_000 // {size}, {size}))
table, block = RowTable(rows, names), block_of(names, None, 1.0)
whole, own = time.process_time(), time.thread_time()
exact_gram(table, [block])
own = time.thread_time() - own
print((time.process_time() - whole - own) / own)
"""
    two = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    shares = [
        float(subprocess.run([sys.executable, "-c", script], env=two, capture_output=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(shares) < 0.2  # CPU time of other threads


def test_products_stay_exact_where_a_float_sum_would_round() -> None:
    assert gram._EXACT_ROWS * RADIUS**2 <= 2**53
    assert ROWS_MAX * RADIUS**2 <= 2**61
    row = np.full((gram._EXACT_ROWS + 5000, 1), 1.0)
    row[0] = 0.5
    block = block_of(("x",), (-1.0, 1.0), None)
    _, _, products = exact_gram(RowTable(row, ("x",)), [block])
    assert int(products[0, 0]) == (len(row) - 1) * RADIUS**2 + (RADIUS // 2) ** 2


def test_one_row_moves_the_weighted_triangle_by_its_squared_norm() -> None:
    """The identity behind the smaller noise beside the diagonal."""
    block = block_of(names(5), None, 1.0)
    rows = np.random.default_rng(3).normal(size=(2, 5))
    _, _, both = exact_gram(RowTable(rows, block.names), [block])
    _, _, one = exact_gram(RowTable(rows[:1], block.names), [block])
    moved = both - one
    upper = np.triu_indices(5, 1)
    square = sum(int(v) ** 2 for v in np.diagonal(moved)) + 2 * sum(int(v) ** 2 for v in moved[upper])
    (units,) = quantised(block, rows[1:])
    assert square == sum(unit * unit for unit in units) ** 2
    assert square <= RADIUS**4


def test_a_row_with_a_value_that_is_not_finite_is_dropped_from_all_blocks() -> None:
    blocks = [block_of(("a", "b"), None, 2.0), block_of(("c",), (0.0, 2.0), None)]
    rows = np.array([[1.0, 1.0, 2.0], [np.nan, 1.0, 2.0], [1.0, np.inf, 2.0], [1.0, 1.0, np.nan]])
    count, sums, products = exact_gram(RowTable(rows, ("a", "b", "c")), blocks)
    alone = exact_gram(RowTable(rows[:1], ("a", "b", "c")), blocks)
    assert count == alone[0] == 1
    assert sums.tolist() == alone[1].tolist()
    assert products.tolist() == alone[2].tolist()


def test_huge_finite_rows_keep_their_direction() -> None:
    block = block_of(("a", "b"), None, 1.0)
    huge = exact_gram(RowTable(np.array([[3e200, 4e200]]), block.names), [block])
    plain = exact_gram(RowTable(np.array([[3.0, 4.0]]), block.names), [block])
    assert huge[0] == 1
    assert huge[1].tolist() == plain[1].tolist()
    assert plain[1] * block.step == pytest.approx([0.6, 0.8], rel=1e-3)


def test_columns_are_found_by_name_in_any_order_and_container() -> None:
    rows = np.random.default_rng(5).normal(size=(50, 3))
    block = block_of(("c", "a"), None, 2.0)
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    expected = exact_gram(RowTable(rows[:, [2, 0]], ("c", "a")), [block])[2].tolist()
    for data in (frame, frame.astype(object), frame.astype({"a": "Float64"})):
        assert exact_gram(RowTable(data, ("c", "a")), [block])[2].tolist() == expected
    integers = np.arange(12).reshape(4, 3)
    block = block_of(("x2", "x0"), None, 20.0)
    _, sums, _ = exact_gram(RowTable(integers, ("x2", "x0")), [block])
    assert sums * block.step == pytest.approx([26.0, 18.0], rel=1e-3)


def test_a_label_of_another_length_is_refused() -> None:
    blocks = [block_of(("x0",), None, 1.0), block_of(("y",), (0, 1), None)]
    with pytest.raises(SchemaError):
        exact_gram(RowTable(np.ones((3, 1)), ("x0",)), blocks, np.ones(2))


def test_missing_or_unusable_bounds_are_refused() -> None:
    with pytest.raises(UnboundedSensitivityError):
        block_of(("x",), None, None)
    with pytest.raises(UnboundedSensitivityError):
        block_of(("x", "y"), {"x": (0, 1)}, None)
    for norm in (0, -1.0, float("inf"), float("nan"), "1", True, 1.01e60, 0.99e-60):
        with pytest.raises(InvalidParameterError, match="max_norm"):
            block_of(("x",), None, norm)
    for size in (0, COLUMNS_MAX + 1):
        with pytest.raises(InvalidParameterError, match="columns"):
            block_of(names(size), (0, 1), None)
