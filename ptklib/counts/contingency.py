"""Noisy counts of one feature's values, and the probabilities read from them (post-processing only)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ptklib.arrays import Floats
from ptklib.shrinkage import clipped_shares, prior_variance, shrunken_deviation


@dataclass(frozen=True, eq=False)
class Contingency:
    """Noisy counts per value and class."""

    keys: Any
    """Shape (n_values,)."""
    counts: Floats
    """Unclipped, in rows. Shape (n_values, n_classes)."""
    variance: Floats
    """Variance of the noise in each count of a value. Shape (n_values,)."""

    @classmethod
    def nothing(cls, arrow_type: Any, n_classes: int) -> "Contingency":
        """Return the counts of no value at all."""
        return cls(pa.array([], type=arrow_type), np.zeros((0, n_classes)), np.zeros(0))


def overall_shares(tables: list[Contingency], n_classes: int) -> Floats:
    """Return the share of each class over all features, leaning on equal shares where noise prevails."""
    totals = np.zeros(n_classes)
    for table in tables:
        totals += table.counts.sum(axis=0)
    variance = float(sum(table.variance.sum() for table in tables))
    equal = np.full(n_classes, 1 / n_classes)
    if variance == 0:  # no value is known
        return equal
    size = max(float(totals.sum()), 0.0)
    deviations = totals - size * equal
    return clipped_shares(equal + shrunken_deviation(deviations, np.asarray([size]), variance, 0.25))


def probabilities(table: Contingency, share: Floats) -> Floats:
    """Return class probabilities of each value, of shape (n_values, n_classes), shrunken towards `share`."""
    counts, variance = table.counts, table.variance[:, None]
    n_classes = counts.shape[1]
    size = counts.sum(axis=1)
    deviations = counts - size[:, None] * share
    spread = share * (1 - share)
    noise = variance * ((1 - share) ** 2 + share**2 * (n_classes - 1))
    expected = noise + np.maximum(size, 0.0)[:, None] * spread
    size_noise = n_classes * float(table.variance.mean()) if len(size) else 0.0
    prior = prior_variance(
        deviations, np.repeat(size[:, None], n_classes, axis=1), expected, size_noise, 0.25
    )
    return clipped_shares(share + shrunken_deviation(deviations, size[:, None], expected, prior))
