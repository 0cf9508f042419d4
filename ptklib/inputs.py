"""Input tables: the columns an estimator reads of whatever it is given."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats, Ints
from ptklib.columns import as_column, as_numbers
from ptklib.exceptions import MissingColumnError, SchemaError
from ptklib.tables import as_table, column_names, column_of, listed, n_rows, take_rows


class InputTable:
    """Columns of a table, by name; of an array, which has no names, by position.

    Parameters
    ----------
    data : table or array-like of shape (n_rows, n_columns)
        What `ptklib.tables.as_table` reads. The columns of an array are ``x0``, ``x1`` ... or, when there are exactly
        as many as `expected`, take those names in order.
    expected : sequence of str
        The columns the caller is going to read.

    Raises
    ------
    SchemaError
        When a column of `expected` is missing (`MissingColumnError`) or occurs twice. Names columns and types only.
    """

    def __init__(self, data: Any, expected: Sequence[str]) -> None:
        self._data, self._expected = as_table(data), tuple(expected)
        self.named = not isinstance(self._data, np.ndarray)
        names = column_names(self._data) if self.named else _numbered(self._data, expected)
        self.names, self.n_rows = tuple(names), n_rows(self._data)
        for name in expected:
            if names.count(name) != 1:
                there = f"the table has {listed(names)}" if names else "the table has no columns"
                hint = f": needed are {listed(expected)}, and {there}"
                if name not in names:
                    raise MissingColumnError(f"column {name!r} is missing{hint}", name)
                raise SchemaError(f"column {name!r} occurs more than once{hint}")

    def column(self, name: str) -> Any:
        """Return one column as a numpy array or an Arrow array."""
        if not self.named:
            return as_column(self._data[:, self.names.index(name)], name)
        return column_of(self._data, name)

    def take(self, rows: Ints) -> Self:
        """Return the table of some rows."""
        part = copy(self)
        part._data = take_rows(self._data, rows, self._expected)
        part.n_rows = len(rows)
        return part

    def numbers(self, name: str) -> Floats:
        """Return one numeric column as float64; missing entries and non-numbers among objects are NaN."""
        return as_numbers(self.column(name), name)


def _numbered(array: npt.NDArray[Any], expected: Sequence[str]) -> list[str]:
    """Return the names of the columns of an array."""
    if array.ndim != 2:
        raise SchemaError(
            "X must be a DataFrame, an Arrow table or a two-dimensional array. Reshape your data."
        )
    numbered = [f"x{i}" for i in range(array.shape[1])]
    by_position = len(expected) == len(numbered) and not set(expected) <= set(numbered)
    return list(expected) if by_position else numbered
