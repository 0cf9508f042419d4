"""The noise of sums in leaves: of their own, or parts of one pool that boosted or counted trees share."""

from math import sqrt

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.trees.objectives import Objective
from ptklib.trees.plans import RoundsPlan
from ptklib.trees.rounds import COUNTS, POOL, STEPS, WEIGHTS, Settings, row_limit, step_part
from ptklib.trees.targets import UNITS

_SUM_MAX = 2**62


class Noise:
    """Releases exact sums with the noise of a plan.

    Attributes
    ----------
    pooled : bool
        Whether sums have parts of a pool.
    n_counted : int
        How many trees are counted; 0 where trees are boosted. Set by whoever decides it from released values.
    """

    def __init__(self, objective: Objective, settings: Settings, plan: RoundsPlan) -> None:
        self._objective, self._settings, self._plan = objective, settings, plan
        self.pooled, self.n_counted = bool(settings.n_counted), 0

    def variance(self, name: str) -> float:
        """Return the variance of the noise in one cell, in the units of its exact sums."""
        if not self.pooled:
            return self._plan.noise_variance(name)
        return self._plan.noise_variance(POOL) / self._multiplier(name) ** 2

    def release(self, name: str, exact: Ints) -> Floats:
        """Return noisy sums."""
        if not self.pooled:
            return self._plan.add_noise(name, exact.reshape(-1)).reshape(exact.shape).astype(np.float64)
        multiplier = self._multiplier(name)
        limited = np.clip(exact.reshape(-1), -(_SUM_MAX // multiplier), _SUM_MAX // multiplier)
        noisy = self._plan.add_noise(POOL, limited * multiplier)
        return np.asarray(noisy.reshape(exact.shape) / multiplier, dtype=np.float64)

    def _multiplier(self, name: str) -> int:
        """Return what the units of a sum count in the pool.

        Notes
        -----
        Either all rounds take their parts of what a row may add, or all counted trees do; the released start
        decides which. So a row adds `row_limit` at most in either case: in L1 norm below Laplace noise, whose
        parts add up, and in L2 norm below Gaussian noise, whose squares do.
        """
        objective, settings = self._objective, self._settings
        l1, l2, part = {
            COUNTS: (UNITS, UNITS, 1 / max(self.n_counted, 1)),
            STEPS: (objective.step_l1, objective.step_l2, step_part() / settings.n_rounds),
            WEIGHTS: (objective.weight_l1, objective.weight_l2, (1 - step_part()) / settings.n_rounds),
        }[name]
        most = row_limit(settings)
        return int(most * sqrt(part) / l2) if self._plan.gaussian else int(most * part / l1)
