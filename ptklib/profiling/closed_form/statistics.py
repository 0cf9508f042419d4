"""Expected error of historical statistics, from the sampling of rows and the scales of the noise."""

import math
from collections.abc import Callable

import numpy as np

from ptklib.arrays import Floats
from ptklib.exceptions import InvalidParameterError
from ptklib.profiling.closed_form.facts import Facts
from ptklib.release import plan_release
from ptklib.statistics import HistoricalStatistics
from ptklib.statistics.layout import COUNT, layout_of

NORMAL = math.sqrt(2 / math.pi)
"""Mean distance from 0 in standard deviations of a normal; that of Laplace noise is less."""


def statistics_error(estimator: HistoricalStatistics, facts: Facts) -> Callable[[float], float]:
    """Return the expected `error_from_true_value` as a function of the number of rows.

    Raises
    ------
    InvalidParameterError
        For standard deviations and quantiles, whose error depends on densities.

    Notes
    -----
    In a group of m = n w rows, w its share, z its mean and v its variance, in half widths and their squares:

    - a mean errs by ``sampling v / m`` and noise ``(V_sum + z**2 V_count) / m**2``, variances;
    - a variance by at most ``(4 v - v**2) / m`` (the square of a distance is at most 4 and has mean v) and
      ``(V_squares + 4 z**2 V_sum + (z**2 + 1/2 - v)**2 V_count) / m**2``;
    - shares of B bins by total variation ``sqrt((B - 1) / m) / 2`` and, at the vertices of the simplex where it is
      largest, noise ``(B - 1 + sqrt(B - 1)) / 2`` times that of a bin over m;
    - counts alone by total variation of the shares of groups.

    Errors of the shrinkage that sparse groups are read with are not larger, so this is an upper estimate; each miss
    counts at most 1.
    """
    layout = layout_of(estimator)
    if layout.asks("std") or layout.asks("quantiles"):
        raise InvalidParameterError(
            "standard deviations and quantiles have no formula: profile them by samples"
        )
    plan = plan_release(layout.components(), estimator.epsilon, estimator.delta, estimator.max_rows_per_unit)
    variance = {c.name: plan.noise_variance(c.name) for c in layout.components()}
    shares = facts.weights("statistics", layout.n_groups)
    count_noise = variance[COUNT]
    if not layout.bounds:
        return lambda n: _share_error(n, shares, math.sqrt(count_noise))

    steps, spread, reach = layout.steps(), facts.spread**2, facts.mean_reach**2

    def error(n: float) -> float:
        rows = n * shares[shares > 0]
        weight = shares[shares > 0]
        values = []
        for name, bounds in layout.bounds.items():
            half, misses = bounds.half_width, []
            if layout.sums:
                noise = variance[f"{name}_sum"] * (steps[f"{name}_sum"] / half) ** 2
                if layout.asks("mean") or layout.asks("sum"):
                    misses.append(_miss(rows, spread, noise + reach * count_noise) / 2)
                if layout.asks("variance"):
                    squares = variance[f"{name}_squares"] * (steps[f"{name}_squares"] / half**2) ** 2
                    lever = (reach + 0.5) ** 2  # at v = 0 and the largest z**2
                    own = squares + 4 * reach * noise + lever * count_noise
                    misses.append(_miss(rows, 4 * spread - spread**2, own))
            if layout.asks("histogram"):
                more = layout.bins[name].n_bins - 1
                noise = math.sqrt(variance[f"{name}_bins"]) * (more + math.sqrt(more))
                misses.append(NORMAL / 2 * (np.sqrt(more / rows) + noise / rows))
            values.append(np.mean([float(np.minimum(miss, 1.0) @ weight) for miss in misses]))
        return min(float(np.mean(values)), 1.0)

    return error


def _miss(rows: Floats, sampling: float, noise: float) -> Floats:
    return np.asarray(NORMAL * np.sqrt(sampling / rows + noise / (rows * rows)))


def _share_error(n: float, shares: Floats, noise: float) -> float:
    """Return the expected total variation between released and true shares of groups.

    Notes
    -----
    Clipped noisy counts a add up to A: ``sum |a / A - c / n| <= (sum |a - c| + |A - n|) / n``.
    """
    size = len(shares)
    sampled = NORMAL * float(np.sqrt(shares * (1 - shares) / n).sum())
    noisy = NORMAL * noise * (size + math.sqrt(size)) / n
    return min((sampled + noisy) / 2, 1.0)
