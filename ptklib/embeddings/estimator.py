"""The estimator of user embeddings: Poisson factors of items, and of whoever brings own rows."""

from math import inf
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from sklearn.utils.validation import check_is_fitted

from ptklib.base import DPEstimator, Release, Units
from ptklib.domains import OUTSIDE, Domain
from ptklib.embeddings.factors import popularity
from ptklib.embeddings.layout import (
    COUNT,
    ITEMS,
    USERS,
    check_numbers,
    factor_names,
    matrix,
    schema_of,
    user_names,
    whole,
)
from ptklib.embeddings.plan import WEIGHT, Guarantee, Plan, Shape, plan_rounds
from ptklib.embeddings.poisson import Items, local_step
from ptklib.embeddings.recommend import best_items, missed
from ptklib.embeddings.training import train
from ptklib.embeddings.users import Users
from ptklib.embeddings.vectors import noisy_loadings, vectors
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, UnboundedSensitivityError
from ptklib.inputs import InputTable
from ptklib.names import check_name, refuse_duplicates
from ptklib.privacy import Bounds, PrivacyLoss, PrivacyUnit, finite_number
from ptklib.state import ReleasedState, TableSchema

CELLS_MAX = 2**24
FACTORS_MAX = 256
ROUNDS_MAX = 1000
ROWS_MAX = 10_000

HEAVIEST_MIN, HEAVIEST_MAX = 1e-100, 1e100
"""Largest weights of a row of which all sums and squares, and those of the noise, are numbers of float64."""

FACTOR_MIN, FACTOR_MAX = 1e-150, 1e150
"""Item factors that can be released: with the weights above, users' factors and their squares stay finite too."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class UserEmbeddings(DPEstimator):
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
        Public clipping bounds of ratings, not negative; needed with `rating`. ``high`` lies between 1e-100 and 1e100.
    guarantee : {"user", "record"}, default "user"
        ``"user"``: item factors only, (epsilon, delta)-DP towards all that one user has in the rows.
        ``"record"``: also a vector for each of `users`, all together (epsilon, delta)-DP towards **one row** only:
        the vector of somebody with many rows tells much about them, as it is meant to.
    rounds : int, default 10
        Steps of stochastic variational inference.
    batch_rate : float, optional
        Probability of a user to take part in a step; 0.5 by default, 1 for the guarantee ``"record"``, which
        sampling users does not help.

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_factors)
        Released. Positive; a user's vector times these is what is expected of each item.
    tables_ : dict of str to pyarrow.Table
        Released. ``items``: the item, ``count``, a noisy sum of its weights that may be negative, and
        ``factor_<i>``. With ``guarantee="record"`` also ``users``: the user and ``user_factor_<i>``.
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
    :Mechanism: discrete Gaussian noise on counts of items, on three products with the Gram matrix of users, on the
        sufficient statistics of a fresh Poisson sample of users in each round, and on a last comparison with
        popularity. The noise of the sampled rounds follows from their Rényi curve.
    :Sensitivity: a user's contribution to each is an integer vector of length ``2**20`` or less (L2), by clipping
        and truncation. One row may turn one such vector into another: ``2**21``. A row moves the loadings of
        its user, before they become a vector, by at most ``2**28``.

    Popularity comes first. When it shows too few users for any taste to stand out of the noise, or none
    does, what is left is spent on it as well. Otherwise sparse directions in which users differ from popularity are
    searched (noisy orthogonal iteration, varimax), and stochastic variational inference starts from these. Statistics
    are read with a prior of popularity times the usual mixture, so noise leads back to popularity. A tenth of the
    users, by fresh coins, learns nothing: it is asked whether the factors recommend better than popularity, in four
    blends of both. Unless the noisy answer is a clear yes, factors are released that give every user the order of
    popularity.

    `transform` gives each row the vector of its user, computed from that user's rows *in the same table* and the
    released item factors: it is meant for whoever holds the rows, and its result is as private as they are. With
    ``guarantee="record"`` it looks up the released vector instead, and needs no other column than `user`. `embed` and
    `recommend` always compute from the rows they are given. Users without rows get the vector of the average user.

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

    def __init__(
        self,
        user: Any = None,
        item: Any = None,
        rating: Any = None,
        *,
        users: Any,
        items: Any,
        n_factors: Any = 20,
        max_rows_per_user: Any,
        epsilon: Any,
        delta: Any,
        bounds: Any = None,
        guarantee: Any = "user",
        rounds: Any = 10,
        batch_rate: Any = None,
    ) -> None:
        self.user = user
        self.item = item
        self.rating = rating
        self.users = users
        self.items = items
        self.n_factors = n_factors
        self.max_rows_per_user = max_rows_per_user
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.guarantee = guarantee
        self.rounds = rounds
        self.batch_rate = batch_rate

    def required_columns(self) -> tuple[str, ...]:
        """Return the columns of user, item and, when there is one, rating."""
        names = [check_name("user" if self.user is None else self.user, "user")]
        names.append(check_name("item" if self.item is None else self.item, "item"))
        if self.rating is not None:
            names.append(check_name(self.rating, "rating"))
        refuse_duplicates(names, "user, item and rating")
        return tuple(names)

    def privacy_unit(self) -> PrivacyUnit:
        """Return the user or, with ``guarantee="record"``, the row."""
        return PrivacyUnit.RECORD if self._guarantee() == "record" else PrivacyUnit.USER

    def declared_loss(self) -> PrivacyLoss:
        """Return the loss of one `fit`, before any data are read.

        Raises
        ------
        InvalidParameterError
            When a parameter cannot be used.
        """
        self.table_schemas()
        self._heaviest()
        self._max_rows()
        return self._plan().loss

    def table_schemas(self) -> dict[str, TableSchema]:
        """Return ``items`` and, with the guarantee for records, ``users``."""
        user, item, k = self._users(), self._items(), self._factors()
        schemas = {ITEMS: schema_of(item, [COUNT, *factor_names(k)])}
        if self._guarantee() == "record":
            schemas[USERS] = schema_of(user, user_names(k))
        return schemas

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return ``user_factor_<i>`` for each factor."""
        return np.asarray(user_names(self._factors()), dtype=object)

    def embed(self, X: Any) -> pd.DataFrame:
        """Return one vector per user with rows in `X`, computed from these rows and the released item factors.

        **As private as the rows.** Nothing is spent, and nothing leaves whoever holds them.
        """
        users, vectors_ = self._local(X)
        names = self._users()
        ids = names.array().take(pa.array(users.ids)).to_pandas()
        return pd.DataFrame(vectors_, columns=user_names(self._factors())).assign(**{names.column: ids})[
            [names.column, *user_names(self._factors())]
        ]

    def recommend(self, X: Any, n: int = 20) -> pd.DataFrame:
        """Return the `n` best items for each user with rows in `X` that are not among these rows.

        **As private as the rows.** One line per user and item, the best first, with the expected weight.
        """
        wanted = whole(n, "n", 1, len(self._items()))
        users, vectors_ = self._local(X)
        places, codes, scores = best_items(users, vectors_, self.item_factors_, wanted)
        user, item = self._users(), self._items()
        return pd.DataFrame(
            {
                user.column: user.array().take(pa.array(users.ids[places])).to_pandas(),
                item.column: item.array().take(pa.array(codes)).to_pandas(),
                "score": scores,
            }
        )

    def _local(self, X: Any) -> tuple[Users, Floats]:
        check_is_fitted(self)
        users = self._grouped(self._rows(InputTable(X, self.required_columns())))
        return users, local_step(users, self._known()).mean

    def _resolved_columns(self) -> dict[str, Any]:
        user, item, *_ = self.required_columns()
        return {"user": user, "item": item}

    def _users(self) -> Domain:
        return Domain.of(self.required_columns()[0], self.users)

    def _items(self) -> Domain:
        items = Domain.of(self.required_columns()[1], self.items)
        if len(items) < 2 or len(items) * self._factors() > CELLS_MAX:
            raise InvalidDomainError(f"items need two values or more, and at most {CELLS_MAX} factors in all")
        return items

    def _factors(self) -> int:
        return whole(self.n_factors, "n_factors", 1, FACTORS_MAX)

    def _max_rows(self) -> int:
        return whole(self.max_rows_per_user, "max_rows_per_user", 1, ROWS_MAX)

    def _guarantee(self) -> Guarantee:
        if self.guarantee not in ("user", "record"):
            raise InvalidParameterError("guarantee must be 'user' or 'record'")
        return "user" if self.guarantee == "user" else "record"

    def _heaviest(self) -> float:
        """Return the largest weight of a row."""
        if self.rating is None:
            if self.bounds is not None:
                raise InvalidParameterError("bounds are for ratings: name their column with rating=...")
            return 1.0
        if self.bounds is None:
            raise UnboundedSensitivityError("ratings need bounds=(low, high)")
        limits = Bounds.of(self.bounds, str(self.rating))
        if limits.low < 0:
            raise InvalidParameterError("the bounds of ratings must not be negative")
        if not HEAVIEST_MIN <= limits.high <= HEAVIEST_MAX:
            raise InvalidParameterError(
                f"the upper bound of ratings must lie between {HEAVIEST_MIN} and {HEAVIEST_MAX}"
            )
        return limits.high

    def _plan(self) -> Plan:
        n_items, k, guarantee = len(self._items()), self._factors(), self._guarantee()
        if k >= n_items:
            raise InvalidParameterError("n_factors must be smaller than the number of items")
        if len(self._users()) * k > CELLS_MAX and guarantee == "record":
            raise InvalidDomainError(f"at most {CELLS_MAX} factors of users can be released")
        usual = 0.5 if guarantee == "user" else 1.0
        rate = usual if self.batch_rate is None else finite_number(self.batch_rate, "batch_rate")
        rounds = whole(self.rounds, "rounds", 1, ROUNDS_MAX)
        shape = Shape(len(self._users()), n_items, k, rounds, rate, guarantee)
        return plan_rounds(shape, self.epsilon, self.delta)

    def _empty(self) -> dict[str, Ints]:
        return {"rows": np.zeros(0, dtype=np.int64)}

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        return {"rows": np.ascontiguousarray(self._rows(table)).reshape(-1)}

    def _rows(self, table: InputTable) -> Ints:
        """Return user code, item code and weight in units of each row that can be used."""
        name, item, *_ = self.required_columns()
        users, items = self._users().encode(table.column(name)), self._items().encode(table.column(item))
        known = (users != OUTSIDE) & (items != OUTSIDE)
        weights = np.full(table.n_rows, WEIGHT, dtype=np.int64)
        if self.rating is not None:
            limits, ratings = Bounds.of(self.bounds, self.rating), table.numbers(self.rating)
            known &= np.isfinite(ratings)
            shares = np.clip(np.where(known, ratings, limits.low), limits.low, limits.high) / limits.high
            weights = np.rint(shares * WEIGHT).astype(np.int64)
        return np.asarray(np.column_stack([users, items, weights])[known], dtype=np.int64)

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        rows, heaviest, plan = exact["rows"].reshape(-1, 3), self._heaviest(), self._plan()
        n_items, k, most = len(self._items()), self._factors(), self._max_rows()
        users = Users.bounded(rows, heaviest / WEIGHT, n_items, most)
        start = None if previous is None else matrix(previous.tables[ITEMS], factor_names(k))
        found = train(users, n_items, k, plan, heaviest, most, start)
        tables = {ITEMS: self._released_table(ITEMS, [found.counts, *found.factors.T])}
        if plan.vectors is not None:
            noisy = noisy_loadings(rows, len(self._users()), found.factors, plan.vectors)
            deviation = plan.vectors.scale / plan.vectors.sensitivity
            tables[USERS] = self._released_table(
                USERS, list(vectors(noisy, deviation, found.factors).T * heaviest)
            )
        return Release(tables, {ITEMS: {COUNT: found.counts_deviation}})

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

    def _key_columns(self) -> dict[str, dict[str, Any]]:
        users, items = self._users(), self._items()
        keys = {ITEMS: {items.column: items.array()}}
        if self._guarantee() == "record":
            keys[USERS] = {users.column: users.array()}
        return keys

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
