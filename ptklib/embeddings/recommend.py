"""Recommendations from vectors and item factors, and how many hidden rows they find."""

from collections.abc import Iterator

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.embeddings.poisson import Items, local_step, predicted
from ptklib.embeddings.users import Users

CUTOFF = 20
"""Recommendations that are compared."""

_SCORES_AT_ONCE = 2**20


def cutoff_of(n_items: int) -> int:
    """Return how many recommendations are compared: few beside the items there are."""
    return min(CUTOFF, max(n_items // 5, 1))


def batches(n_users: int, n_items: int) -> Iterator[Ints]:
    """Cut users into pieces whose scores fit into memory."""
    size = max(_SCORES_AT_ONCE // n_items, 1)
    return (np.arange(start, min(start + size, n_users)) for start in range(0, n_users, size))


def best_items(users: Users, vectors: Floats, factors: Floats, n: int) -> tuple[Ints, Ints, Floats]:
    """Return place of the user, code of the item and score of the best items the users do not have, best first."""
    batched: list[tuple[Ints, Ints, Floats]] = []
    for places in batches(len(users), len(factors)):
        some, scores = users.take(places), predicted(vectors[places], factors)
        scores[some.owners, some.items] = -np.inf
        order = np.argsort(-scores, axis=1, kind="stable")[:, :n]
        best = np.take_along_axis(scores, order, axis=1)
        there = np.isfinite(best)
        batched.append((np.repeat(places, there.sum(axis=1)), order[there], best[there]))
    if not batched:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    owners, codes, values = (np.concatenate(part) for part in zip(*batched, strict=True))
    return owners, codes, values


def recall(scores: Floats, context: Users, wanted: Users, cutoff: int) -> Floats:
    """Return the share of wanted items among the `cutoff` best that are not in the context, for each user.

    Users that want nothing have 0. Entries of `scores` that are in the context are overwritten.
    """
    scores[context.owners, context.items] = -np.inf
    best = np.argpartition(scores, -cutoff, axis=1)[:, -cutoff:]
    chosen = np.zeros(scores.shape, dtype=np.bool_)
    np.put_along_axis(chosen, best, True, axis=1)
    hits = np.bincount(wanted.owners, weights=chosen[wanted.owners, wanted.items], minlength=len(wanted))
    return np.asarray(hits / np.maximum(np.minimum(np.diff(wanted.starts), cutoff), 1))


def missed(users: Users, items: Items) -> float:
    """Return the mean share of hidden items that are not recommended, over users with two items or more.

    Every second item of a user, in the order of codes, is hidden. It is NaN without such a user.
    """
    several = users.take(np.flatnonzero(np.diff(users.starts) > 1))
    hidden = (np.arange(len(several.items)) - several.starts[several.owners]) % 2 == 0
    context, wanted = several.keep(~hidden), several.keep(hidden)
    cutoff, total = cutoff_of(len(items.mean)), 0.0
    for places in batches(len(several), len(items.mean)):
        some = context.take(places)
        scores = predicted(local_step(some, items).mean, items.mean)
        total += float(recall(scores, some, wanted.take(places), cutoff).sum())
    return 1 - total / len(several) if len(several) else np.nan
