"""The threshold that a block asks of its next query (budgeting paper, section VI-A, equation 9)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """How significant a query must be for its cost, depending on what a block has consumed.

    Parameters
    ----------
    least, most : float
        L and U: public bounds on significance per epsilon. They are declared, never read off rows.
    comparison_nano : int
        epsilon_0: what one noisy threshold costs, or one noisy significance. 0 where significance is public.

    Raises
    ------
    InvalidRequest
        U <= L, or a bound is not positive and finite, or the cost is negative.
    """

    least: float
    most: float
    comparison_nano: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.least) and math.isfinite(self.most) and self.least > 0):
            raise InvalidRequest("bounds on significance per epsilon are positive and finite")
        if not math.isfinite(self.most / self.least):
            raise InvalidRequest("bounds on significance per epsilon are too far apart")
        if self.most <= self.least:
            raise InvalidRequest("the upper bound U on significance per epsilon is above the lower bound L")
        if self.comparison_nano < 0:
            raise InvalidRequest("a comparison has no negative cost")

    @property
    def span(self) -> float:
        """1 + ln(U / L)."""
        return 1 + math.log(self.most / self.least)

    @property
    def free_share(self) -> float:
        """z_0: the share of a block that any query may have."""
        return 1 / self.span

    def at(self, consumed: float) -> float:
        """Return T(z) for a consumed share z: L up to z_0, then rising to U.

        Raises
        ------
        InvalidRequest
            The share is outside [0, 1].
        """
        if not 0 <= consumed <= 1:
            raise InvalidRequest("the consumed share of a block is between 0 and 1")
        if consumed <= self.free_share:
            return self.least
        return self.least * math.exp(consumed * self.span - 1)

    @property
    def constant(self) -> float:
        """The threshold U / (1 + ln(U / L)) of Algorithm 3."""
        return self.most / self.span
