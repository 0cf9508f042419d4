"""One report of a device: the gradient of its rows, clipped to whole numbers of the grid, and noise."""

from functools import lru_cache
from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats, Ints
from ptklib.draw_discard.encoding import FINE, ONE, EncodedRows, check_rows, encode_rows
from ptklib.draw_discard.noise import with_noise
from ptklib.draw_discard.specification import WEIGHT_MAX, Specification
from ptklib.exceptions import InvalidParameterError

Weights = npt.NDArray[np.int32]

SCORE_MAX = 16
"""Scores of a logistic model are clamped to so much on both sides."""

CELLS = 2**7
"""Entries of the table of the logistic function for each unit of a score."""

EXPONENTIAL_ONE = 2**24
"""Units in an exponential of 1."""

_ENTRIES = 2**19
"""Products of weights and inputs that are in memory at once."""

_ONE_BITS, _FINE_BITS, _CELL_BITS = 15, 20, 7
_REST_BITS = _FINE_BITS - _CELL_BITS


@lru_cache(maxsize=1)
def logistic_table() -> Ints:
    """Return ``FINE / (1 + exp(-s))``, rounded to whole numbers, for s = -16, -16 + 1 / 128, ..., 16 + 1 / 128.

    No entry is near half a unit, so that every language's exponential makes the same table.
    """
    scores = np.arange(-SCORE_MAX * CELLS, SCORE_MAX * CELLS + 2) / CELLS
    return np.asarray(np.rint(FINE / (1 + np.exp(-scores))), dtype=np.int64)


@lru_cache(maxsize=1)
def exponential_table() -> Ints:
    """Return ``EXPONENTIAL_ONE * exp(-d)``, rounded to whole numbers, for d = 0, 1 / 128, ..., 16 + 1 / 128.

    No entry is near half a unit, as in `logistic_table`.
    """
    distances = np.arange(SCORE_MAX * CELLS + 2) / CELLS
    return np.asarray(np.rint(EXPONENTIAL_ONE * np.exp(-distances)), dtype=np.int64)


def predictions(specification: Specification, instance: Weights, rows: EncodedRows) -> Ints:
    """Return the predicted label of each row, or the probability of each class, in units of ``1 / FINE``.

    Returns
    -------
    ndarray of shape (n_rows, n_scores), int64

    Notes
    -----
    Scores are sums of products of whole numbers, below ``2**62``.
    """
    owners = np.zeros(len(rows.labels), dtype=np.int64)
    return predicted(
        specification, _sums(specification, instance[np.newaxis], rows.some(slice(None)), owners)
    )


def predicted(specification: Specification, sums: Ints) -> Ints:
    """Return what `predictions` does, for sums of weights times inputs, (n_rows, n_scores).

    Notes
    -----
    A linear model's scores are clamped to [-1, 2], where labels are from 0 to 1. A logistic model's follow the chord
    between two entries of `logistic_table`, and exponentials of a softmax model that of `exponential_table`.
    """
    scores = sums >> (specification.grid_bits + _ONE_BITS - _FINE_BITS)
    if specification.link == "linear":
        return np.asarray(np.clip(scores, -FINE, 2 * FINE))
    most = SCORE_MAX * FINE
    if specification.link == "logistic":
        return _chord(logistic_table(), np.clip(scores, -most, most) + most)
    below = np.minimum(scores.max(axis=1, keepdims=True) - scores, most)
    exponentials = _chord(exponential_table(), below)
    totals = exponentials.sum(axis=1, keepdims=True)
    return np.asarray((2 * FINE * exponentials + totals) // (2 * totals))


def _chord(table: Ints, at: Ints) -> Ints:
    """Return a function between two entries of its table, rounded."""
    cell, rest = at >> _REST_BITS, at & (2**_REST_BITS - 1)
    chord = table[cell] * (2**_REST_BITS - rest) + table[cell + 1] * rest
    return np.asarray((chord + 2 ** (_REST_BITS - 1)) >> _REST_BITS)


def errors(specification: Specification, predictions: Ints, labels: Ints) -> Ints:
    """Return predictions minus labels, (n_rows, n_scores), in units of ``1 / FINE``."""
    if specification.link != "softmax":
        return predictions - labels[:, np.newaxis]
    apart = predictions.copy()
    apart[np.arange(len(labels)), labels] -= FINE
    return apart


def mean_gradient(specification: Specification, instance: Weights, rows: EncodedRows) -> Ints:
    """Return the mean gradient of the loss over the rows, (n_weights,), in units of ``1 / NORM_UNITS``.

    Zero without rows. Entries are at most ``2 * NORM_UNITS`` in absolute value, rounded towards zero.

    References
    ----------
    .. [1] The paper, equation 3 and Algorithm 1.
    """
    owners = np.zeros(len(rows.labels), dtype=np.int64)
    return np.asarray(mean_gradients(specification, instance[np.newaxis], rows, owners)[0])


def mean_gradients(specification: Specification, instances: Weights, rows: EncodedRows, owners: Ints) -> Ints:
    """Return the mean gradient of each of several devices, (n_devices, n_weights), as `mean_gradient` does.

    Parameters
    ----------
    specification : Specification
    instances : ndarray of shape (n_devices, n_weights), int32
        The draw of each device.
    rows : EncodedRows
        Of all of them.
    owners : ndarray of shape (n_rows,), int64
        The device of each row.
    """
    n_devices, n_weights = instances.shape
    added = np.zeros(n_devices * n_weights)
    firsts = np.arange(specification.n_scores) * specification.n_inputs
    at_once = max(_ENTRIES // (rows.places.shape[1] * specification.n_scores), 1)
    for first in range(0, len(owners), at_once):
        part = slice(first, first + at_once)
        some = rows.some(part)
        sums = _sums(specification, instances, some, owners[part])
        apart = errors(specification, predicted(specification, sums), some.labels)
        parts = apart[:, :, np.newaxis] * some.values[:, np.newaxis, :]
        places = (owners[part, np.newaxis] * n_weights + firsts)[:, :, np.newaxis] + some.places[
            :, np.newaxis, :
        ]
        added += np.bincount(places.ravel(), weights=parts.ravel(), minlength=len(added))
    return divided(added.reshape(n_devices, n_weights), np.bincount(owners, minlength=n_devices))


def divided(sums: Ints | Floats, n_rows: Ints) -> Ints:
    """Return mean gradients for sums over the rows of each device, (n_devices, n_weights): whole numbers."""
    return quotients(sums, (np.maximum(n_rows, 1) * ONE)[:, np.newaxis])


def _sums(specification: Specification, instances: Weights, rows: EncodedRows, owners: Ints) -> Ints:
    """Return sums of weights times inputs, (n_rows, n_scores)."""
    weights = instances.reshape(len(instances), specification.n_scores, specification.n_inputs)
    used = weights[owners[:, np.newaxis], :, rows.places]  # (n_rows, n_columns, n_scores)
    return np.asarray((used * rows.values[:, :, np.newaxis]).sum(axis=1))


def clipped_step(specification: Specification, gradient: Ints) -> Ints:
    """Return learning rate times clipped gradient, of one device or several, in whole units of the grid.

    Parameters
    ----------
    specification : Specification
    gradient : ndarray of shape (..., n_weights), int64
        From `mean_gradient` or `mean_gradients`, or anything within ``2**21``.

    Notes
    -----
    :Sensitivity: the norm that ``clip`` names is at most ``specification.reach``; for ``"coordinate"`` each entry is.
        Division rounds towards zero, so rounding makes no step longer: docs/proofs/draw_discard.md, "Clipping".
    """
    limit, reach = specification.limit, specification.reach
    if specification.clip == "coordinate":
        return quotients(reach * np.clip(gradient, -limit, limit), limit)
    if specification.clip == "l1":
        norms = np.abs(gradient).sum(axis=-1, keepdims=True)
    else:
        squares = (gradient * gradient).sum(axis=-1, keepdims=True)
        norms = np.array([_root_above(int(one)) for one in squares.ravel()], dtype=np.int64).reshape(
            squares.shape
        )
    return quotients(reach * gradient, np.maximum(norms, limit))


def make_report(specification: Specification, instance: Weights, rows: Any) -> Weights:
    """Return the instance after one noisy step on a device's rows: all that leaves the device.

    Parameters
    ----------
    specification : Specification
        One that the device has accepted: it decides what is lost.
    instance : ndarray of shape (n_weights,), int32
        As it was drawn, in units of the grid.
    rows : EncodedRows, or mapping of columns, or table
        From `encode_rows` for this specification, or what it takes. Without rows the report is the instance and noise.

    Returns
    -------
    ndarray of shape (n_weights,), int32
        Within ``2**31 - 1`` in absolute value; what would be beyond is that.

    Raises
    ------
    InvalidParameterError
        When the instance has another shape or type, or rows were encoded for another specification.
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

    **Encode before the draw, and put at a time that does not depend on the rows.** A draw without a put, or a
    late put, tells of them. No guarantee covers that. So a device calls `encode_rows` first. If that fails,
    it draws nothing, or it reports without rows. Then it draws and makes the report. Time grows with the
    number of rows: the largest model takes 40 ms without rows and seconds with `ROWS_MAX` of them. A device
    puts at a moment that is fixed beforehand. Memory is that of the encoded rows and of blocks of them.

    References
    ----------
    .. [1] The paper, Algorithm 1 and section IV-B.
    """
    start = check_weights(specification, instance)
    encoded = (
        check_rows(specification, rows) if isinstance(rows, EncodedRows) else encode_rows(specification, rows)
    )
    step = clipped_step(specification, mean_gradient(specification, start, encoded))
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


def quotients(numbers: Ints | Floats, divisors: Ints | int) -> Ints:
    """Divide whole numbers below ``2**53`` by positive ones, towards zero.

    Notes
    -----
    float64 does it exactly, and its conversion drops the fraction. A quotient that is no whole number is at least
    ``1 / divisor`` below the next one, and rounding moves it by less than that.
    """
    return (numbers / divisors).astype(np.int64)


def _root_above(square: int) -> int:
    """Return the least whole number whose square is no less."""
    return isqrt(square - 1) + 1 if square else 0
