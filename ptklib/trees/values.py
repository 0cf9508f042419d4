"""Values of nodes from noisy sums of leaves: small nodes lean on their parent (post-processing only)."""

from math import sqrt

import numpy as np

from ptklib.arrays import Floats

_KURTOSIS = 5.0
"""Variance of the square of Laplace noise, in squared variances."""


def node_sums(leaves: Floats) -> Floats:
    """Return the sums of all nodes, root first, from those of the leaves along the first axis."""
    levels = [leaves]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2, *leaves.shape[1:]).sum(axis=1))
    return np.concatenate(levels[::-1])


def node_means(
    sums: Floats,
    sizes: Floats,
    sum_variance: float,
    size_variance: float,
    spread: Floats,
    start: Floats,
    most: float,
) -> Floats:
    """Return the mean of every node, root first: the posterior mean given the mean of its parent.

    Parameters
    ----------
    sums : ndarray of shape (n_leaves, n_values)
        Noisy sums of something in each leaf.
    sizes : ndarray of shape (n_leaves, n_values) or (n_leaves, 1)
        Noisy weights the sums are divided by.
    sum_variance, size_variance : float
        Of the noise in one leaf.
    spread : ndarray of shape (n_values,)
        Variance of a sum per unit of weight, without noise: how much rows of one node differ.
    start : ndarray of shape (n_values,)
        The value that the root leans on.
    most : float
        The deviation of a node from its parent has a variance of at most so many `spread`.

    Notes
    -----
    Level by level, that variance is estimated from the release itself, over all nodes, as what exceeds noise
    and the chance of drawing other rows. If nothing exceeds them by more than noise may, or sizes are hidden
    by noise, a level repeats its parents. So noise alone moves no prediction, and a tree is as deep as its
    data allow.
    """
    n_leaves, size = len(sums), 1
    means, parents = [], np.asarray(start, dtype=np.float64)[None, :]
    while size <= n_leaves:
        shape = (size, n_leaves // size, -1)
        s, n = sums.reshape(shape).sum(axis=1), sizes.reshape(shape).sum(axis=1)
        noise_s, noise_n = sum_variance * shape[1], size_variance * shape[1]
        deviations, weight = s - parents * n, np.maximum(n, 0.0)
        noise = noise_s + parents**2 * noise_n + spread * weight
        signal = float((deviations**2 - noise).sum())
        beyond = signal - sqrt(_KURTOSIS * float((noise**2).sum()))
        sure = float((n**2).sum()) - (n.size + 2 * sqrt(_KURTOSIS * n.size)) * noise_n
        if beyond > 0 and sure > 0:
            prior = spread * min(signal / float(((n**2 - noise_n) * spread).sum()), most)
            parents = parents + weight * deviations / (weight**2 + noise / prior)
        means.append(parents)
        size, parents = 2 * size, np.repeat(parents, 2, axis=0)
    return np.concatenate(means)
