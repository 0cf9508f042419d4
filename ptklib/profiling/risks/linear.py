"""Linear regression: squared error of the label, with the exact minimum over weights of bounded norm."""

from typing import Any

import numpy as np

from ptklib.arrays import Bools, Floats
from ptklib.exceptions import InvalidParameterError
from ptklib.gram import block_of
from ptklib.inputs import InputTable
from ptklib.linear import AdaSSPRegressor
from ptklib.profiling.risks.sums import products_of
from ptklib.scalars import finite_number

_TINY = 1e-300
_HALVINGS = 200


class LeastSquaresRisk:
    """Squared error of the clipped label, in widths of its bounds.

    Parameters
    ----------
    estimator : AdaSSPRegressor
        With a label column.
    weight_max : float
        Largest Euclidean norm of the weights of the class, in half widths of the label per half width of a feature.

    Notes
    -----
    The class is ``b + u . z`` of clipped, standardised rows z with ``||u|| <= weight_max`` and any b: ridge
    regression with the ridge that this norm asks for. It is not clipped to the bounds of the label, so its
    losses reach ``(1 + r weight_max)**2`` for rows of norm r or less. The least sum has b = mean(y) - u .
    mean(z), whose values stay within ``1 + 2 r weight_max``. So one more row adds at most
    ``((2 + 2 r weight_max) / 2)**2``.
    """

    def __init__(self, estimator: AdaSSPRegressor, weight_max: float = 1.0) -> None:
        if estimator.label is None:
            raise InvalidParameterError("rows have a loss when the label is a column: label=")
        *features, label = estimator.required_columns()
        self._weight_max = finite_number(weight_max, "weight_max")
        if self._weight_max <= 0:
            raise InvalidParameterError("weight_max must be positive")
        self._block = block_of(tuple(features), estimator.bounds, estimator.max_norm)
        self._label = block_of((label,), {label: estimator.label_bounds}, None)
        self._columns = (*features, label)

    @property
    def loss_max(self) -> float:
        """Largest loss of a row in the class."""
        return float((1 + self._block.limit * self._weight_max) ** 2)

    def examples(self, table: Any) -> Bools:
        """Return the rows that the estimator does not drop: those without missing or infinite values."""
        return np.asarray(np.isfinite(self._values(table)).all(axis=1))

    def losses(self, state: Any, table: Any) -> Floats:
        """Return the loss of each row; predictions are clipped to the bounds of the label, as `predict` does."""
        rows, label = self._values(table), self._label
        columns = state.tables["coefficients"]
        weights = columns.column("coefficient").to_numpy()
        means = columns.column("mean").to_numpy()
        block = self._block
        guess = np.full(len(rows), means[-1])
        for place, values in enumerate(block.clamp(rows[:, :-1]).T):  # column by column: see RowRisk
            value = values * block.half_widths[place] + block.centres[place] - means[place]
            guess += value * weights[place]
        standard = np.clip((guess - label.centres[0]) / label.half_widths[0], -1.0, 1.0)
        miss = (label.clamp(rows[:, -1:])[:, 0] - standard) / 2
        return np.asarray(miss * miss)

    def least_total(self, table: Any, weights: Floats) -> float:
        """Return the least weighted sum of losses over the class."""
        rows = self._values(table)
        ones = np.ones((len(rows), 1))
        standard = np.hstack([self._shrunk(rows[:, :-1]), self._label.clamp(rows[:, -1:]), ones])
        products = products_of(standard, weights)
        count, sums = float(products[-1, -1]), products[:-1, -1]
        if count <= 0:
            return 0.0
        centred = products[:-1, :-1] - np.outer(sums, sums) / count
        gain = _least_square(centred[:-1, :-1], centred[:-1, -1], self._weight_max)
        return max(float(centred[-1, -1]) + gain, 0.0) / 4

    def _values(self, table: Any) -> Floats:
        read = InputTable(table, self._columns)
        return np.column_stack([read.numbers(name) for name in self._columns])

    def _shrunk(self, rows: Floats) -> Floats:
        standard = self._block.clamp(rows)
        norm = np.sqrt((standard * standard).sum(axis=1, keepdims=True))
        return np.asarray(standard * np.minimum(self._block.limit / np.maximum(norm, 1e-300), 1.0))


def _least_square(matrix: Floats, target: Floats, radius: float) -> float:
    """Return the least of ``u' matrix u - 2 target' u`` over ``||u|| <= radius``.

    Notes
    -----
    In the eigenbasis the minimiser is ``target / (spectrum + m)``, m the least number, 0 or more, for which
    it is short enough. Its norm falls in m, so m is found by bisection. No direction is dropped for being
    flat. The least value moves by at most ``radius**2`` and ``2 * radius`` times what moves matrix and
    target, whatever the spectrum is, as long as nothing is decided about small numbers.
    docs/proofs/profiling.md bounds the rounding.
    """
    spectrum, vectors = np.linalg.eigh(matrix)
    spectrum, turned = np.maximum(spectrum, 0.0), vectors.T @ target

    def solution(m: float) -> Floats:
        with np.errstate(over="ignore"):  # infinitely long is too long
            return np.asarray(turned / np.maximum(spectrum + m, _TINY))

    def is_short(m: float) -> bool:
        with np.errstate(over="ignore"):
            return float(np.linalg.norm(solution(m))) <= radius

    low, high = 0.0, float(np.linalg.norm(turned)) / radius + _TINY  # short enough there
    if is_short(low):
        high = low
    for _ in range(0 if high == low else _HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_short(middle) else (middle, high)
    u = solution(high)
    return float(u @ (spectrum * u) - 2 * (turned @ u))
