"""A score learned from outputs, for trainers whose draws cannot be replayed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ptklib.arrays import Floats
from ptklib.checks.rows import Neighbours, Rows
from ptklib.checks.trainings import Trainings, fitted

_LEARNED_FROM = 40
_NUMBERS = ("double", "int64")
_STRAIGHT = 0.2
"""A column counts as a sum when 2 m units move it by twice as much as m units do, up to this share."""


class LearnedScore:
    """About the likelihood ratio of released numbers: which of them add up, and how noisy each is.

    Notes
    -----
    Outputs on many more units like the one in question show how far a single one moves each number that is a
    noisy sum; fits without it show the noise. The learned score decides only how much the audit sees: bounds
    come from other fits.
    """

    def __init__(self, estimator: Any, pair: Neighbours) -> None:
        def fit(rows: Rows) -> Mapping[str, Any]:
            tables: Mapping[str, Any] = fitted(estimator, rows.X, rows.y).tables_
            return tables

        released_keys = {name: estimator.table_schemas()[name].keys for name in estimator.released_keys()}
        self._gaussian = gaussian = estimator.declared_loss().delta > 0
        self._trainings = Trainings(estimator, pair)
        many, half = pair.amplified, pair.amplified[: len(pair.amplified) // 2]
        amplified = [fit(pair.without + many) for _ in range(3)]
        self._numbers = _Numbers(amplified[0], released_keys)
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

    def trial(self, inside: bool) -> float:
        """Return about the logarithm of the likelihood ratio of one release."""
        tables = self._trainings.tables(inside)
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

    def __init__(self, tables: Mapping[str, Any], released_keys: Mapping[str, tuple[str, ...]]) -> None:
        self._released_keys = released_keys
        self._places = {name: _keys(tables[name], keys) for name, keys in released_keys.items()}
        self._columns = [
            (name, field.name, table.num_rows)
            for name, table in sorted(tables.items())
            for field in table.schema
            if str(field.type) in _NUMBERS and field.name not in released_keys.get(name, ())
        ]

    def of(self, tables: Mapping[str, Any]) -> Floats:
        """Return the numbers of a release."""
        parts = [np.zeros(0)]
        for name, column, length in self._columns:
            values = tables[name].column(column).to_numpy().astype(np.float64)
            if name in self._released_keys:
                by_key = dict(zip(_keys(tables[name], self._released_keys[name]), values, strict=True))
                values = np.array([by_key.get(key, 0.0) for key in self._places[name]])
            parts.append(values if len(values) == length else np.zeros(length))
        return np.concatenate(parts)


def _keys(table: Any, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
