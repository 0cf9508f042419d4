"""Dense layers in exact arithmetic: what a row adds to the gradient is a function of that row and the weights alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.sgd import tables
from ptklib.sgd.encoding import unit_of
from ptklib.sgd.heads import Head
from ptklib.sgd.tables import FINE

UNIT = 2**30
"""Integers in the longest contribution of one row."""

WEIGHT = 2.0**24
"""Units in a weight of 1."""

WEIGHT_MAX = 2.0**8
"""Largest norm of the weights of one unit of a layer."""

HIDDEN_MAX = 500
"""Units of a hidden layer, and classes."""

_BACK = 2.0**14
"""Units in a weight of 1 where errors are passed back."""

_ERROR_MAX = 2.0**22
"""Largest error of a unit, in units of 1 / FINE."""

_WHOLE = 1 - 1e-9
"""Outweighs the rounding of float64 in a norm."""

ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Shape:
    """Public sizes of a model."""

    n_inputs: int
    one: int
    """Integer that stands for an input of 1; see `Encoding`."""
    hidden: tuple[int, ...]
    n_scores: int

    @cached_property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of the weights of each layer; the last column belongs to the constant input."""
        fan_in = (self.n_inputs, *self.hidden)
        return tuple((out, into + 1) for into, out in zip(fan_in, (*self.hidden, self.n_scores), strict=True))

    @cached_property
    def ones(self) -> tuple[int, ...]:
        """The integer for 1 among the inputs of each layer."""
        return (self.one, *map(unit_of, self.hidden))

    @cached_property
    def n_weights(self) -> int:
        """Number of weights of all layers."""
        return sum(out * into for out, into in self.layers)

    def split(self, flat: Floats) -> list[Floats]:
        """Return a view of the part of each layer of a vector of all weights."""
        stops = np.cumsum([out * into for out, into in self.layers])[:-1]
        parts = np.split(flat, stops)
        return [part.reshape(size) for part, size in zip(parts, self.layers, strict=True)]


def quantised(weights: Sequence[Floats]) -> list[Floats]:
    """Return weights on the grid that a model computes with, each unit's of norm `WEIGHT_MAX` at most."""
    found = []
    for layer in weights:
        lengths = np.sqrt(np.sum(layer * layer, axis=1, keepdims=True))
        short = layer * np.minimum(_WHOLE * WEIGHT_MAX / np.maximum(lengths, 1e-300), 1.0)
        found.append(np.trunc(short * WEIGHT) / WEIGHT)
    return found


class Network:
    """A model of quantised weights.

    Parameters
    ----------
    shape : Shape
    weights : list of ndarray of shape (n_out, n_in + 1)
        From `quantised`.
    head : Head

    Notes
    -----
    Inputs, weights and errors are whole numbers, so small that no sum of their products reaches ``2**53``. Float64 adds
    them without rounding, in any order: products of matrices are exact, whatever rows are beside a row. All else
    is element by element. docs/proofs/sgd.md has the bounds.
    """

    def __init__(self, shape: Shape, weights: Sequence[Floats], head: Head) -> None:
        self._shape, self._head = shape, head
        self._weights = [np.asarray(layer * WEIGHT) for layer in weights]
        self._back = [np.rint(layer[:, :-1] * _BACK) for layer in weights[1:]]

    def scores(self, inputs: Floats) -> Floats:
        """Return the scores of some rows, (n_rows, n_scores), from their whole-numbered inputs."""
        return self._forward(inputs)[-1]

    def predictions(self, inputs: Floats) -> Floats:
        """Return what the head makes of scores, row by row."""
        found = np.empty((0, 0))
        for start in range(0, len(inputs), ROWS_AT_ONCE):
            piece = self._head.predictions(self.scores(inputs[start : start + ROWS_AT_ONCE]))
            if not start:
                found = np.empty((len(inputs), piece.shape[1]))
            found[start : start + ROWS_AT_ONCE] = piece
        return found if len(inputs) else self._head.predictions(np.zeros((0, self._shape.n_scores)))

    def clipped_gradient(self, inputs: Floats, labels: Ints, clip_norm: float) -> Floats:
        """Return the sum of the clipped gradients of some rows, exactly: whole numbers, (n_weights,).

        Parameters
        ----------
        inputs : ndarray of shape (n_rows, n_inputs + 1)
            At most ``2**22`` rows.
        clip_norm : float
            Length of a row's gradient that becomes `UNIT`; longer ones are shrunk to it.

        Notes
        -----
        :Sensitivity: a row adds integers of Euclidean norm at most `UNIT`, whatever the values are.

        The gradient of a layer is, for one row, the product of its errors and its inputs, so its norm is the product of
        theirs [1]_. Only errors are scaled and truncated towards zero; then one product of matrices adds up all rows.

        References
        ----------
        .. [1] Goodfellow, "Efficient Per-Example Gradient Computations", 2015.
        """
        *layers, scores = self._forward(inputs)
        errors = self._errors(layers, self._head.errors(scores, labels))
        squares = np.zeros(len(inputs))
        for error, given, one in zip(errors, layers, self._shape.ones, strict=True):
            both = np.einsum("ij,ij->i", error, error) * np.einsum("ij,ij->i", given, given)
            squares += both * (1 / (FINE * one)) ** 2
        factors = _WHOLE * UNIT / np.maximum(np.sqrt(squares), clip_norm)
        parts = []
        for error, given, one in zip(errors, layers, self._shape.ones, strict=True):
            scaled = np.trunc(error * (factors * (1 / (FINE * one)))[:, None])
            parts.append((scaled.T @ given).ravel())
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _forward(self, inputs: Floats) -> list[Floats]:
        """Return the inputs of each layer, and the scores."""
        given = [inputs]
        for place, (weights, one) in enumerate(zip(self._weights, self._shape.ones, strict=True)):
            sums = given[-1] @ weights.T
            sums *= 1 / (WEIGHT * one)
            if place == len(self._weights) - 1:
                given.append(sums)
                break
            unit = self._shape.ones[place + 1]
            raised = np.empty((len(sums), sums.shape[1] + 1))
            raised[:, :-1] = tables.activation(unit).take(tables.places(sums))
            raised[:, -1] = unit
            given.append(raised)
        return given

    def _errors(self, layers: Sequence[Floats], last: Floats) -> list[Floats]:
        """Return the errors of the units of each layer, in whole units of 1 / FINE."""
        errors = [last]
        for back, given, one in zip(self._back[::-1], layers[:0:-1], self._shape.ones[:0:-1], strict=True):
            share = given[:, :-1] * (1 / one)
            passed = (errors[0] @ back) * (1 - share * share) * (1 / _BACK)
            errors.insert(0, np.clip(np.rint(passed), -_ERROR_MAX, _ERROR_MAX))
        return errors
