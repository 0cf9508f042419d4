"""A paid estimate of a state's loss."""

import math
from dataclasses import dataclass

UNITS = 1 << 20
"""Steps of a loss between 0 and 1."""


@dataclass(frozen=True, slots=True)
class LossEstimate:
    """Noisy sums over privacy units: of their losses, and of what is missing in each to 1. All else follows.

    Parameters
    ----------
    epsilon : float
        What it cost.
    lost, kept : int
        Released. In parts of `UNITS` of a loss of 1; both may be negative.

    Notes
    -----
    A unit of loss l adds l to one sum and 1 - l to the other: one in all. So the two together have the
    sensitivity of a count, and their sum is a noisy count.
    """

    epsilon: float
    lost: int
    kept: int

    @property
    def n_units(self) -> float:
        """Estimated number of privacy units, with a standard deviation of about ``2 / epsilon``."""
        return (self.lost + self.kept) / UNITS

    @property
    def loss(self) -> float | None:
        """Estimated mean loss, in [0, 1]; None when the noise is as large as what there is to measure."""
        if self.n_units < 3 * self._noise:
            return None
        return min(max(self.lost / (self.lost + self.kept), 0.0), 1.0)

    @property
    def standard_error(self) -> float | None:
        """Estimated standard deviation of `loss` as an estimate of the risk: of the noise and, at most, of the sample.

        Notes
        -----
        To first order the noise moves the ratio m by ``((1 - m) a - m b) / n`` for noises a and b. Losses in [0, 1] of
        mean m have a variance of at most ``m (1 - m)``; half a unit on either side keeps it from vanishing at 0 and 1.
        """
        mean = self.loss
        if mean is None:
            return None
        noise = self._noise**2 * ((1 - mean) ** 2 + mean**2) / self.n_units**2
        shrunk = (mean * self.n_units + 0.5) / (self.n_units + 1)
        return math.sqrt(noise + shrunk * (1 - shrunk) / self.n_units)

    @property
    def _noise(self) -> float:
        """Standard deviation of the noise of one sum, Laplace noise of scale ``1 / epsilon``, in losses of 1."""
        return math.sqrt(2) / self.epsilon
