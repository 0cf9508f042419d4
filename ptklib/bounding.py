"""Contribution bounding: at most so many rows of one privacy unit, chosen at random."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ptklib.arrays import Ints
from ptklib.exceptions import SchemaError
from ptklib.mechanisms.stream import KeyStream

ROWS_MAX = 10_000
_MISSING = -1


def bounded_rows(units: Any, max_rows: int) -> Ints:
    """Return the places of the rows that are kept, in their order.

    Parameters
    ----------
    units : ndarray or pyarrow.Array of shape (n_rows,)
        The privacy unit of each row. Rows without one are dropped: nobody could bound them.
    max_rows : int
        Rows kept of each unit, a uniform choice among its own.

    Notes
    -----
    The choice of a unit's rows depends on fresh random bits and on its own rows only. So adding or removing a
    unit adds or removes at most `max_rows` rows and does not change any others.
    """
    codes = unit_codes(units)
    owned = np.flatnonzero(codes != _MISSING)
    codes = codes[owned]
    order = np.lexsort((KeyStream().words(len(codes)), codes))
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=_MISSING))
    rank = np.arange(len(ordered)) - np.repeat(starts, np.diff(starts, append=len(ordered)))
    return np.asarray(np.sort(owned[order[rank < max_rows]]), dtype=np.int64)


def unit_codes(units: Any) -> Ints:
    """Give each unit a number, and -1 to what is none; equal codes mean equal units, exactly."""
    if isinstance(units, pa.Array | pa.ChunkedArray):
        column = units.combine_chunks() if isinstance(units, pa.ChunkedArray) else units
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_floating(column.type):
            column = pc.add(column, 0.0)  # 0.0 and -0.0 are one unit
        try:
            encoded = pc.dictionary_encode(column)
        except pa.ArrowException:  # of lists, for one: a matter of its type
            raise SchemaError(
                f"the column of units has type {column.type}, which cannot be compared"
            ) from None
        codes = encoded.indices.fill_null(_MISSING).to_numpy(zero_copy_only=False).astype(np.int64)
        if pa.types.is_floating(column.type):
            nan = pc.is_nan(column).fill_null(False).to_numpy(zero_copy_only=False)
            codes = np.where(nan, _MISSING, codes)
        return np.asarray(codes, dtype=np.int64)
    if units.dtype.kind in "OUS":
        return _object_codes(units)
    codes, _ = pd.factorize(units)  # missing values become -1
    return np.asarray(codes, dtype=np.int64)


def _object_codes(units: npt.NDArray[Any]) -> Ints:
    """Give numbers to Python objects entry by entry, by their own equality.

    pandas looks at all entries before it chooses how to compare them (strings up to a NUL, for one), so that one row
    could change how all others are read.
    """
    seen: dict[object, int] = {}
    return np.fromiter((_code(unit, seen) for unit in units), dtype=np.int64, count=len(units))


def _code(unit: object, seen: dict[object, int]) -> int:
    if unit is None or unit is pd.NaT or unit is pd.NA:
        return _MISSING
    try:
        return seen.setdefault(unit, len(seen)) if bool(unit == unit) else _MISSING
    except (TypeError, ValueError, ArithmeticError):  # what cannot be hashed or compared identifies nobody
        return _MISSING
