"""Item factors from noisy measurements: only released and public numbers are seen here."""

from math import sqrt

import numpy as np
from scipy.special import log_ndtr

from ptklib.arrays import Floats

_PUBLIC_SEED = 0
"""Chosen once, for everybody: where the search for directions starts."""

_ROTATIONS = 50
_TINY = 1e-12


def shrunken(noisy: Floats, prior_mean: Floats, deviation: float) -> Floats:
    """Return the posterior mean of positive numbers with exponential priors, seen in Gaussian noise.

    Notes
    -----
    The posterior is a normal law of mean ``x - deviation**2 / prior_mean``, cut off below zero. Without noise its mean
    is `noisy`, where that is positive; in overwhelming noise it is `prior_mean`.
    """
    # A prior of next to nothing has a centre of minus infinity, and a mean of next to nothing.
    with np.errstate(all="ignore"):
        centre = (noisy - deviation**2 / prior_mean) / deviation
        # E = centre + phi / Phi; below -30 the difference cancels and 1 / |centre| is its limit.
        ratio = np.exp(-0.5 * centre**2 - 0.5 * np.log(2 * np.pi) - log_ndtr(centre))
    mean = np.where(centre > -30, centre + ratio, -1 / np.minimum(centre, -1.0))
    return np.asarray(np.maximum(mean * deviation, _TINY))


def popularity(counts: Floats, deviation: float) -> Floats:
    """Return the share of each item in all weight, leaning on equal shares where noise prevails."""
    usual = max(float(counts.mean()), deviation / sqrt(len(counts)))
    positive = shrunken(counts, np.full(len(counts), usual), deviation)
    return np.asarray(positive / positive.sum())


def first_basis(usual: Floats, k: int) -> Floats:
    """Return k public orthonormal directions at right angles to `usual`."""
    basis = np.random.default_rng(_PUBLIC_SEED).standard_normal((len(usual), k))
    return np.asarray(np.linalg.qr(without(basis, usual))[0])


def without(columns: Floats, direction: Floats) -> Floats:
    """Return columns with their part along a unit vector removed."""
    return np.asarray(columns - np.outer(direction, direction @ columns))


def varimax(basis: Floats) -> Floats:
    """Return the rotation of `basis` whose columns are sparse, each with its long side positive.

    References
    ----------
    .. [1] Rohe, Zeng, "Vintage Factor Analysis with Varimax Performs Statistical Inference", 2020: sparse factors
       are identified by it.
    """
    k = basis.shape[1]
    rotation, before = np.eye(k), 0.0
    for _ in range(_ROTATIONS):
        loadings = basis @ rotation
        left, values, right = np.linalg.svd(basis.T @ (loadings**3 - loadings * (loadings**2).mean(axis=0)))
        rotation = left @ right
        if values.sum() <= before * (1 + 1e-6):
            break
        before = float(values.sum())
    loadings = basis @ rotation
    return np.asarray(loadings * np.where((loadings**3).sum(axis=0) < 0, -1.0, 1.0))


def first_loadings(basis: Floats, scale: Floats, share: Floats) -> Floats:
    """Return non-negative loadings of items, columns adding up to 1, from directions of taste."""
    positive = np.maximum(varimax(basis), 0.0) / scale[:, None]
    positive = positive / np.maximum(positive.sum(axis=0), _TINY)
    return np.asarray(0.8 * positive + 0.2 * share[:, None])


def blended(mean: Floats, share: Floats, weight: float) -> Floats:
    """Return factors that lean on popularity: with weight 0 every user gets its order of items."""
    return np.asarray(weight * mean + (1 - weight) * np.outer(share, mean.sum(axis=0)))


def alike(mean: Floats) -> bool:
    """Return whether all columns are the same but for their size: there is no taste in them to start from."""
    columns = mean / mean.sum(axis=0)
    return bool(np.allclose(columns, columns[:, :1], rtol=1e-6, atol=0.0))
