"""The server's rules: start instances, put reports, average, and which reports an honest device may send."""

from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Floats, Ints
from ptklib.draw_discard.noise import noise_quantile
from ptklib.draw_discard.specification import Specification
from ptklib.draw_discard.updates import Weights, check_weights, saturated
from ptklib.exceptions import InvalidParameterError
from ptklib.mechanisms.additive import gaussian
from ptklib.mechanisms.coins import uniform_below
from ptklib.scalars import finite_number

Instances = npt.NDArray[np.int32]


def start_instances(specification: Specification, around: npt.ArrayLike | None = None) -> Instances:
    """Return k instances, (k, n_weights), int32: independent normal draws around a start.

    Parameters
    ----------
    specification : Specification
    around : array-like of shape (n_weights,)
        Public weights to begin with, as `average_instances` returns them; zero if it is None.

    Raises
    ------
    InvalidParameterError
        When the start has another shape or numbers that are not finite.

    Notes
    -----
    Their variance is ``specification.instance_variance``, so their expected *sample* variance has the value at which
    Theorem 1 keeps it. Draws are from the exact discrete Gaussian of that variance.

    References
    ----------
    .. [1] The paper, section III-C a; docs/proofs/draw_discard.md, "Instances".
    """
    centre = np.zeros(specification.n_weights) if around is None else np.asarray(around, dtype=np.float64)
    if centre.shape != (specification.n_weights,) or not np.isfinite(centre).all():
        raise InvalidParameterError(f"around must hold {specification.n_weights} finite numbers")
    units = np.rint(np.clip(centre, -(2.0**31), 2.0**31) * 2.0**specification.grid_bits)
    wide = np.tile(saturated(units).astype(np.int64), (specification.k, 1))
    return saturated(gaussian(wide, scale=sqrt(specification.instance_variance)))


def draw_instance(specification: Specification, instances: Instances) -> Weights:
    """Return a copy of a uniformly random instance, (n_weights,): what a device begins with.

    References
    ----------
    .. [1] The paper, Algorithm 2.
    """
    return np.array(check_instances(specification, instances)[uniform_below(specification.k)])


def put_report(specification: Specification, instances: Instances, report: Weights) -> int:
    """Write a report over a uniformly random instance; return which.

    Parameters
    ----------
    specification : Specification
    instances : ndarray of shape (k, n_weights), int32
        Changed in place.
    report : ndarray of shape (n_weights,), int32

    Raises
    ------
    InvalidParameterError
        When shapes or types are wrong; nothing has changed then.

    References
    ----------
    .. [1] The paper, Algorithm 2.
    """
    check_instances(specification, instances)
    checked = check_weights(specification, report)
    place = uniform_below(specification.k)
    instances[place] = checked
    return place


def average_instances(specification: Specification, instances: Instances) -> Floats:
    """Return the weights that are published, (n_weights,): the mean of the instances, as numbers.

    References
    ----------
    .. [1] The paper, section III-C b.
    """
    total: Ints = check_instances(specification, instances).sum(axis=0, dtype=np.int64)
    return np.asarray(total / (specification.k * 2.0**specification.grid_bits))


def check_instances(specification: Specification, instances: object) -> Instances:
    """Return an array when it has the type and shape of all instances."""
    shape = (specification.k, specification.n_weights)
    if not isinstance(instances, np.ndarray) or instances.dtype != np.int32 or instances.shape != shape:
        raise InvalidParameterError(f"instances must be an int32 array of shape {shape}")
    return instances


def spam_multiple(specification: Specification, refused_rate: float) -> float:
    """Return t: an honest report is within t deviations of the instances' mean in all weights, with few exceptions.

    Parameters
    ----------
    specification : Specification
    refused_rate : float
        Share of honest reports that may be beyond, above 0 and below 1.

    Notes
    -----
    An instance is at most ``(k - 1) / sqrt(k)`` sample deviations from the mean (Samuelson's inequality), a step is at
    most `reach`, and the noise of no weight exceeds its quantile but with probability `refused_rate`. So t holds
    whatever the genealogy of the instances is: docs/proofs/draw_discard.md, "Spam".

    References
    ----------
    .. [1] The paper, section III-D 4, whose t = 3 refuses most honest reports of a model of many weights.
    """
    rate = finite_number(refused_rate, "refused_rate", InvalidParameterError)
    if not 1e-12 <= rate < 1:
        raise InvalidParameterError("refused_rate must lie in [1e-12, 1)")
    s = specification
    noise = noise_quantile(s.noise, s.noise_scale, s.n_weights, rate)
    return (s.k - 1) / sqrt(s.k) + (s.reach + noise) / sqrt(s.instance_variance)


@dataclass(frozen=True, eq=False)
class HonestRange:
    """A range around the instances that all weights of an honest report are within.

    Parameters
    ----------
    means, widths : ndarray of shape (n_weights,)
        In units of the grid: a report is admitted when no weight is further than its width from its mean.
    """

    means: Floats
    widths: Floats

    @classmethod
    def of(cls, specification: Specification, instances: Instances, refused_rate: float) -> Self:
        """Return the range around the instances.

        Notes
        -----
        The deviation is the sample's or the root of the public variance ``k * sigma**2 / 2``, whichever is larger: one
        run's sample variance swings from a third to three times that, in all weights together.

        Of honest reports, at most `refused_rate` are outside if they began with one of these instances.
        """
        checked = check_instances(specification, instances).astype(np.float64)
        means = checked.mean(axis=0)
        variances = np.full(specification.n_weights, specification.instance_variance)
        if specification.k > 1:
            variances = np.maximum(variances, checked.var(axis=0, ddof=1))
        return cls(means, spam_multiple(specification, refused_rate) * np.sqrt(variances) + 1)

    def beyond(self, report: Weights) -> Bools:
        """Return which weights of a report are outside, (n_weights,)."""
        if report.dtype != np.int32 or report.shape != self.means.shape:
            raise InvalidParameterError(f"weights must be an int32 array of shape {self.means.shape}")
        return np.asarray(np.abs(report - self.means) > self.widths)

    def admits(self, report: Weights) -> bool:
        """Return whether no weight of a report is outside."""
        return not self.beyond(report).any()
