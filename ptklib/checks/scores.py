"""Scores: one number per released state, high when a unit seems to be in the data."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ptklib.checks.rows import Neighbours, Rows
from ptklib.sums import NoisySums

Floats = npt.NDArray[np.float64]
Fit = Callable[[Rows], Mapping[str, Any]]
"""Rows to released tables, with fresh noise."""

_LEARNED_FROM = 40
_NUMBERS = ("double", "int64")
_STRAIGHT = 0.2
"""A column counts as a sum when 2 m units move it by twice as much as m units do, up to this share."""


class Score(Protocol):
    """What an observer computes from released tables."""

    visibility: float
    """How far one unit moves the outputs, in noise; compares pairs of neighbours."""

    def __call__(self, tables: Mapping[str, Any]) -> float:
        """Return the score of a release."""


def score_of(estimator: Any, pair: Neighbours, fit: Fit) -> Score:
    """Return the most telling score there is for a pair of neighbours."""
    found = {name: estimator.table_schemas()[name].keys for name in estimator.released_keys()}
    if isinstance(estimator, NoisySums) and not found:
        return SumScore(estimator, pair)
    return LearnedScore(pair, fit, gaussian=estimator.declared_loss().delta > 0, found=found)


class SumScore:
    """The likelihood ratio of the noisy sums behind the tables: no observer has a better one.

    Computed from released tables alone, with the exact sums of both datasets, which a worst-case observer
    knows.
    """

    def __init__(self, estimator: NoisySums, pair: Neighbours) -> None:
        before = estimator.partial_statistics(pair.without.X, pair.without.y).arrays
        after = estimator.partial_statistics(pair.with_unit.X, pair.with_unit.y).arrays
        plan = estimator._plan()
        self._estimator, self._steps, self._gaussian = estimator, estimator._steps(), plan.epsilons is None
        self._parts: list[tuple[str, npt.NDArray[np.intp], Floats, Floats, float]] = []
        reach = 0.0
        for name in self._steps:
            moved = (after[name] - before[name]).astype(np.float64)
            places = np.flatnonzero(moved)
            scale = float(plan.scales[name])
            self._parts.append((name, places, before[name][places].astype(np.float64), moved[places], scale))
            size = np.abs(moved[places]) / scale
            reach += float(np.sum(size**2 if self._gaussian else size))
        self.visibility = reach

    def __call__(self, tables: Mapping[str, Any]) -> float:
        """Return the logarithm of the likelihood ratio, up to a constant."""
        values, total = self._estimator._values_of(tables), 0.0
        for name, places, exact, moved, scale in self._parts:
            noise = values[name][places] / self._steps[name] - exact
            if self._gaussian:
                total += float(noise @ moved) / scale**2
            else:
                total += float(np.sum(np.abs(noise) - np.abs(noise - moved))) / scale
        return total


class LearnedScore:
    """The same, learned from outputs: which released numbers add up, and how noisy each is.

    Notes
    -----
    Outputs on many more units like the one in question show how far a single one moves each number that is a
    noisy sum; fits without it show the noise. What is learned decides only how telling the score is:
    bounds come from other fits.
    """

    def __init__(
        self, pair: Neighbours, fit: Fit, *, gaussian: bool, found: Mapping[str, tuple[str, ...]]
    ) -> None:
        self._gaussian = gaussian
        many, half = pair.amplified, pair.amplified[: len(pair.amplified) // 2]
        amplified = [fit(pair.without + many) for _ in range(3)]
        self._numbers = _Numbers(amplified[0], found)
        base = np.array([self._numbers.of(fit(pair.without)) for _ in range(_LEARNED_FROM)])
        all_of_them = np.mean([self._numbers.of(tables) for tables in amplified], axis=0)
        half_of_them = np.mean([self._numbers.of(fit(pair.without + half)) for _ in range(3)], axis=0)
        self._centre = np.median(base, axis=0)
        self._spread = np.std(base, axis=0)
        whole = all_of_them - self._centre
        straight = np.abs(whole - 2 * (half_of_them - self._centre)) <= _STRAIGHT * np.abs(whole)
        shift = np.where(straight, whole / pair.n_amplified, 0.0)
        telling = np.abs(whole) > 4 * self._spread
        self._shift = np.where(telling, shift, 0.0)
        noisy = self._spread > 0
        # What never varies without the unit gives it away, unless it does not vary with one unit either.
        single = np.array([self._numbers.of(fit(pair.with_unit)) for _ in range(3)])
        self._certain = ~noisy & (self._shift != 0) & np.all(single != self._centre, axis=0)
        self._places = np.flatnonzero(noisy & (self._shift != 0))
        size = np.abs(self._shift[self._places]) / self._spread[self._places]
        self.visibility = float(np.sum(size**2 if gaussian else size)) + 1e6 * float(self._certain.any())

    def __call__(self, tables: Mapping[str, Any]) -> float:
        """Return about the logarithm of the likelihood ratio."""
        away = self._numbers.of(tables) - self._centre
        exact = float(np.sum(np.sign(away[self._certain]) * np.sign(self._shift[self._certain])))
        places = self._places
        noise, moved, spread = away[places], self._shift[places], self._spread[places]
        if self._gaussian:
            return 1e6 * exact + float(np.sum(noise * moved / spread**2))
        ratio = (np.abs(noise) - np.abs(noise - moved)) * np.sqrt(2) / spread
        return 1e6 * exact + float(np.sum(ratio))


class _Numbers:
    """Puts released numbers in a fixed order: that of one release, and of its keys where those are released.

    A number that is not there counts as 0, in a table of another length all of them.
    """

    def __init__(self, tables: Mapping[str, Any], found: Mapping[str, tuple[str, ...]]) -> None:
        self._found = found
        self._places = {name: _keys(tables[name], keys) for name, keys in found.items()}
        self._columns = [
            (name, field.name, table.num_rows)
            for name, table in sorted(tables.items())
            for field in table.schema
            if str(field.type) in _NUMBERS and field.name not in found.get(name, ())
        ]

    def of(self, tables: Mapping[str, Any]) -> Floats:
        """Return the numbers of a release."""
        parts = [np.zeros(0)]
        for name, column, length in self._columns:
            values = tables[name].column(column).to_numpy().astype(np.float64)
            if name in self._found:
                known = dict(zip(_keys(tables[name], self._found[name]), values, strict=True))
                values = np.array([known.get(key, 0.0) for key in self._places[name]])
            parts.append(values if len(values) == length else np.zeros(length))
        return np.concatenate(parts)


def _keys(table: Any, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
