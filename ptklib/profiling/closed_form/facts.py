"""The facts about data that a formula may use: public or paid numbers only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ptklib.exceptions import InvalidParameterError
from ptklib.scalars import finite_number


@dataclass(frozen=True)
class Facts:
    """Numbers about the data that are public, or were released and paid for.

    For each fact that is missing, the worst is assumed.

    Parameters
    ----------
    shares : mapping of str to sequence of float, optional
        Share of the rows in each group of a table, by the table's name (``"statistics"``, or a feature), in the order
        of its keys. Equal shares are the worst.
    spread : float
        Standard deviation of values within a group, in half widths of their bounds: at most 1.
    mean_reach : float
        The distance of group means from the middle of the bounds, in half widths: at most 1.
    total_variance : float, optional
        Trace of a covariance matrix, in squared half widths. The error of a covariance is relative to its size, so
        nothing can be said without it.
    frobenius : float, optional
        Frobenius norm of the matrix; its trace over the root of the number of columns is the least.
    mean_norm : float, optional
        Norm of the mean of standardised rows.
    """

    shares: Mapping[str, Sequence[float]] | None = None
    spread: float = 1.0
    mean_reach: float = 1.0
    total_variance: float | None = None
    frobenius: float | None = None
    mean_norm: float | None = None

    def __post_init__(self) -> None:
        for name in ("spread", "mean_reach"):
            if not 0 < finite_number(getattr(self, name), name) <= 1:
                raise InvalidParameterError(f"{name} must be in (0, 1], in half widths of the bounds")
        for name in ("total_variance", "frobenius", "mean_norm"):
            value = getattr(self, name)
            if value is not None and finite_number(value, name) < 0:
                raise InvalidParameterError(f"{name} must not be negative")

    def weights(self, table: str, size: int) -> Any:
        """Return the share of each of `size` groups of a table."""
        if self.shares is None or table not in self.shares:
            return np.full(size, 1 / size)
        given = np.asarray(self.shares[table], dtype=np.float64)
        if given.shape != (size,) or not np.isfinite(given).all() or (given < 0).any() or given.sum() <= 0:
            raise InvalidParameterError(f"shares of {table!r} must be one number per group, not negative")
        return given / given.sum()
