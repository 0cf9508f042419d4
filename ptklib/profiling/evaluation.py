"""Private losses of a released state on a set no model was trained on."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

from ptklib.arrays import Bools, Floats, Ints
from ptklib.profiling.risks import ExactRisk, RowRisk
from ptklib.profiling.samples import Examples, HashRange, ProfileSet
from ptklib.profiling.subjects import Subject
from ptklib.tables import column_names, take_rows


class Validation(Protocol):
    """Losses in [0, 1] of any state, each of them moved by one privacy unit only."""

    def losses(self, state: Any) -> Floats:
        """Return the losses of a state."""

    def worst(self) -> Floats:
        """Return the losses of a model that is always wrong."""


class RowValidation:
    """The loss of each privacy unit: the mean over its rows."""

    def __init__(self, risk: RowRisk, profile_set: ProfileSet, part: HashRange) -> None:
        self._risk = risk
        self._table, units = profile_set.sample(part)
        self._examples = Examples.of(units, examples_of(risk, self._table))

    def losses(self, state: Any) -> Floats:
        """Return the loss of each unit; a row whose loss cannot be computed has the largest, and it alone.

        A state that fails on no row at all is the worst model for everybody.
        """
        try:
            self._risk.losses(state, self._table[:0])
        except Exception:  # noqa: BLE001 - the state is released, so this tells of no row
            return self.worst()
        return self._examples.per_unit(row_by_row(partial(self._risk.losses, state), self._table, 1.0))

    def worst(self) -> Floats:
        """Return a loss of 1 for each unit."""
        return np.ones(self._examples.n_units)


class BatchValidation:
    """The PTK's own evaluation of a public number of disjoint test sets.

    Parameters
    ----------
    part : HashRange
        The range of the hashes of the validation set.
    loss_bounds : tuple (low, high)
    """

    def __init__(
        self,
        subject: Subject,
        profile_set: ProfileSet,
        part: HashRange,
        n_batches: int,
        loss_bounds: tuple[float, float],
    ) -> None:
        self._subject, self._set = subject, profile_set
        self._parts = part.split(n_batches)
        self._low, self._high = loss_bounds

    def losses(self, state: Any) -> Floats:
        """Return the clipped evaluation of each test set, in parts of its range."""
        self._subject.use(state)
        return np.array([self._loss(part) for part in self._parts])

    def worst(self) -> Floats:
        """Return a loss of 1 for each test set."""
        return np.ones(len(self._parts))

    def _loss(self, part: HashRange) -> float:
        try:
            table, _ = self._set.sample(part)
            if not len(table):
                return 1.0  # nothing shows that the model is any good
            value = float(self._subject.evaluate(table))
        except Exception:  # noqa: BLE001 - an error would tell of a row
            return 1.0
        if math.isnan(value):
            return 1.0
        return min(max((value - self._low) / (self._high - self._low), 0.0), 1.0)


def examples_of(risk: RowRisk, table: Any) -> Bools:
    """Return which rows count; one of which that cannot be told does not, and it alone."""
    return np.asarray(row_by_row(risk.examples, table, 0.0) != 0)


def least_total_of(risk: ExactRisk, table: Any, units: Ints) -> tuple[float, int]:
    """Return the least sum of losses of all rows that count, each unit's as their mean, and the number of units.

    Parameters
    ----------
    units : numpy.ndarray
        Number of the unit of each row. Shape (n_rows,).

    Notes
    -----
    A row of which no minimum can be computed does not count, and it alone: else one row would move the sum by all.
    """

    def read(part: Any) -> Floats:
        risk.least_total(part, np.ones(len(part)))
        return np.ones(len(part))

    kept = examples_of(risk, table) & np.asarray(row_by_row(read, table, 0.0) != 0)
    examples = Examples.of(units, kept)
    if not examples.n_units:
        return 0.0, 0
    rows = take_rows(table, np.flatnonzero(kept), column_names(table))
    try:
        return float(risk.least_total(rows, examples.shares)), examples.n_units
    except Exception:  # noqa: BLE001 - an error would tell of rows; each of them alone has a minimum
        return 0.0, examples.n_units


def row_by_row(function: Callable[[Any], Any], table: Any, failed: float) -> Floats:
    """Return a function of single rows for a whole table, `failed` for each row that it raises on.

    Notes
    -----
    One row that raises must not change the losses of others: there would be no sensitivity. So a table that
    raises is taken in halves, down to its rows. That takes a few calls for a few such rows, and two calls a
    row if all raise.
    """
    n = len(table)
    try:
        values = np.asarray(function(table), dtype=np.float64)
        if values.shape == (n,):
            return values
    except Exception:  # noqa: BLE001 - an error would tell of a row
        pass
    if n <= 1:
        return np.full(n, failed)
    halves = (table[: n // 2], table[n // 2 :])
    return np.concatenate([row_by_row(function, half, failed) for half in halves])


def validation_of(
    subject: Subject,
    profile_set: ProfileSet,
    part: HashRange,
    n_batches: int,
    loss_bounds: tuple[float, float],
) -> Validation:
    """Return the validation set of a PTK.

    Parameters
    ----------
    subject, profile_set, part, n_batches, loss_bounds
        As for `BatchValidation`; the last two are read for a PTK without a loss of rows only.
    """
    if subject.risk is not None:
        return RowValidation(subject.risk, profile_set, part)
    return BatchValidation(subject, profile_set, part, n_batches, loss_bounds)
