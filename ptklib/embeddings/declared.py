"""The declarations in the parameters of user embeddings: columns, tables and loss, all before any row is read."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ptklib.base import DPEstimator
from ptklib.domains import Domain
from ptklib.embeddings.layout import COUNT, ITEMS, USERS, factor_names, schema_of, user_names
from ptklib.embeddings.plan import FitPlan, Guarantee, Shape, plan_rounds
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, UnboundedSensitivityError
from ptklib.names import check_name, refuse_duplicates
from ptklib.privacy import Bounds, PrivacyLoss, PrivacyUnit
from ptklib.scalars import finite_number, whole_number
from ptklib.state import TableSchema

CELLS_MAX = 2**24
FACTORS_MAX = 256
ROUNDS_MAX = 1000
ROWS_MAX = 10_000

HEAVIEST_MIN, HEAVIEST_MAX = 1e-100, 1e100
"""Largest weights of a row of which all sums and squares, and those of the noise, are numbers of float64."""


@dataclass(eq=False, repr=False)
class Declared(DPEstimator):
    """Parameters of `UserEmbeddings`, checked one by one where they are first needed; there is no state here.

    Parameters
    ----------
    user, item, rating, users, items, n_factors, max_rows_per_user, bounds, guarantee, rounds, batch_rate
        As `UserEmbeddings` describes them.
    """

    user: Any = None
    item: Any = None
    rating: Any = None
    _: KW_ONLY
    users: Any
    items: Any
    n_factors: Any = 20
    max_rows_per_user: Any
    epsilon: Any
    delta: Any
    bounds: Any = None
    guarantee: Any = "user"
    rounds: Any = 10
    batch_rate: Any = None

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
        """Return the loss of one `fit`, before any data are read."""
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
        return whole_number(self.n_factors, "n_factors", 1, FACTORS_MAX)

    def _max_rows(self) -> int:
        return whole_number(self.max_rows_per_user, "max_rows_per_user", 1, ROWS_MAX)

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
                f"the upper bound of ratings must be between {HEAVIEST_MIN} and {HEAVIEST_MAX}"
            )
        return limits.high

    def _plan(self) -> FitPlan:
        n_items, k, guarantee = len(self._items()), self._factors(), self._guarantee()
        if k >= n_items:
            raise InvalidParameterError("n_factors must be smaller than the number of items")
        if len(self._users()) * k > CELLS_MAX and guarantee == "record":
            raise InvalidDomainError(f"at most {CELLS_MAX} factors of users can be released")
        usual = 0.5 if guarantee == "user" else 1.0
        rate = usual if self.batch_rate is None else finite_number(self.batch_rate, "batch_rate")
        rounds = whole_number(self.rounds, "rounds", 1, ROUNDS_MAX)
        shape = Shape(len(self._users()), n_items, k, rounds, rate, guarantee)
        return plan_rounds(shape, self.epsilon, self.delta)

    def _key_columns(self) -> dict[str, dict[str, Any]]:
        users, items = self._users(), self._items()
        keys = {ITEMS: {items.column: items.array}}
        if self._guarantee() == "record":
            keys[USERS] = {users.column: users.array}
        return keys
