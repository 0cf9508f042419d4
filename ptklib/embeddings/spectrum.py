"""How far tastes stand out of popularity: one number about all users, which a single user moves by 1 at most."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ITEMS_SEEN = 512
"""Tastes are looked for among so many items, the most popular: noise hides those of others first."""

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
    k : int

    Returns
    -------
    float
        In users: each of n users who share k tastes equally adds about ``k**-0.5``; users of no taste add next to
        nothing.

    Notes
    -----
    With users' vectors x, of length 1 at most, G the sum of ``x x'`` and P the projection away from `usual`, these are
    the eigenvalues of ``P G P`` without its diagonal, to which users add by themselves.

    :Sensitivity: 1. A user adds ``x x'``, of Frobenius norm ``|x|**2``; P and taking the diagonal away do not
        lengthen it. The number is the largest inner product of the matrix with a positive semidefinite one of rank
        k and norm 1: a maximum of linear functions none of which moves by more than the matrix does. Another vector
        instead of x moves it by 2 at most. `rounding` bounds what floating point adds.
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
    The Gram matrix is of exact integers and has a norm of n users at most. Rounding it, projecting and the symmetric
    eigenvalue routine, which is backward stable (LAPACK Users' Guide, section 4.7), each cost a modest multiple of
    ``m * 2**-53`` of that norm; ``10 * m**2`` times it is far above their sum, for m items seen.
    """
    seen = min(n_items, ITEMS_SEEN)
    return 10.0 * seen**2 * 2.0**-53 * n_users
