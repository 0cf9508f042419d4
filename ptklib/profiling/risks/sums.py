"""Sums of many floating-point numbers that are nearly exact; docs/proofs/profiling.md bounds their rounding."""

import numpy as np

from ptklib.arrays import Floats, Ints

_FINE = 2.0**26
_CHUNK = 1024
"""Rows whose products are added in any order. Up to 2**24 rows, a public assumption, least sums err below 1.5e-6."""


def sums_by(codes: Ints, values: Floats, size: int) -> Floats:
    """Add values in [-1, 1] by their codes: their leading bits exactly, the rest of them in floating point."""
    leading = np.rint(values * _FINE)
    rest = values - leading / _FINE
    return np.asarray(np.bincount(codes, leading, size) / _FINE + np.bincount(codes, rest, size))


def products_of(rows: Floats, weights: Floats) -> Floats:
    """Return ``rows' diag(weights) rows``, added chunk by chunk with the rounding of each addition carried along."""
    width = rows.shape[1]
    total, carried = np.zeros((width, width)), np.zeros((width, width))
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        added = part.T @ (part * weights[start : start + _CHUNK, None])
        new = total + added
        back = new - total
        carried += (total - (new - back)) + (added - back)  # what the addition lost, exactly (Knuth)
        total = new
    return np.asarray(total + carried)
