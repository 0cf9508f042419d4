"""User vectors that are released: what a user's rows load on the item factors, with noise for one row."""

from math import sqrt

import numpy as np
from scipy.sparse import csr_array

from ptklib.arrays import Floats, Ints
from ptklib.embeddings.plan import LOADING, WEIGHT, Measurement
from ptklib.embeddings.poisson import mixture
from ptklib.mechanisms import additive


def noisy_loadings(rows: Ints, n_users: int, factors: Floats, plan: Measurement) -> Floats:
    """Return the sum over each user's rows of weight times the share of each factor in the item, with noise.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, 3)
        User code, item code, weight in units.
    factors : ndarray of shape (n_items, k)
        Released item factors.

    Notes
    -----
    :Sensitivity: an item's shares are truncated to integers that add up to at most `LOADING`, so their length is at
        most that, and a weight is an integer up to `WEIGHT`: one row moves the sums of its user by an integer vector
        no longer than ``LOADING * WEIGHT``, and those of nobody else. All products and sums are exact.
    """
    loadings = np.trunc(shares(factors) * LOADING).astype(np.int64)
    ones = csr_array((rows[:, 2], (rows[:, 0], rows[:, 1])), (n_users, len(factors)))
    exact = (ones @ loadings).astype(np.int64)
    noisy = additive.gaussian(exact.reshape(-1), scale=plan.scale)
    return noisy.reshape(exact.shape).astype(np.float64) / (LOADING * WEIGHT)


def shares(factors: Floats) -> Floats:
    """Return how much of each item is due to each factor, adding up to 1 - 1e-9."""
    return np.asarray(factors / factors.sum(axis=1, keepdims=True) * (1 - 1e-9))


def vectors(noisy: Floats, deviation: float, factors: Floats) -> Floats:
    """Return user vectors from noisy loadings: the posterior mean under the spread of all users, made non-negative.

    Notes
    -----
    A user of vector t loads ``t @ mixing`` in expectation. If noise explains all differences between users,
    every user gets the vector of the average user.
    """
    k = factors.shape[1]
    centre = noisy.mean(axis=0)
    spread = (noisy - centre).T @ (noisy - centre) / max(len(noisy) - 1, 1) - deviation**2 * np.eye(k)
    values, axes = np.linalg.eigh(spread)
    # The largest eigenvalue of pure noise exceeds its variance by this share (Marchenko-Pastur).
    edge = deviation**2 * ((1 + sqrt(k / len(noisy))) ** 2 - 1)
    values = np.where(values > 2 * edge, values, 0.0)
    keep = (axes * (values / (values + deviation**2))) @ axes.T
    better = np.maximum(centre + (noisy - centre) @ keep, 1e-6)
    columns = factors / factors.sum(axis=0)
    mixing = columns.T @ shares(factors)
    mixtures = mixture(mixing.T, better / better.sum(axis=1, keepdims=True))
    return np.asarray(mixtures * better.sum(axis=1, keepdims=True) / factors.sum(axis=0))
