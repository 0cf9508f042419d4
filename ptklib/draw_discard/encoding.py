"""Rows as whole numbers: which weights a row uses, how much of each, and its label."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.draw_discard.columns import OUTSIDE, Categorical, entries_by_name
from ptklib.draw_discard.specification import Specification
from ptklib.exceptions import SchemaError

ONE = 2**15
"""Units in a feature of 1."""

FINE = 2**20
"""Units in a label, or a prediction, of 1."""

ROWS_MAX = 2**13
"""Rows of one report: sums of their gradients stay exact in float64."""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows as a model sees them.

    Parameters
    ----------
    places : ndarray of shape (n_rows, n_inputs), int64
        Number of a weight, for the intercept, each feature and each cross.
    values : ndarray of shape (n_rows, n_inputs), int64
        What the weight is multiplied by, from 0 to `ONE`.
    labels : ndarray of shape (n_rows,), int64
        From 0 to `FINE`.
    """

    places: Ints
    values: Ints
    labels: Ints


def encode_rows(specification: Specification, rows: Any) -> EncodedRows:
    """Return the rows that have a label as whole numbers.

    Parameters
    ----------
    specification : Specification
    rows : mapping of columns, or table
        At most `ROWS_MAX` rows; lists and arrays by name, or a table with column names. Other columns are not read.

    Returns
    -------
    EncodedRows
        A number beyond its bounds, or infinite, becomes the bound. A number that is missing, NaN or beyond float64, and
        anything that is no number, becomes 0 (that is the lower bound). A value that was not declared, or is missing,
        uses no weight, nor do its crosses. A row whose label is missing, NaN or no number is left out. Booleans count
        as the numbers 0 and 1, but as a category only among booleans.

    Raises
    ------
    SchemaError
        When the rows are too many or cannot be read; MissingColumnError when a column is missing. Messages name
        columns only. They are for whoever has the rows.

    Notes
    -----
    What a row becomes depends on that row alone, through comparisons, subtractions, divisions and rounding of float64,
    so that a client in another language computes the same numbers.

    References
    ----------
    .. [1] The paper, Algorithm 1: "normalize response and features to [0, 1]".
    """
    label = specification.label
    names = [*(feature.column for feature in specification.features), label.column]
    entries = entries_by_name(rows, names)
    n_rows = len(entries[label.column])
    if n_rows > ROWS_MAX:
        raise SchemaError(f"a report is of at most {ROWS_MAX} rows: give some of them")
    targets = label.shares(entries[label.column])
    labelled = ~np.isnan(targets)
    sizes = specification.sizes
    starts = np.cumsum((0, *sizes[:-1]))
    places = np.zeros((n_rows, len(sizes)), dtype=np.int64)
    values = np.zeros((n_rows, len(sizes)), dtype=np.int64)
    values[:, 0] = ONE
    codes: dict[str, Ints] = {}
    for place, feature in enumerate(specification.features, 1):
        if isinstance(feature, Categorical):
            codes[feature.column] = feature.codes(entries[feature.column])
            _place(codes[feature.column], int(starts[place]), places[:, place], values[:, place])
        else:
            places[:, place] = starts[place]
            values[:, place] = _whole(feature.shares(entries[feature.column]), ONE)
    lengths = {f.column: len(f.values) for f in specification.features if isinstance(f, Categorical)}
    for place, cross in enumerate(specification.crosses, 1 + len(specification.features)):
        combined = np.zeros(n_rows, dtype=np.int64)
        outside = np.zeros(n_rows, dtype=np.bool_)
        for column in cross:
            combined = combined * lengths[column] + codes[column]
            outside |= codes[column] == OUTSIDE
        combined[outside] = OUTSIDE
        _place(combined, int(starts[place]), places[:, place], values[:, place])
    return EncodedRows(places[labelled], values[labelled], _whole(targets[labelled], FINE))


def _place(codes: Ints, start: int, places: Ints, values: Ints) -> None:
    known = codes != OUTSIDE
    places[known] = start + codes[known]
    values[known] = ONE


def _whole(shares: Floats, units: int) -> Ints:
    """Return shares from 0 to 1 in whole units, half of one rounded up; NaN becomes 0."""
    return np.floor(np.where(np.isnan(shares), 0.0, shares) * units + 0.5).astype(np.int64)
