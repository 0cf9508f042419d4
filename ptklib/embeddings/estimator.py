"""The estimator of user embeddings: Poisson factors of items, and of whoever brings own rows."""

from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.utils.validation import check_is_fitted

from ptklib.arrays import Floats, Ints
from ptklib.base import DPEstimator, Release, Units
from ptklib.domains import OUTSIDE, stand_out
from ptklib.embeddings.declared import Declared
from ptklib.embeddings.factors import popularity
from ptklib.embeddings.layout import (
    COUNT,
    ITEMS,
    USERS,
    check_numbers,
    factor_names,
    matrix,
    user_names,
)
from ptklib.embeddings.plan import WEIGHT
from ptklib.embeddings.poisson import Items, local_step
from ptklib.embeddings.recommend import best_items, missed
from ptklib.embeddings.training import train
from ptklib.embeddings.users import Users
from ptklib.embeddings.vectors import noisy_loadings, vectors
from ptklib.inputs import InputTable
from ptklib.privacy import Bounds
from ptklib.scalars import whole_number
from ptklib.state import ReleasedState

FACTOR_MIN, FACTOR_MAX = 1e-150, 1e150
"""Item factors that can be released: with the weights above, users' factors and their squares stay finite too."""


@dataclass(eq=False, repr=False)
class UserEmbeddings(Declared):
    """Release factors of items by hierarchical Poisson factorization; users get vectors from their own rows.

    Parameters
    ----------
    user, item : str, optional
        Columns of ids; ``"user"`` and ``"item"`` by default.
    rating : str, optional
        Column of weights. Without it every row counts 1.
    users, items : sequence
        Public values of `user` and of `item`, each of one type. Rows of others are dropped.
    n_factors : int, default 20
        Number of factors, from 1 to 256, fewer than items.
    max_rows_per_user : int
        Rows of one user that are trained on, from 1 to 10,000, chosen at random among its own. About the number
        that most users have: a larger one makes all users' noise larger.
    epsilon, delta : float
        Budget of one fit; `delta` must be positive.
    bounds : tuple (low, high), optional
        Public clipping bounds of ratings, not negative; needed with `rating`. ``high`` is between 1e-100 and
        1e100.
    guarantee : {"user", "record"}, default "user"
        ``"user"``: item factors only, (epsilon, delta)-DP towards all that one user has in the rows.
        ``"record"``: also a vector for each of `users`, all together (epsilon, delta)-DP towards **one row**
        only. The vector of somebody with many rows tells much about them, as it is meant to.
    rounds : int, default 10
        Steps of stochastic variational inference.
    batch_rate : float, optional
        Probability of a user to take part in a step, at least 1e-12; 0.5 by default, 1 for the guarantee
        ``"record"``, which sampling users does not help.

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_factors)
        Released. Positive; a user's vector times these is what is expected of each item.
    tables_ : dict of str to pyarrow.Table
        Released. ``items``: the item, ``count``, a noisy estimate of the sum of its weights, in which users of many
        rows may count less and which may be negative, and ``factor_<i>``. With ``guarantee="record"`` also ``users``:
        the user and ``user_factor_<i>``.
    privacy_spent_ : PrivacyLoss

    Raises
    ------
    InvalidParameterError
        From ``fit``, before any row is read, when a parameter cannot be used.

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP per call of ``fit``.
    :Unit: with ``guarantee="user"`` a user, with any number of rows; with ``"record"`` one row.
    :Neighbours: add or remove one unit.
    :Mechanism: discrete Gaussian noise on counts of items, on one number that tells how much taste users have in
        common, on three products with the Gram matrix of users, on the sufficient statistics of a fresh Poisson sample
        of users in each round, and on a last comparison with popularity. The noise of the sampled rounds follows from
        their Rényi curve.
    :Sensitivity: a user's contribution to each is an integer vector of length ``2**20`` or less (L2), by clipping
        and truncation. One row may turn one such vector into another: ``2**21``. The taste in common is a norm of the
        largest eigenvalues of the users' Gram matrix, which a user moves by at most 1: ``2**20``, and a margin for
        rounding. A row moves the loadings of its user, before they become a vector, by at most ``2**28``.

    Popularity and the taste users have in common come first, for 18 % of the budget. If the noise of a search
    would hide every taste, all of the remaining budget is spent on popularity too. It then counts all users,
    each cut to a length that is usual. That is worth more than the 2 % the question took. Otherwise sparse
    directions in which users differ from popularity are searched (noisy orthogonal iteration, varimax), and
    stochastic variational inference starts from these. Statistics are read with a prior of popularity times
    the usual mixture, so noise leads back to popularity. A tenth of the users, by fresh coins, learns
    nothing: it is asked whether the factors recommend better than popularity, in four blends of both. Unless
    the noisy answer is a clear yes, factors are released that give every user the order of popularity.

    `transform` gives each row the vector of its user. It computes the vector from that user's rows *in the
    same table* and the released item factors. It is meant for whoever has the rows, and its result is as
    private as they are. With ``guarantee="record"`` it looks up the released vector instead, and needs no
    other column than `user`. `embed` and `recommend` always compute from the rows they are given. Users
    without rows get the vector of the average user.

    A continued state is where the next rounds start: the three products are then full rounds of inference, and
    noise leads back to the previous factors. Counts are those of the last rows. Partial statistics are
    quantised rows, since users are bounded when all shards are there.

    References
    ----------
    .. [1] PTK paper, Table 1, row 3.
    .. [2] Gopalan, Hofman, Blei, "Scalable Recommendation with Hierarchical Poisson Factorization", UAI 2015.
    .. [3] Park, Foulds, Chaudhuri, Welling, "Variational Bayes in Private Settings", 2020: noise on expected
       sufficient statistics.
    .. [4] Hardt, Price, "The Noisy Power Method", 2014.
    """

    released: ClassVar[tuple[str, ...]] = (*DPEstimator.released, "item_factors_")
    _joined: ClassVar[tuple[str, ...]] = ("rows",)

    def embed(self, X: Any) -> pd.DataFrame:
        """Return one vector per user with rows in `X`, computed from these rows and the released item factors.

        **As private as the rows.** Nothing is spent, and nothing leaves the process that has them.
        """
        users, vectors_ = self._local(X)
        names = self._users()
        ids = names.array.take(pa.array(users.ids)).to_pandas()
        return pd.DataFrame(vectors_, columns=user_names(self._factors())).assign(**{names.column: ids})[
            [names.column, *user_names(self._factors())]
        ]

    def recommend(self, X: Any, n: int = 20) -> pd.DataFrame:
        """Return the `n` best items for each user with rows in `X` that are not among these rows.

        **As private as the rows.** One line per user and item, the best first, with the expected weight.
        """
        wanted = whole_number(n, "n", 1, len(self._items()))
        users, vectors_ = self._local(X)
        places, codes, scores = best_items(users, vectors_, self.item_factors_, wanted)
        user, item = self._users(), self._items()
        return pd.DataFrame(
            {
                user.column: user.array.take(pa.array(users.ids[places])).to_pandas(),
                item.column: item.array.take(pa.array(codes)).to_pandas(),
                "score": scores,
            }
        )

    def _local(self, X: Any) -> tuple[Users, Floats]:
        check_is_fitted(self)
        users = self._grouped(self._rows(InputTable(X, self.required_columns())))
        return users, local_step(users, self._known()).mean

    def _empty(self) -> dict[str, Ints]:
        return {"rows": np.zeros(0, dtype=np.int64)}

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        return {"rows": np.ascontiguousarray(self._rows(table)).reshape(-1)}

    def _rows(self, table: InputTable) -> Ints:
        """Return user code, item code and weight in units of each row that can be used."""
        name, item, *_ = self.required_columns()
        users, items = self._users().encode(table.column(name)), self._items().encode(table.column(item))
        usable = (users != OUTSIDE) & (items != OUTSIDE)
        weights = np.full(table.n_rows, WEIGHT, dtype=np.int64)
        if self.rating is not None:
            limits, ratings = Bounds.of(self.bounds, self.rating), table.numbers(self.rating)
            usable &= np.isfinite(ratings)
            shares = np.clip(np.where(usable, ratings, limits.low), limits.low, limits.high) / limits.high
            weights = np.rint(shares * WEIGHT).astype(np.int64)
        return np.asarray(np.column_stack([users, items, weights])[usable], dtype=np.int64)

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        rows, heaviest, plan = exact["rows"].reshape(-1, 3), self._heaviest(), self._plan()
        n_items, k, most = len(self._items()), self._factors(), self._max_rows()
        users = Users.bounded(rows, heaviest / WEIGHT, n_items, most)
        start = None if previous is None else matrix(previous.tables[ITEMS], factor_names(k))
        trained = train(users, n_items, k, plan, heaviest, most, start)
        tables = {ITEMS: self._released_table(ITEMS, [trained.counts, *trained.factors.T])}
        if plan.vectors is not None:
            noisy = noisy_loadings(rows, len(self._users()), trained.factors, plan.vectors)
            deviation = plan.vectors.scale / plan.vectors.sensitivity
            tables[USERS] = self._released_table(
                USERS, list(vectors(noisy, deviation, trained.factors).T * heaviest)
            )
        return Release(tables, {ITEMS: {COUNT: trained.counts_deviation}})

    def _released_table(self, name: str, columns: list[Floats]) -> Any:
        schema = self.table_schemas()[name].schema
        keys = self._key_columns()[name]
        names = [field.name for field in schema if field.name not in keys]
        return pa.table({**keys, **dict(zip(names, columns, strict=True))}, schema=schema)

    def _check_state(self, state: ReleasedState) -> None:
        super()._check_state(state)
        check_numbers(state.tables[ITEMS], factor_names(self._factors()), FACTOR_MIN, FACTOR_MAX)
        if USERS in state.tables:
            check_numbers(state.tables[USERS], user_names(self._factors()), 0.0, inf)

    def _derive(self) -> None:
        self.item_factors_ = matrix(self.tables_[ITEMS], factor_names(self._factors()))

    def _unseen(self) -> tuple[str, ...]:
        counts = self.tables_[ITEMS].column(COUNT).to_numpy()
        return () if stand_out(counts, self.noise_std_[ITEMS][COUNT]) else self.required_columns()

    def _known(self) -> Items:
        counts = self.tables_[ITEMS].column(COUNT).to_numpy()
        return Items.known(self.item_factors_, popularity(counts, self.noise_std_[ITEMS][COUNT]))

    def _grouped(self, rows: Ints) -> Users:
        return Users.of(rows, self._heaviest() / WEIGHT, len(self._items()))

    def _transform_columns(self) -> tuple[str, ...]:
        return self.required_columns()[: 1 if self._guarantee() == "record" else None]

    def _transform(self, table: InputTable) -> Floats:
        domain = self._users()
        codes = domain.encode(table.column(domain.column))
        if self._guarantee() == "record":
            released = matrix(self.tables_[USERS], user_names(self._factors()))
            return np.asarray(np.vstack([released, released.mean(axis=0)])[codes])
        users, items = self._grouped(self._rows(table)), self._known()
        vectors_ = np.vstack([local_step(users, items).mean, items.prior / items.mean.sum(axis=0)])
        places = np.full(len(domain) + 1, len(users))  # the last is where OUTSIDE points
        places[users.ids] = np.arange(len(users))
        return np.asarray(vectors_[places[codes]])

    def _true_error(self, exact: Units) -> float:
        """Share of each user's hidden rows that are missing from 20 recommendations; every second item is hidden."""
        return missed(self._grouped(exact["rows"].reshape(-1, 3)), self._known())
