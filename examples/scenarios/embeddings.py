"""Scenario 4, embeddings: what users like in one domain, for a task in another domain with the same users.

The books team trains `UserEmbeddings` on who rated which book and publishes the *item* factors. Whoever holds a
user's own rows of books computes the user's vector from them locally: a vector in a readable lake could not protect
its user. The music team has users who are new to it and asks:

- *choice*: of two records of the same popularity, one rated by the user and one not, which is which?
- *ratings*: how many stars? Here every line knows the user's own mean over books, which needs no PTK.

Only shared users take part. The data have no dates, so users are split, not time: two fifths of them, and all
their music, are the test. Books and music are different rows, so no row of the task has been in the PTK.

Epsilon and delta protect all rows of a *user*, `ROWS_PER_USER` of them at most. The list of books is public
knowledge, such as a list of bestsellers: here the most rated ones stand for it, which the budget does not cover.
The non-private PTK is scikit-learn's `NMF` with the Kullback-Leibler loss: Poisson factors without priors.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pandas as pd
from _common import arguments, losses, models, ratings, runs
from _common.curves import Task
from _common.taste import tastes
from _common.user_vectors import N_FACTORS, user_vectors

PATHS = {
    "books": "ratings of the domain the PTK learns from: user_id, item_id, rating",
    "music": "ratings of the domain of the task, with the same user ids",
}
N_ITEMS = {"books": 1000, "music": 500}
ROWS_PER_USER = 50
TEST_USERS = 0.4


def tasks(books: pd.DataFrame, music: pd.DataFrame) -> list[Task]:
    """Return the tasks of choice and of ratings."""
    listed = books["item_id"].value_counts().head(N_ITEMS["books"]).index
    past = books[books["item_id"].isin(listed)].reset_index(drop=True)
    shared = np.intersect1d(past["user_id"].unique(), music["user_id"].unique())
    known = music["item_id"].value_counts().head(N_ITEMS["music"]).index
    task_rows = music[music["user_id"].isin(shared) & music["item_id"].isin(known)]
    drawn = np.random.default_rng(0).permutation(shared)
    new = task_rows["user_id"].isin(drawn[: round(TEST_USERS * len(shared))])
    own, later = task_rows[~new], task_rows[new]
    mean = past.groupby("user_id")["rating"].mean()
    parts = {
        "choice": (ratings.choices(own, 1), ratings.choices(later, 2)),
        "ratings": tuple(
            rows.assign(own_mean=rows["user_id"].map(mean)).reset_index(drop=True) for rows in (own, later)
        ),
    }
    n_books, n_users = past["item_id"].nunique(), past["user_id"].nunique()
    ptk = f"UserEmbeddings, {N_FACTORS} factors of {n_books:,} books, of {n_users:,} users"
    train_ptk = partial(user_vectors, past, rows_per_user=ROWS_PER_USER)
    return [
        Task(  # type: ignore[call-arg]
            "choice of music, by books", "log loss", ptk, len(past), *parts["choice"], "chosen",
            lambda names: tastes("item_id", names), losses.log_loss, train_ptk, order="user_id",
        ),
        Task(  # type: ignore[call-arg]
            "ratings of music, by books", "squared error", ptk, len(past), *parts["ratings"], "rating",
            lambda names: models.rating(["item_id"], ["own_mean", *names]), losses.squared_error, train_ptk,
            order="user_id",
        ),
    ]  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure both tasks; print tables, save a plot and the numbers."""
    asked = arguments.checked(arguments.parser(__doc__, PATHS), argv, PATHS)
    if asked.generated is not None:
        books, music = ratings.generate(asked.generated)
    elif asked.books is None or asked.music is None:
        raise SystemExit("--books and --music are both needed")
    else:
        books, music = ratings.load(asked.books), ratings.load(asked.music)
    return runs.measure("embeddings", tasks(books, music), asked)


if __name__ == "__main__":
    sys.exit(main())
