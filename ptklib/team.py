"""Team code: what a team trains by code of its own, described as data and computed elsewhere."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats, Ints
from ptklib.base import DPEstimator, Release, Units
from ptklib.declared import DeclaredValues
from ptklib.events import EpsilonDelta
from ptklib.exceptions import CorruptStateError, InvalidParameterError
from ptklib.families import TEAM_CODE, trust_family
from ptklib.inputs import InputTable
from ptklib.names import check_columns, check_name
from ptklib.privacy import PrivacyLoss, check_delta, check_epsilon
from ptklib.scalars import finite_number
from ptklib.state import ReleasedState, TableSchema

_ELSEWHERE = (
    "computed by the team's code, which is not run here; whoever imported its class and trusts it gives the class "
    "(Ptk.trusting, ptklib.team.state_of_own)"
)

_ROWS, _DOMAINS = "rows", "domains"
_OF_LOSSES = frozenset({"row_losses", "loss_max"})
_NO_LOSSES = (
    "this team code has no loss of single rows: declare row_losses(state, rows) beside its train_dp, or as a method of "
    "its class"
)
_LOSS_MAX_LEAST, _LOSS_MAX_MOST = 1e-100, 1e100
"""Between them no quotient of two losses is lost."""
_COMPONENT = re.compile(r"\w{1,200}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENTRY = re.compile(r"[A-Za-z_]\w{0,62}(\.[A-Za-z_]\w{0,62}){0,7}:[A-Za-z_]\w{0,62}", re.ASCII)


@dataclass(eq=False, repr=False, kw_only=True)
class TeamCode(DPEstimator):
    """The description of a team's own estimator or `train_dp`: what it reads, releases and says that it loses.

    It contains no code and runs none. A service that trains it does so apart, in a sandbox. A state of it can
    be read like any other, but `transform` is for the class that the team wrote.

    Parameters
    ----------
    bundle : str
        SHA-256 of the archive with the code.
    code : str
        The part of it that runs, as ``module:name``: a class of estimators, or a function `train_dp`.
    eval : str, optional
        The function `eval` that belongs to a `train_dp`, in the same form.
    arguments : mapping, optional
        Parameters of the class beside epsilon and delta, or the config of a `train_dp`; plain JSON.
    columns : sequence of str
        Columns of the stream that it reads.
    tables : mapping of name to {"keys": [...], "columns": [[name, type], ...]}
        What it releases. A table may also say how many "rows" it always has. By "domains" it may say which
        values its keys and texts may have: {column: [value, ...]}, or {column: {"first": 0, "last": 23}} for
        integers.
    selected : sequence of str
        Tables whose keys, and so whose number of rows, are part of the release.
    synthetic : mapping of column to values or (low, high), optional
        Public declarations from which synthetic rows are made for checks.
    epsilon, delta : float
        The loss of one training, as its owner claims.
    unit : str, optional
        Column of the privacy unit, when the loss is towards all of a unit's rows.
    max_rows_per_unit : int
        How many those are at most.
    noise_names : sequence of str, optional
        The names that a release may give a noise variance for. None: described before there was this parameter.
    row_losses : str, optional
        The loss of each row under a state: a function `row_losses`, or `code` itself where that is a class with such a
        method. None: there is none, and then nothing is profiled, evaluated or validated.
    loss_max : float
        The largest loss of a row, B: losses are clipped to [0, B]. All reported losses are in parts of B.

    Notes
    -----
    :Guarantee: none of ours: (epsilon, delta) is what the owner of the code asserts.
    :Unit: what the owner asserts: a row, or with `unit` up to `max_rows_per_unit` rows of one id.
    :Neighbours: add or remove one unit.
    :Mechanism: unknown; the loss composes as one known by (epsilon, delta) alone.

    A service clips and noises sums of `row_losses` itself. It is the owner's word, too, that the loss of a
    row depends on that row and the state alone. A release of such sums is asserted like the training.
    """

    bundle: Any
    code: Any
    eval: Any = None
    arguments: Any = None
    columns: Any
    tables: Any
    selected: Any = ()
    synthetic: Any = None
    epsilon: Any
    delta: Any = 0.0
    unit: Any = None
    max_rows_per_unit: Any = 1
    noise_names: Any = None
    row_losses: Any = None
    loss_max: Any = 1.0

    def declared_loss(self) -> PrivacyLoss:
        """Return what the owner asserts; it is charged as a loss known by (epsilon, delta) alone."""
        self._check()
        epsilon, delta = check_epsilon(self.epsilon), check_delta(self.delta)
        return PrivacyLoss(epsilon, delta, EpsilonDelta(epsilon=epsilon, delta=delta))

    def required_columns(self) -> tuple[str, ...]:
        """Return the columns that the code is given."""
        return check_columns(self.columns, "columns")

    def table_schemas(self) -> dict[str, TableSchema]:
        """Return keys and columns of each released table."""
        if not isinstance(self.tables, Mapping) or not self.tables:
            raise InvalidParameterError("tables must name at least one table with its keys and columns")
        try:
            return {
                check_name(name, "a table"): TableSchema.from_json(_schema_of(form))
                for name, form in self.tables.items()
            }
        except CorruptStateError as error:
            raise InvalidParameterError(f"tables cannot be used: {error}") from error

    def declared_rows(self) -> dict[str, int]:
        """Return the number of rows of each table that declares one."""
        declared = {name: form[_ROWS] for name, form in self.tables.items() if _ROWS in form}
        for name, rows in declared.items():
            if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
                raise InvalidParameterError(f"rows of table {name!r} must be a whole number of at least 1")
        return declared

    def declared_values(self) -> dict[str, dict[str, DeclaredValues]]:
        """Return, by table, the columns whose values are declared, and which those are."""
        schemas, declared = self.table_schemas(), dict[str, dict[str, DeclaredValues]]()
        for name, form in self.tables.items():
            given = form.get(_DOMAINS, {})
            if not isinstance(given, Mapping):
                raise InvalidParameterError(f"domains of table {name!r} must map columns to their values")
            kinds = {field.name: str(field.type) for field in schemas[name].schema}
            if unknown := sorted(set(given) - set(kinds)):
                raise InvalidParameterError(
                    f"domains of table {name!r} name {unknown[0]!r}, which it has not"
                )
            declared[name] = {
                column: DeclaredValues(column, kinds[column], values) for column, values in given.items()
            }
        return declared

    def undeclared_columns(self) -> tuple[tuple[str, str], ...]:
        """Return (table, column) of all texts, and of all integer keys, whose values are not declared."""
        declared = self.declared_values()
        return tuple(
            (name, field.name)
            for name, form in self.table_schemas().items()
            for field in form.schema
            if (str(field.type) == "string" or (str(field.type) == "int64" and field.name in form.keys))
            and field.name not in declared[name]
        )

    def largest_loss(self) -> float:
        """Return the largest loss of a row, which losses are clipped to.

        Raises
        ------
        InvalidParameterError
            There are no losses of rows, or their largest is no positive number.
        """
        if self.row_losses is None:
            raise InvalidParameterError(_NO_LOSSES)
        largest = finite_number(self.loss_max, "loss_max")
        if not _LOSS_MAX_LEAST <= largest <= _LOSS_MAX_MOST:
            raise InvalidParameterError(
                "loss_max, the largest loss of a row, must be between 1e-100 and 1e100"
            )
        return largest

    def to_spec(self) -> dict[str, Any]:
        """Return family and parameters as plain JSON values; without losses of rows, nothing is said of them.

        So code that has none is described as it was before there were any, and its states are continued.
        """
        spec = super().to_spec()
        if self.row_losses is None:
            spec["params"] = {name: value for name, value in spec["params"].items() if name not in _OF_LOSSES}
        return spec

    def released_keys(self) -> tuple[str, ...]:
        """Return the tables whose keys are part of the release."""
        return check_columns(self.selected, "selected")

    def condenses(self) -> bool:
        """Return False: there are no partial statistics, the code sees all rows at once."""
        return False

    def iterates(self) -> bool:
        """Return True: nobody knows how often the code goes over the rows."""
        return True

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Raise: the names of features are known to the team's own class."""
        return _refuse("the names of its features")

    def _check(self) -> None:
        if not isinstance(self.bundle, str) or _SHA256.fullmatch(self.bundle) is None:
            raise InvalidParameterError("bundle must be a SHA-256 in hexadecimal")
        if not isinstance(self.code, str) or _ENTRY.fullmatch(self.code) is None:
            raise InvalidParameterError("code must be written as module:name")
        for name, entry in (("eval", self.eval), ("row_losses", self.row_losses)):
            if entry is not None and (not isinstance(entry, str) or _ENTRY.fullmatch(entry) is None):
                raise InvalidParameterError(f"{name} must be written as module:name")
        if self.row_losses is not None:
            self.largest_loss()
        elif self.loss_max != 1.0:
            raise InvalidParameterError("loss_max is said of row_losses, and there are none")
        for name, value in (("arguments", self.arguments), ("synthetic", self.synthetic)):
            if value is not None and not isinstance(value, Mapping):
                raise InvalidParameterError(f"{name} must be a mapping")
        schemas = self.table_schemas()
        if unknown := sorted(set(self.released_keys()) - set(schemas)):
            raise InvalidParameterError(f"selected names {unknown[0]!r}, which is no table")
        if both := sorted(set(self.released_keys()) & set(self.declared_rows())):
            raise InvalidParameterError(f"table {both[0]!r} is selected, so its number of rows is not fixed")
        self.declared_values()
        names = () if self.noise_names is None else self.noise_names
        if not isinstance(names, list | tuple) or not all(
            isinstance(name, str) and _COMPONENT.fullmatch(name) for name in names
        ):
            raise InvalidParameterError("noise_names must be a list of letters, digits and underscores")
        self.input_columns()

    def _empty(self) -> dict[str, Ints]:
        return {}

    def _collect(self, table: InputTable, label: Any) -> dict[str, Ints]:
        return {}

    def _release(self, exact: Units, previous: ReleasedState | None) -> Release:
        return _refuse("what it releases")

    def _transform_columns(self) -> tuple[str, ...]:
        return _refuse("the features of a table")

    def _transform(self, table: InputTable) -> Floats:
        return _refuse("the features of a table")

    def _true_error(self, exact: Units) -> float:
        return _refuse("its error")


def state_of_own(state: ReleasedState, family: type[DPEstimator]) -> ReleasedState:
    """Return a state of team code as one of the class that made it, which the caller imported and trusts.

    Raises
    ------
    InvalidParameterError
        When the state is not of team code, or of code of another name.
    """
    params = state.meta["params"]
    if state.meta["family"] != TEAM_CODE or params["code"].partition(":")[2] != family.__name__:
        raise InvalidParameterError(f"the state was not made by a class called {family.__name__}")
    trust_family(family)
    parameters = signature(family).parameters
    budget = {name: params[name] for name in ("epsilon", "delta") if name in parameters}
    own = family(**(params["arguments"] or {}), **budget)
    return ReleasedState(state.tables, {**state.meta, **own.to_spec()}, is_read=True)


def _schema_of(form: Any) -> Any:
    return (
        {name: value for name, value in form.items() if name not in (_ROWS, _DOMAINS)}
        if isinstance(form, Mapping)
        else form
    )


def _refuse(what: str) -> NoReturn:
    raise InvalidParameterError(f"{what}: {_ELSEWHERE}")
