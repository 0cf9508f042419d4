"""Tastes of users from their past rows, with a PTK or without noise, as features of rows of a task."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.decomposition import NMF

from _common.curves import Featurizer
from ptklib import UserEmbeddings

DELTA = 1e-4
N_FACTORS = 10


def user_vectors(
    past: pd.DataFrame, epsilon: float | None, *, rows_per_user: int, guarantee: str = "user"
) -> Featurizer:
    """Train on the past; a user's features are its vector, as shares of the vector's length.

    With the guarantee `user` the vector is made locally from the user's own past rows, with `record` it is looked up
    in the state. Without epsilon it is scikit-learn's `NMF` with the Kullback-Leibler loss.
    """
    users, items = (sorted(int(v) for v in past[c].unique()) for c in ("user_id", "item_id"))
    if epsilon is None:
        at = [np.searchsorted(v, past[c]) for v, c in ((users, "user_id"), (items, "item_id"))]
        matrix = csr_matrix((np.ones(len(past)), tuple(at)), shape=(len(users), len(items)))
        found = NMF(
            N_FACTORS, solver="mu", beta_loss="kullback-leibler", init="nndsvda", max_iter=200, random_state=0
        ).fit_transform(matrix)
        vectors = pd.DataFrame(found, index=users)
    else:
        ptk = UserEmbeddings(
            "user_id", "item_id", users=users, items=items, n_factors=N_FACTORS, guarantee=guarantee,
            max_rows_per_user=rows_per_user, epsilon=epsilon, delta=DELTA,
        ).fit(past)  # fmt: skip
        local = pd.DataFrame(ptk.transform(past), index=past["user_id"])
        vectors = local[~local.index.duplicated()]
    shares = vectors.div(np.maximum(vectors.sum(axis=1), 1e-9), axis=0)
    shares.columns = [f"factor_{i}" for i in range(N_FACTORS)]
    return lambda rows: shares.reindex(rows["user_id"])
