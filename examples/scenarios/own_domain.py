"""Scenario 3, retention: tastes of users in a domain, for tasks of the same domain (the PTK paper's Figure 5e).

A team may keep its users' ratings for some time only. While it has them, it trains `UserEmbeddings` on them. Later it
has the PTK and recent ratings, and asks of each user:

- *choice*: of two items of the same popularity, one rated by the user and one not, which is which?
- *ratings*: how many stars? Here every line knows the user's own mean over the past, which needs no PTK.

Each user's ratings are split in the order of time: the first 60 % train the PTK, the next 20 % are the task's own
rows, and the last 20 % are the test. No row is in two parts, and no drawn item was rated by its user in any.

Two guarantees are measured. With `user`, epsilon and delta protect all past rows of a user. The user's vector is made
from those rows by whoever holds them, such as the user's own device. With `record` they protect one row, and the
vectors are in the state, so that nobody needs the past rows: this is what the paper describes. The list of items is
public.
The non-private PTK is scikit-learn's `NMF` with the Kullback-Leibler loss.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import pandas as pd
from _common import arguments, losses, models, ratings, runs
from _common.curves import Task
from _common.taste import tastes
from _common.user_vectors import N_FACTORS, user_vectors

PATHS = {
    "movies": "ratings of movies with times: user_id, movie_id, rating, rated_at",
    "products": "ratings of products with times: user_id, item_id, rating, rated_at",
}
ROWS_PER_USER = {"movies": 50, "products": 20}
PAST, OWN = 0.6, 0.8


def parts_of(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Split each user's rows, which are in the order of time, into past, own and later ones."""
    by_user = rows.groupby("user_id")["item_id"]
    place = (by_user.cumcount() + 0.5) / by_user.transform("size")
    past = rows[place < PAST]
    recent = rows[rows["user_id"].isin(past["user_id"]) & (place >= PAST)]
    is_own = place.loc[recent.index] < OWN
    return past.reset_index(drop=True), recent[is_own], recent[~is_own]


def tasks(domain: str, rows: pd.DataFrame) -> Iterator[Task]:
    """Yield the tasks of choice and of ratings in a domain, each with two guarantees."""
    past, own, later = parts_of(rows)
    mean = past.groupby("user_id")["rating"].mean()
    chosen = tuple(ratings.choices(part, seed, rows) for seed, part in ((1, own), (2, later)))
    starred = tuple(
        part.assign(own_mean=part["user_id"].map(mean)).reset_index(drop=True) for part in (own, later)
    )
    n_items, n_users = past["item_id"].nunique(), past["user_id"].nunique()
    for guarantee in ("user", "record"):
        ptk = f"UserEmbeddings for one {guarantee}, {N_FACTORS} factors of {n_items:,} {domain}, of {n_users:,} users"
        train_ptk = partial(user_vectors, past, rows_per_user=ROWS_PER_USER[domain], guarantee=guarantee)
        yield Task(
            f"choice of {domain}, protecting a {guarantee}", "log loss", ptk, len(past), chosen[0], chosen[1], "chosen",
            lambda names: tastes("item_id", names), losses.log_loss, train_ptk, order="user_id",
        )  # fmt: skip
        yield Task(
            f"ratings of {domain}, protecting a {guarantee}", "squared error", ptk, len(past),
            starred[0], starred[1], "rating",
            lambda names: models.rating(["item_id"], ["own_mean", *names]), losses.squared_error, train_ptk,
            order="user_id",
        )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure all tasks; print tables, save a plot and the numbers."""
    asked = arguments.checked(arguments.parser(__doc__, PATHS), argv, PATHS)
    if asked.generated is not None:
        domains = dict(zip(PATHS, ratings.generate(asked.generated), strict=True))
    else:
        given = {name: path for name in PATHS if (path := getattr(asked, name)) is not None}
        domains = {name: ratings.load_in_order(path) for name, path in given.items()}
    found = [task for domain, rows in domains.items() for task in tasks(domain, rows)]
    return runs.measure("own_domain", found, asked)


if __name__ == "__main__":
    sys.exit(main())
