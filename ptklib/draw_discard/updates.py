"""One report of a device: the gradient of its rows, clipped to whole numbers of the grid, and noise."""

from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats, Ints
from ptklib.draw_discard.encoding import FINE, ONE, EncodedRows, encode_rows
from ptklib.draw_discard.noise import with_noise
from ptklib.draw_discard.specification import WEIGHT_MAX, Specification
from ptklib.exceptions import InvalidParameterError

Weights = npt.NDArray[np.int32]

SCORE_MAX = 16
"""Scores of a logistic model are clamped to so much on both sides."""

CELLS = 2**7
"""Entries of the table of the logistic function for each unit of a score."""

_ONE_BITS, _FINE_BITS, _CELL_BITS = 15, 20, 7


@lru_cache(maxsize=1)
def logistic_table() -> Ints:
    """Return ``FINE / (1 + exp(-s))``, rounded to whole numbers, for s = -16, -16 + 1 / 128, ..., 16 + 1 / 128.

    No entry is near half a unit, so that every language's exponential makes the same table.
    """
    scores = np.arange(-SCORE_MAX * CELLS, SCORE_MAX * CELLS + 2) / CELLS
    return np.asarray(np.rint(FINE / (1 + np.exp(-scores))), dtype=np.int64)


def predictions(specification: Specification, instance: Weights, rows: EncodedRows) -> Ints:
    """Return the predicted label of each row, (n_rows,), in units of ``1 / FINE``.

    Notes
    -----
    Scores are sums of products of whole numbers, below ``2**62``. A linear model's are clamped to [-1, 2], where labels
    are from 0 to 1. A logistic model's follow the chord between two entries of `logistic_table`.
    """
    sums = (instance[rows.places].astype(np.int64) * rows.values).sum(axis=1)
    scores = sums >> (specification.grid_bits + _ONE_BITS - _FINE_BITS)
    if specification.link == "linear":
        return np.asarray(np.clip(scores, -FINE, 2 * FINE))
    at = np.clip(scores, -SCORE_MAX * FINE, SCORE_MAX * FINE) + SCORE_MAX * FINE
    bits = _FINE_BITS - _CELL_BITS
    cell, rest, table = at >> bits, at & (2**bits - 1), logistic_table()
    chord = table[cell] * (2**bits - rest) + table[cell + 1] * rest
    return np.asarray((chord + 2 ** (bits - 1)) >> bits)


def mean_gradient(specification: Specification, instance: Weights, rows: EncodedRows) -> Ints:
    """Return the mean gradient of the loss over the rows, (n_weights,), in units of ``1 / NORM_UNITS``.

    Zero without rows. Entries are at most ``2 * NORM_UNITS`` in absolute value, rounded towards zero.

    References
    ----------
    .. [1] The paper, equation 3 and Algorithm 1.
    """
    errors = predictions(specification, instance, rows) - rows.labels
    n_rows = len(errors)
    if not n_rows:
        return np.zeros(specification.n_weights, dtype=np.int64)
    parts = (errors[:, np.newaxis] * rows.values).ravel().astype(np.float64)
    sums = np.bincount(rows.places.ravel(), weights=parts, minlength=specification.n_weights)
    return _quotient(sums.astype(np.int64), n_rows * ONE)


def clipped_step(specification: Specification, gradient: Ints) -> Ints:
    """Return learning rate times clipped gradient, (n_weights,), in whole units of the grid.

    Parameters
    ----------
    specification : Specification
    gradient : ndarray of shape (n_weights,), int64
        From `mean_gradient`, or anything within ``2**21``.

    Notes
    -----
    :Sensitivity: the norm that ``clip`` names is at most ``specification.reach``; for ``"coordinate"`` each entry is.
        Division rounds towards zero, so rounding makes no step longer: docs/proofs/draw_discard.md, "Clipping".
    """
    limit, reach = specification.limit, specification.reach
    if specification.clip == "coordinate":
        return _quotient(reach * np.clip(gradient, -limit, limit), limit)
    if specification.clip == "l1":
        norm = int(np.abs(gradient).sum())
    else:
        squares = int((gradient * gradient).sum())
        norm = isqrt(squares - 1) + 1 if squares else 0  # rounded up
    return _quotient(reach * gradient, max(norm, limit))


def make_report(specification: Specification, instance: Weights, rows: Any) -> Weights:
    """Return the instance after one noisy step on a device's rows: all that leaves the device.

    Parameters
    ----------
    specification : Specification
        One that the device has accepted: it decides what is lost.
    instance : ndarray of shape (n_weights,), int32
        As it was drawn, in units of the grid.
    rows : mapping of columns, or table
        As for `encode_rows`; without rows the report is the instance and noise.

    Returns
    -------
    ndarray of shape (n_weights,), int32
        Within ``2**31 - 1`` in absolute value; what would be beyond is that.

    Raises
    ------
    InvalidParameterError
        When the instance has another shape or type.
    SchemaError
        As `encode_rows`.

    Notes
    -----
    :Guarantee: `report_loss`, against whoever sees the instance and the report. Nothing that the server does is counted
        as protection.
    :Unit: all rows of a device.
    :Neighbours: any two tables, also without rows (local differential privacy).
    :Mechanism: discrete Laplace or discrete Gaussian noise on the integer step; saturation comes after.
    :Sensitivity: ``specification.distance`` in L1 (Laplace) or L2 (Gaussian).

    Time depends on the rows: send a report when its time does not tell of them.

    References
    ----------
    .. [1] The paper, Algorithm 1 and section IV-B.
    """
    start = check_weights(specification, instance)
    step = clipped_step(specification, mean_gradient(specification, start, encode_rows(specification, rows)))
    noisy = with_noise(
        start.astype(np.int64) - step,
        specification.noise,
        distance=specification.distance,
        scale=specification.noise_scale,
        epsilon=specification.epsilon,
    )
    return saturated(noisy)


def saturated(units: Ints | Floats) -> Weights:
    """Return whole numbers as weights: what is beyond 32 bits becomes the largest weight."""
    return np.clip(units, -WEIGHT_MAX, WEIGHT_MAX).astype(np.int32)


def check_weights(specification: Specification, weights: object) -> Weights:
    """Return an array when it has the type and shape of one instance."""
    if (
        not isinstance(weights, np.ndarray)
        or weights.dtype != np.int32
        or weights.shape != (specification.n_weights,)
    ):
        raise InvalidParameterError(f"weights must be an int32 array of shape ({specification.n_weights},)")
    return weights


def _quotient(numbers: Ints, divisor: int) -> Ints:
    """Divide whole numbers by a positive one, towards zero."""
    return np.asarray(np.sign(numbers) * (np.abs(numbers) // divisor))
