"""Write the table of `docs/epsilon.md`: expected errors of counts, means and medians, by ptklib's formulas.

python docs/epsilon.py            # prints the table
"""

import math
import sys
from collections.abc import Callable, Iterator

import numpy as np

from ptklib import HistoricalStatistics
from ptklib.profiling import expected_error
from ptklib.profiling.closed_form.statistics import NORMAL
from ptklib.release import plan_release
from ptklib.statistics.layout import COUNT, layout_of

ROWS = (10_000, 1_000_000)
KEYS = (1, 24, 1_000)
EPSILONS = (0.1, 1.0, 3.0)


def count_error(rows: float, keys: int, epsilon: float, per_unit: int = 1) -> float:
    """Return the root mean square of a count's noise, over the rows of a key."""
    return math.sqrt(_noise_variance("count", COUNT, keys, epsilon, per_unit)) * keys / rows


def mean_error(rows: float, keys: int, epsilon: float, per_unit: int = 1) -> float:
    """Return the expected error of a key's mean, in widths of the bounds, where values are at either bound.

    Notes
    -----
    This is `expected_error` with the worst facts.
    """
    return expected_error(_statistics(("count", "mean"), keys, epsilon, per_unit), rows)


def median_error(rows: float, keys: int, epsilon: float, per_unit: int = 1) -> float:
    """Return the expected error of the share of a key's rows below an edge of the 32 bins that a median is read from.

    Notes
    -----
    The share below edge j of B, with T the joined total, is ``(sum of j bins - j T / B) / T + j / B``. Its first part
    has the noise variance ``j (B - j) / B V``; T adds at most ``(1/2 - j / B)**2`` times its own, which is at most
    ``B V``. So the variance is at most ``B V / 4``, whatever the data. A sample of m rows adds at most ``1 / (4 m)``.
    """
    estimator = _statistics(("count", "quantiles"), keys, epsilon, per_unit)
    (bins,) = layout_of(estimator).bins.values()
    if len(bins.levels) != 1:
        raise ValueError("the formula is that of one level of bins")
    noise = bins.n_bins / 4 * _noise_variance(("count", "quantiles"), "x_bins", keys, epsilon, per_unit)
    m = rows / keys
    return min(NORMAL * math.sqrt(1 / (4 * m) + noise / (m * m)), 1.0)


FORMULAS: dict[str, Callable[..., float]] = {"count": count_error, "mean": mean_error, "median": median_error}


def table() -> Iterator[str]:
    """Return the lines of the page's table."""
    yield "| rows | keys | epsilon | count | mean | median |"
    yield "|--:|--:|--:|--:|--:|--:|"
    for rows in ROWS:
        for keys in KEYS:
            for epsilon in EPSILONS:
                errors = [percent(formula(rows, keys, epsilon)) for formula in FORMULAS.values()]
                yield f"| {rows:,} | {keys:,} | {epsilon:g} | {' | '.join(errors)} |"


def percent(error: float) -> str:
    """Return an error as the page shows it."""
    return f"{np.format_float_positional(100 * error, 2, fractional=False, trim='-')} %"


def _statistics(
    asked: str | tuple[str, ...], keys: int, epsilon: float, per_unit: int
) -> HistoricalStatistics:
    bounds = None if asked == "count" else {"x": (0, 1)}
    return HistoricalStatistics(
        domains={"key": range(keys)}, bounds=bounds, statistics=asked, epsilon=epsilon, max_rows_per_unit=per_unit
    )  # fmt: skip


def _noise_variance(
    asked: str | tuple[str, ...], component: str, keys: int, epsilon: float, per_unit: int
) -> float:
    estimator = _statistics(asked, keys, epsilon, per_unit)
    plan = plan_release(layout_of(estimator).components(), epsilon, 0, per_unit)
    return plan.noise_variance(component)


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
