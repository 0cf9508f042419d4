"""Rényi curve of Gaussian noise on a Poisson sample: each unit takes part by a coin of its own.

With P the noise without the unit and Q with it, the unit taking part with probability q gives the mixture
``(1 - q) P + q Q``. At an integer order a the divergence from P is, by the binomial theorem,

    log(sum over j of C(a, j) (1 - q)**(a - j) q**j E_P[(Q / P)**j]) / (a - 1),

and ``E_P[(Q / P)**j] = exp((j - 1) D_j(Q, P)) <= exp(j (j - 1) rho)`` for every rho-zCDP mechanism, discrete
Gaussian noise included: all terms are positive, so the continuous Gaussian's formula is an upper bound. The
reverse divergence is no larger whenever an involution swaps P and Q [1]_; for discrete Gaussian noise moved by an
integer vector d it is ``x -> d - x``. Between integer orders ``(a - 1) D_a`` is convex and is 0 at a = 1, so the chord
is an upper bound there. Above the largest order that is summed, sampling is ignored, which only adds.

References
----------
.. [1] Mironov, Talwar, Zhang, "Rényi Differential Privacy of the Sampled Gaussian Mechanism", 2019, Theorem 5 and
   section 3.3.
"""

import math

import numpy as np

from ptklib.arrays import Floats

ORDER_MAX = 1024
"""The sum has as many terms as the order."""

_ROUND_UP = 1.0 + 1e-9
"""Binomial coefficients of order 1024 come out of log-gamma with a relative error of 1e-12 in their logarithm."""


def sampled_gaussian_curve(alphas: Floats, rho: float, sampling_rate: float) -> Floats:
    """Return an upper bound of the divergence of rho-zCDP Gaussian noise on a Poisson sample.

    Parameters
    ----------
    alphas : ndarray of float
        Finite orders above 1.
    rho : float
        ``(sensitivity / scale)**2 / 2``.
    sampling_rate : float
        Probability of a unit to take part, above 0 and at most 1.
    """
    plain = alphas * rho
    if sampling_rate == 1:
        return plain
    low = np.floor(alphas)
    high = np.ceil(alphas)
    summed = high <= ORDER_MAX
    moments = {1: 0.0}  # log E[(mixture / P)**a] = (a - 1) D_a
    for order in {int(order) for order in (*low[summed], *high[summed])} - {1}:
        moments[order] = _log_moment(order, rho, sampling_rate)
    curve = plain.copy()
    for i in np.flatnonzero(summed):
        first, last, share = moments[int(low[i])], moments[int(high[i])], alphas[i] - low[i]
        chord = first + share * (last - first)
        curve[i] = min(curve[i], chord * _ROUND_UP / (alphas[i] - 1) + 1e-15)
    return curve


def _log_moment(order: int, rho: float, rate: float) -> float:
    from scipy.special import gammaln  # scipy is slow to import

    j = np.arange(order + 1, dtype=np.float64)
    binomial = gammaln(order + 1) - gammaln(j + 1) - gammaln(order - j + 1)
    weights = binomial + (order - j) * math.log1p(-rate) + j * math.log(rate)
    # The binomial weights sum to 1: what is above 1 is summed without cancellation. Logarithms all the way, since a
    # weight may be too small for float64 where its power of the ratio is too large.
    gain = j[2:] * (j[2:] - 1) * rho
    with np.errstate(divide="ignore"):  # log(0) without any loss
        terms = weights[2:] + gain + np.log(-np.expm1(-gain))
    return float(np.logaddexp(0.0, np.logaddexp.reduce(terms)))
