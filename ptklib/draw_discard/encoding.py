"""Rows as whole numbers: which weights a row uses, how much of each, and its label."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Floats, Ints
from ptklib.draw_discard.columns import OUTSIDE, Coded, Column, Numeric, columns_by_name, readable, taken
from ptklib.draw_discard.specification import Specification
from ptklib.exceptions import InvalidParameterError

Whole = npt.NDArray[np.int64] | npt.NDArray[np.int32] | npt.NDArray[np.uint16]

ONE = 2**15
"""Units in a feature of 1."""

FINE = 2**20
"""Units in a label, or a prediction, of 1."""

ROWS_MAX = 2**13
"""Rows of one report: sums of their gradients stay exact in float64."""


_BLOCK = 2**9
"""Rows that are encoded at once."""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows as a model sees them.

    Parameters
    ----------
    places : ndarray of shape (n_rows, n_columns), int32
        Number of a weight, from 0 to ``n_inputs - 1``, for the intercept, each feature and each cross.
    values : ndarray of shape (n_rows, n_columns), uint16
        The factor of the weight, from 0 to `ONE`.
    labels : ndarray of shape (n_rows,), int64
        From 0 to `FINE`; of a softmax model, the number of the class.
    """

    places: Whole
    values: Whole
    labels: Ints

    def some(self, part: slice) -> "EncodedRows":
        """Return some of the rows, as 64-bit integers."""
        places, values = self.places[part].astype(np.int64), self.values[part].astype(np.int64)
        return EncodedRows(places, values, self.labels[part])


def encode_rows(specification: Specification, rows: Any) -> EncodedRows:
    """Return the first `ROWS_MAX` rows that have a label as whole numbers.

    Parameters
    ----------
    specification : Specification
    rows : mapping of columns, or table
        Lists and arrays by name, or a table with column names. Other columns are not read.

    Returns
    -------
    EncodedRows
        A number beyond its bounds, or infinite, becomes the bound. A number that is missing, NaN or beyond
        float64, and anything that is no number, becomes 0 (that is the lower bound). A value that was not
        declared, or is missing, uses no weight, nor do its crosses. A row is dropped if its label is missing,
        NaN, no number or no declared class. Booleans count as the numbers 0 and 1, but as a category only
        among booleans. An entry that cannot be read is missing, and so are all of a column of dates, times or
        another type.

    Raises
    ------
    SchemaError
        When the table has no column names, its columns have different lengths or types that are not read;
        MissingColumnError when a column is missing. All this is public. No entry raises or warns, and messages hold
        none.

    Notes
    -----
    The encoding of a row depends on that row alone, through comparisons, subtractions, divisions and rounding
    of float64. So a client in another language computes the same numbers.

    Takes at most 6 bytes for each row and column of the model, beside those of a block of rows.

    References
    ----------
    .. [1] The paper, Algorithm 1: "normalize response and features to [0, 1]".
    """
    label = specification.label
    columns = columns_by_name(rows, [*(feature.column for feature in specification.features), label.column])
    labels, labelled = encode_labels(specification, columns[label.column])
    used = np.flatnonzero(labelled)[:ROWS_MAX]
    places = np.empty((len(used), len(specification.sizes)), dtype=np.int32)
    values = np.empty(places.shape, dtype=np.uint16)
    for first in range(0, len(used), _BLOCK):
        part = slice(first, first + _BLOCK)
        some = {name: taken(column, used[part]) for name, column in columns.items()}
        places[part], values[part] = places_of(specification, encode_columns(specification, some))
    return EncodedRows(places, values, labels[used])


def check_rows(specification: Specification, rows: EncodedRows) -> EncodedRows:
    """Return encoded rows when they are within the limits of a specification, so that no number overflows.

    Raises
    ------
    InvalidParameterError
        When they are not: they were encoded for another specification.
    """
    shape = len(rows.labels), len(specification.sizes)
    labels_end = specification.n_scores if specification.link == "softmax" else FINE + 1
    if (
        rows.places.shape != shape
        or rows.values.shape != shape
        or len(rows.labels) > ROWS_MAX
        or not _within(rows.places, specification.n_inputs)
        or not _within(rows.values, ONE + 1)
        or not _within(rows.labels, labels_end)
    ):
        raise InvalidParameterError("the rows were encoded for another specification")
    return rows


def _within(numbers: Whole, end: int) -> bool:
    return bool(numbers.min(initial=0) >= 0 and numbers.max(initial=0) < end)


def encode_labels(specification: Specification, entries: Any) -> tuple[Ints, Bools]:
    """Return the label of each row in whole units, or the number of its class, and which rows have one."""
    entries = readable(entries)
    with np.errstate(all="ignore"):  # a warning would tell of entries
        if isinstance(specification.label, Numeric):
            shares = specification.label.shares(entries)
            return _whole(shares, FINE), ~np.isnan(shares)
        codes = specification.label.codes(entries)
        return codes, codes != OUTSIDE


def encode_columns(specification: Specification, entries: Mapping[str, Any]) -> Ints:
    """Return each feature of each row, (n_rows, n_features): units of `ONE`, or the code of its value."""
    with np.errstate(all="ignore"):
        columns = [_encoded(feature, readable(entries[feature.column])) for feature in specification.features]
    return np.stack(columns, axis=1)


def _encoded(feature: Column, entries: Any) -> Ints:
    return feature.codes(entries) if isinstance(feature, Coded) else _whole(feature.shares(entries), ONE)


def places_of(specification: Specification, columns: Ints) -> tuple[Ints, Ints]:
    """Return `places` and `values` of `EncodedRows` for what `encode_columns` returned."""
    sizes = specification.sizes
    starts = np.cumsum((0, *sizes[:-1]))
    places = np.zeros((len(columns), len(sizes)), dtype=np.int64)
    values = np.zeros_like(places)
    values[:, 0] = ONE
    codes: dict[str, Ints] = {}
    numbers: dict[str, Ints] = {}
    for place, feature in enumerate(specification.features, 1):
        column = columns[:, place - 1]
        if isinstance(feature, Coded):
            codes[feature.column] = column
            _place(column, int(starts[place]), places[:, place], values[:, place])
        else:
            numbers[feature.column] = column
            places[:, place] = starts[place]
            values[:, place] = column
    lengths = {f.column: len(f) for f in specification.features if isinstance(f, Coded)}
    for place, cross in enumerate(specification.crosses, 1 + len(specification.features)):
        combined = np.zeros(len(columns), dtype=np.int64)
        outside = np.zeros(len(columns), dtype=np.bool_)
        times = np.full(len(columns), ONE)
        for name in cross:
            if name in lengths:
                combined = combined * lengths[name] + codes[name]
                outside |= codes[name] == OUTSIDE
            else:
                times = (times * numbers[name] + ONE // 2) // ONE
        combined[outside] = OUTSIDE
        _place(combined, int(starts[place]), places[:, place], values[:, place], times)
    return places, values


def _place(codes: Ints, start: int, places: Ints, values: Ints, times: Ints | int = ONE) -> None:
    known = codes != OUTSIDE
    places[known] = start + codes[known]
    values[known] = np.broadcast_to(times, codes.shape)[known]


def _whole(shares: Floats, units: int) -> Ints:
    """Return shares from 0 to 1 in whole units, half of one rounded up; NaN becomes 0."""
    return np.floor(np.where(np.isnan(shares), 0.0, shares) * units + 0.5).astype(np.int64)
