"""Ratings of two domains with shared users: the public originals and a generated stand-in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

COLUMNS = ("user_id", "item_id", "rating")
_NAMES = {"movie_id": "item_id", "userid": "user_id", "movieid": "item_id", "itemid": "item_id"}


def load(path: Path) -> pd.DataFrame:
    """Read a Parquet file of ``user_id``, ``item_id`` (or ``movie_id``) and ``rating`` from 1 to 5."""
    found = {_NAMES.get(name.lower(), name.lower()): name for name in pq.read_schema(path).names}
    missing = [column for column in COLUMNS if column not in found]
    if missing:
        raise SystemExit(f"{path} is no file of ratings known here: it lacks {', '.join(missing)}")
    table = pd.read_parquet(path, columns=[found[c] for c in COLUMNS]).set_axis(list(COLUMNS), axis=1)
    return table.astype(np.int64)


def load_in_order(path: Path) -> pd.DataFrame:
    """Read a file as `load` does, in the order of its column ``rated_at``."""
    if "rated_at" not in pq.read_schema(path).names:
        raise SystemExit(f"{path} has no column rated_at: ratings need times")
    order = pd.read_parquet(path, columns=["rated_at"])["rated_at"].argsort(kind="stable")
    return load(path).iloc[order].reset_index(drop=True)


def generate(n_rows: int, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make up ratings of two domains by users whose tastes, of three kinds, hold in both."""
    rng = np.random.default_rng(seed)
    n_users = max(n_rows // 25, 60)
    tastes = rng.dirichlet(np.full(3, 0.3), n_users)
    domains = []
    for _ in range(2):
        kinds = rng.integers(0, 3, 90)
        popular = 1 / (1 + np.arange(90)) ** 0.6
        appeal = popular * np.where(kinds == np.arange(3)[:, None], 6.0, 1.0)
        users = rng.integers(0, n_users, n_rows)
        chosen = rng.random(n_rows)[:, None] < np.cumsum(
            (p := tastes[users] @ appeal) / p.sum(axis=1, keepdims=True), axis=1
        )
        items = chosen.argmax(axis=1)
        rating = np.clip(np.rint(3 + 2 * tastes[users, kinds[items]] + rng.normal(0, 0.8, n_rows)), 1, 5)
        table = pd.DataFrame({"user_id": users, "item_id": items, "rating": rating.astype(np.int64)})
        domains.append(table.drop_duplicates(["user_id", "item_id"]).reset_index(drop=True))
    return domains[0], domains[1]


def choices(ratings: pd.DataFrame, seed: int, known: pd.DataFrame | None = None) -> pd.DataFrame:
    """Pair each rated item with one that its user did not rate, drawn by popularity: label ``chosen``.

    As both kinds of rows have items of the same popularity, only the user's taste tells them apart. Items that the
    user rated in `known`, by default in `ratings`, are never drawn.
    """
    rated = ratings if known is None else known
    taken = rated["user_id"].to_numpy() * 2**32 + rated["item_id"].to_numpy()
    users, items = ratings["user_id"].to_numpy(), ratings["item_id"].to_numpy().copy()
    np.random.default_rng(seed).shuffle(items)
    free = ~np.isin(users * 2**32 + items, taken)
    rows = [ratings[["user_id", "item_id"]].assign(chosen=1)]
    rows.append(pd.DataFrame({"user_id": users[free], "item_id": items[free], "chosen": 0}))
    return pd.concat(rows, ignore_index=True)
