"""Private losses of a released state on a set no model was trained on."""

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptklib.profiling.risks import RowRisk
from ptklib.profiling.samples import Examples, HashRange, ProfileSet
from ptklib.profiling.subjects import Subject

Floats = npt.NDArray[np.float64]


class Validation(Protocol):
    """Losses in [0, 1] of any state, each of them moved by one privacy unit only."""

    def losses(self, state: Any) -> Floats:
        """Return the losses of a state."""
        ...

    def worst(self) -> Floats:
        """Return the losses of a model that is always wrong."""
        ...


class RowValidation:
    """The loss of each privacy unit: the mean over its rows."""

    def __init__(self, risk: RowRisk, profile_set: ProfileSet, part: HashRange) -> None:
        self._risk = risk
        self._table, hashes = profile_set.sample(part)
        self._examples = Examples.of(hashes, examples_of(risk, self._table))

    def losses(self, state: Any) -> Floats:
        """Return the loss of each unit; a loss that cannot be computed makes all of them the largest."""
        try:
            return self._examples.per_unit(self._risk.losses(state, self._table))
        except Exception:  # noqa: BLE001 - an error would tell of a row
            return self.worst()

    def worst(self) -> Floats:
        """Return a loss of 1 for each unit."""
        return np.ones(self._examples.n_units)


class BatchValidation:
    """The PTK's own evaluation of a public number of disjoint test sets."""

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


def examples_of(risk: RowRisk, table: Any) -> npt.NDArray[np.bool_]:
    """Return which rows count; none where that cannot be told, and none show anything."""
    try:
        kept = np.asarray(risk.examples(table))
    except Exception:  # noqa: BLE001 - an error would tell of a row
        return np.zeros(len(table), dtype=np.bool_)
    return kept.astype(np.bool_) if kept.shape == (len(table),) else np.zeros(len(table), dtype=np.bool_)


def validation_of(
    subject: Subject,
    profile_set: ProfileSet,
    part: HashRange,
    n_batches: int,
    loss_bounds: tuple[float, float],
) -> Validation:
    """Return the validation set of a PTK."""
    if subject.risk is not None:
        return RowValidation(subject.risk, profile_set, part)
    return BatchValidation(subject, profile_set, part, n_batches, loss_bounds)
