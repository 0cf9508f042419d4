"""The distance of tastes from popularity: one number about all users, which a single user moves by 1 at most."""

from math import sqrt

import numpy as np
from scipy.sparse import csr_array

from ptklib.arrays import Floats, Ints

ITEMS_SEEN = 512
"""Tastes are looked for among so many items, the most popular: noise hides those of others first."""

_TRACY_WIDOM = 3.27
"""Exceeded once in a thousand by the limit law of the largest eigenvalue of real noise [1]_ (of `largest_of_noise`)."""

GRID = 2**12
"""Integers in a user of length 1: their products add up exactly in 64 bits for any number of users."""


def common_taste(entries: Ints, items: Ints, starts: Ints, usual: Floats, k: int) -> float:
    """Return the length of the k largest positive eigenvalues of what users' tastes have in common.

    Parameters
    ----------
    entries, items : ndarray of shape (n_entries,)
        Entries of users end to end, a user being an integer vector of length `GRID` at most, and their items.
    starts : ndarray of shape (n_users + 1,)
    usual : ndarray of shape (n_items,)
        Direction of popularity.

    Returns
    -------
    float
        In users: each of n users who share k tastes equally adds about ``k**-0.5``; users of no taste add next to
        nothing.

    Notes
    -----
    Let users' vectors x be of length 1 at most, G the sum of ``x x'`` and P the projection away from `usual`.
    These are the eigenvalues of ``P G P`` without its diagonal, to which users add by themselves.

    :Sensitivity: 1. A user adds ``x x'``, of Frobenius norm ``|x|**2``; P and taking the diagonal away do not
        lengthen it. The number is the largest inner product of the matrix with a positive semidefinite one of
        rank k and norm 1. That is a maximum of linear functions, none of which moves by more than the matrix
        does. Another vector instead of x moves it by 2 at most. `rounding` bounds what floating point adds.
    """
    shape = (len(starts) - 1, len(usual))
    rows = csr_array((entries.astype(np.int64), items, starts), shape)
    gram = (rows.T @ rows).toarray().astype(np.float64) / GRID**2
    length = float(np.linalg.norm(usual))
    direction = usual / length if length > 0 else usual
    half = gram - np.outer(direction, direction @ gram)
    rest = half - np.outer(half @ direction, direction)
    rest = (rest + rest.T) / 2
    np.fill_diagonal(rest, 0.0)
    values = np.maximum(np.linalg.eigvalsh(rest)[::-1][:k], 0.0)
    return float(np.linalg.norm(values))


def rounding(n_users: int, n_items: int) -> float:
    """Return a bound on the error of `common_taste` in floating point, for at most so many users.

    Notes
    -----
    The Gram matrix is of exact integers and has a norm of n users at most. For m items seen, three steps
    each cost a modest multiple of ``m * 2**-53`` of that norm: rounding, projecting, and the symmetric eigenvalue
    routine. That routine is backward stable (LAPACK Users' Guide, section 4.7). ``10 * m**2`` times it is
    far above their sum.
    """
    seen = min(n_items, ITEMS_SEEN)
    return 10.0 * seen**2 * 2.0**-53 * n_users


def largest_of_noise(n: int, k: int) -> float:
    """Return what the largest singular value of n by k independent normal numbers exceeds once in a thousand.

    In standard deviations of one number.

    Notes
    -----
    Its square is about ``mu + sigma w``, with ``mu = (sqrt(n - 1) + sqrt(k))**2``, ``sigma = (sqrt(n - 1) + sqrt(k))
    (1 / sqrt(n - 1) + 1 / sqrt(k))**(1 / 3)`` and w of the Tracy-Widom law of order 1 [1]_, also for k of a few.

    References
    ----------
    .. [1] Johnstone, "On the distribution of the largest eigenvalue in principal components analysis", Annals of
       Statistics 29, 2001, theorem 1.1.
    """
    rows, columns = sqrt(max(n - 1, 1)), sqrt(k)
    width = (rows + columns) * (1 / rows + 1 / columns) ** (1 / 3)
    return sqrt((rows + columns) ** 2 + _TRACY_WIDOM * width)


def hidden_below(n: int, k: int) -> float:
    """Return the singular value of a direction below which n by k normal numbers added to it hide it.

    In standard deviations of one number.

    Notes
    -----
    In the limit of large n and k [1]_, up to ``(n k)**(1 / 4)`` the largest singular value of the sum is that
    of noise alone. Its vectors then have nothing to do with the direction.

    References
    ----------
    .. [1] Benaych-Georges, Nadakuditi, "The singular values and vectors of low rank perturbations of large
       rectangular random matrices", Journal of Multivariate Analysis 111, 2012, section 3.1.
    """
    return float((n * k) ** 0.25)
