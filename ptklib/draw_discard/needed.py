"""How many reports a model needs before what it learnt is more than noise."""

from math import ceil, sqrt

from ptklib.draw_discard.specification import Specification

SIGNAL = 8.0
"""Squared ratio of the longest path of a weight to the noise on it, at which models gain about half of what they could.

Measured, not derived: docs/draw-discard.md, "How many reports".
"""


def reports_needed(specification: Specification) -> int:
    """Estimate how many reports a model needs, counted over all devices and windows.

    It estimates the number after which a model with a fitting learning rate has about half of the gain in log loss
    that is possible. Simulated models of 9 to 33 weights had between .44 and .68 of it there, and between nothing and
    .37 at a quarter of the number. It is enough to tell that a model has no chance, and it is no promise.

    Parameters
    ----------
    specification : Specification

    Notes
    -----
    A line of instances has one report of k, since a report replaces one instance of k. After T reports noise
    has moved each weight by ``sigma * sqrt(T / k)`` on average. Steps have moved it by ``c * T / k`` at most,
    where c is the longest step when all p weights share it evenly. That is ``reach / p`` for ``clip="l1"``,
    ``reach / sqrt(p)`` for "l2", and ``reach`` for "coordinate". The number is where the square of their
    ratio, ``T * c**2 / (k * sigma**2)``, reaches `SIGNAL`. The learning rate cancels out. For Laplace noise
    and "l1" or "l2" it is ``SIGNAL * 8 * k * p**2 / epsilon**2``.

    It counts noise alone. It does not say how many reports a model needs without any noise, and how many more
    with a learning rate that is too small or too large.

    References
    ----------
    .. [1] docs/proofs/draw_discard.md, "Instances".
    """
    s = specification
    shares = {"l1": float(s.n_weights), "l2": sqrt(s.n_weights), "coordinate": 1.0}
    longest = s.reach / shares[s.clip]
    return ceil(SIGNAL * s.k * s.noise_variance / longest**2)
