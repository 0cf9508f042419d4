"""The local step of Poisson factorization: a user's factors from its own entries and given item factors."""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.special import psi

from ptklib.arrays import Floats
from ptklib.embeddings.users import Users

FACTOR_SHAPE = 0.3
ACTIVITY_SHAPE = 0.3
ACTIVITY_MEAN = 1.0
"""Gamma priors of the model, with the values its implementations use."""

STEPS = 8
"""Coordinate steps for one user; more change recommendations by less than the noise does."""

_TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Items:
    """Item factors as the local step needs them."""

    mean: Floats
    geometric: Floats
    """E[beta] and exp(E[log beta]). Shape (n_items, k)."""
    prior: Floats
    """Shapes of the prior of a user's factors. Shape (k,)."""

    @classmethod
    def posterior(cls, shape: Floats, rate: Floats) -> "Items":
        """Return a gamma posterior of the factors."""
        prior = np.full(shape.shape[1], FACTOR_SHAPE)
        return cls(shape / rate, np.exp(psi(shape)) / rate, prior)

    @classmethod
    def known(cls, mean: Floats, share: Floats | None = None) -> "Items":
        """Return factors taken as known; with `share`, users are expected to like what is popular.

        Notes
        -----
        The prior of a user is then the mixture of factors that fits the popularity of items best, so whoever brings
        no row at all is recommended what is popular.
        """
        k = mean.shape[1]
        mixed = np.ones(k) if share is None else mixture(mean, share[None, :])[0] * k
        return cls(mean, mean, FACTOR_SHAPE * np.maximum(mixed, 1e-3))


@dataclass(frozen=True, eq=False)
class Local:
    """Posterior of the factors of some users."""

    mean: Floats
    """E[theta]. Shape (n_users, k)."""
    parts: Floats
    """How the weight of each entry divides over the factors: ``y phi``. Shape (n_entries, k)."""


def local_step(users: Users, items: Items, steps: int = STEPS) -> Local:
    """Return the variational posterior of each user given the item factors.

    Notes
    -----
    Everything is computed from the user's own entries and the given factors. There is no product over users,
    so another user in the same call changes nothing, not even a rounding.

    References
    ----------
    .. [1] Gopalan, Hofman, Blei, "Scalable Recommendation with Hierarchical Poisson Factorization", UAI 2015,
       section 3: coordinate ascent for phi, gamma and kappa.
    """
    k, owners = items.mean.shape[1], users.owners
    loadings, prior = items.geometric[users.items], items.prior
    total = np.maximum(items.mean.sum(axis=0), _TINY)
    weight = np.bincount(owners, weights=users.weights, minlength=len(users))
    shape = prior + weight[:, None] / k
    rate = np.ones((len(users), 1)) * total

    def divide() -> tuple[Floats, Floats]:
        usual = np.exp(psi(shape)) / rate
        fit = np.maximum(np.einsum("nk,nk->n", usual[owners], loadings), _TINY)
        return usual, users.weights / fit

    for _ in range(steps):
        usual, scaled = divide()
        rows = csr_array((scaled, users.items, users.starts), (len(users), len(items.mean)))
        shape = prior + usual * (rows @ items.geometric)
        activity = (ACTIVITY_SHAPE + prior.sum()) / (
            ACTIVITY_SHAPE / ACTIVITY_MEAN + (shape / rate).sum(axis=1)
        )
        rate = activity[:, None] + total
    usual, scaled = divide()
    return Local(shape / rate, usual[owners] * loadings * scaled[:, None])


def predicted(users: Floats, items: Floats) -> Floats:
    """Return the expected weight of each user and item, each computed from its own factors only.

    BLAS may round a row differently beside other rows; this may not.
    """
    return np.asarray(np.einsum("uk,ik->ui", users, items))


def mixture(mean: Floats, rows: Floats, steps: int = 30) -> Floats:
    """Return non-negative mixtures of the columns of `mean` that fit each of `rows` best, adding up to 1."""
    columns = mean / np.maximum(mean.sum(axis=0), _TINY)
    shares = np.full((len(rows), mean.shape[1]), 1 / mean.shape[1])
    for _ in range(steps):
        shares = shares * ((rows / np.maximum(shares @ columns.T, _TINY)) @ columns)
        shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), _TINY)
    return np.asarray(shares)
