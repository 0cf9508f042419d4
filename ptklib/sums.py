"""Releases that are noisy sums: one joint noise draw over integer vectors that add up."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.base import DPEstimator, Release, Units
from ptklib.exceptions import CorruptStateError
from ptklib.fit_cache import once
from ptklib.privacy import PrivacyLoss
from ptklib.release import Component, ReleasePlan, plan_release
from ptklib.state import ReleasedState

Values = Mapping[str, Floats]


class NoisySums(DPEstimator):
    """Parent of every PTK family whose release is a set of noisy sums.

    A family says which integer vectors it adds up and how noisy sums become tables. Releases add up: a
    continued state carries the sums of all its releases and their noise.
    """

    @abstractmethod
    def _components(self) -> Sequence[Component]:
        """Return the integer vectors of the release."""

    @abstractmethod
    def _steps(self) -> dict[str, float]:
        """Return what one unit of each component is worth."""

    @abstractmethod
    def _read(self, values: Values, variance: Mapping[str, float]) -> Release:
        """Turn accumulated noisy values and the variance of their noise into tables; post-processing only."""

    @abstractmethod
    def _values_of(self, tables: Mapping[str, Any]) -> dict[str, Floats]:
        """Return the accumulated noisy values the tables were made from."""

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `fit`, before any data are read."""
        return self._plan().loss

    @once
    def _plan(self) -> ReleasePlan:
        self.table_schemas()  # refuses columns that would collide
        return plan_release(self._components(), self.epsilon, self.delta, self._rows_per_unit())

    def _empty(self) -> dict[str, Ints]:
        return {c.name: np.zeros(c.size, dtype=np.int64) for c in self._components()}

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        values, variance = self._accumulate(exact, previous)
        return replace(self._read(values, variance), noise_variance=variance)

    def _accumulate(
        self, exact: Units, previous: ReleasedState | None
    ) -> tuple[dict[str, Floats], dict[str, float]]:
        """Draw the noise and add `previous`: noisy values and the variance of their noise."""
        plan, steps = self._plan(), self._steps()
        noisy = plan.draw(exact)
        values = {name: noisy[name].astype(np.float64) * step for name, step in steps.items()}
        variance = {name: plan.noise_variance(name) * step * step for name, step in steps.items()}
        if previous is not None:
            before, noise = self._values_of(previous.tables), previous.meta["noise_variance"]
            values = {name: value + before[name] for name, value in values.items()}
            variance = {name: v + float(noise[name]) for name, v in variance.items()}
        return values, variance

    def _check_state(self, state: ReleasedState) -> None:
        super()._check_state(state)
        if set(state.meta["noise_variance"]) != {c.name for c in self._components()}:
            raise CorruptStateError("noise_variance does not name the components of the release")
        floats = {n: {f.name for f in s.schema} - set(s.keys) for n, s in self.table_schemas().items()}
        if {n: set(columns) for n, columns in state.meta["defaults"].items()} != floats:
            raise CorruptStateError("defaults do not name the columns of the tables")


def lookup_table(released: Any, columns: Sequence[str], defaults: Mapping[str, float]) -> Floats:
    """Return one row of features per code and a last row of defaults, which is where `OUTSIDE` = -1 points."""
    values = [np.append(released.column(name).to_numpy(), defaults[name]) for name in columns]
    return np.column_stack(values)
