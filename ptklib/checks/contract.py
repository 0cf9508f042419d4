"""Checks of the estimator contract: the attributes, outputs and secrets of a fitted object."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ptklib.base import DPEstimator
from ptklib.checks.event_diff import differences
from ptklib.checks.rows import Rows, Synthetic
from ptklib.checks.trainings import few_rows, fitted
from ptklib.exceptions import PrivacyParameterError, PtklibError, SchemaError
from ptklib.families import is_family
from ptklib.mechanisms.recording import recorded_draws
from ptklib.partials import PartialStatistics
from ptklib.spec import estimator_from_spec
from ptklib.state import ReleasedState

_UNUSABLE = (0, -1.0, float("nan"), float("inf"), 5e-324, 1e-7, 10.1, True, "1", None, 1 + 0j)
_SECRET = 723_514_906.25
"""A value that stands nowhere else, so that a message that holds it has it from a row."""

_MARK = "723514906"

_ODD = (None, float("nan"), float("inf"), -1e300, "not in any domain", b"bytes", _SECRET, 2**70, [1])
"""Entries of a column of objects that are no value of any domain and no usable number."""


@dataclass(frozen=True, eq=False)
class Case:
    """An estimator under check and synthetic rows for it."""

    estimator: Any
    columns: Mapping[str, Any] | None = field(default=None, repr=False)

    def fresh(self) -> Any:
        """Return an unfitted copy."""
        return clone(self.estimator)

    def fitted(self) -> Any:
        """Return a fitted copy."""
        return fitted(self.fresh(), self.rows.X, self.rows.y)

    @cached_property
    def synthetic(self) -> Synthetic:
        """The maker of its rows."""
        return Synthetic(self.fresh(), self.columns)

    @cached_property
    def rows(self) -> Rows:
        """Some rows from all over the declared columns; the same in every run."""
        return self.synthetic.many(120)


def check_parameters_are_kept_as_given(case: Case) -> None:
    """Check that `fit` changes no parameter."""
    estimator = case.fresh()
    before = {name: (value, repr(value)) for name, value in estimator.get_params(deep=False).items()}
    fitted(estimator, case.rows.X, case.rows.y)
    for name, value in estimator.get_params(deep=False).items():
        require(value is before[name][0], f"fit replaced parameter {name!r}: store it as given")
        require(repr(value) == before[name][1], f"fit changed parameter {name!r}")


def check_loss_is_declared_before_data(case: Case) -> None:
    """Check that `declared_loss` needs no data, and is what `fit` and `finalize` say they spent."""
    declared = case.fresh().declared_loss()
    require(declared.epsilon <= case.estimator.epsilon, "declared_loss exceeds the parameter epsilon")
    require(declared.delta <= case.estimator.delta, "declared_loss exceeds the parameter delta")
    require(case.fitted().privacy_spent_ == declared, "privacy_spent_ after fit differs from declared_loss()")
    require(case.fresh().finalize([]).privacy_spent_ == declared, "privacy_spent_ after finalize differs")


def check_unusable_epsilon_is_refused_before_data(case: Case) -> None:
    """Check that an epsilon without meaning is refused by `declared_loss` and by `fit`, before X is looked at."""
    uses: tuple[tuple[str, tuple[object, ...]], ...] = (("declared_loss", ()), ("fit", (object(),)))
    for epsilon in _UNUSABLE:
        for method, data in uses:
            estimator = case.fresh().set_params(epsilon=epsilon)
            try:
                getattr(estimator, method)(*data)
            except PrivacyParameterError:
                continue
            raise AssertionError(f"{method} accepts epsilon={epsilon!r}")


def check_holds_nothing_beyond_declared(case: Case) -> None:
    """Check that after each method an object has parameters, `released` and `public` attributes, and nothing else."""
    estimator = case.fresh()
    parameters = set(estimator.get_params(deep=False))
    declared = {*type(estimator).released, *type(estimator).public}
    part = estimator.partial_statistics(case.rows.X, case.rows.y)
    _holds(estimator, parameters, "partial_statistics")
    estimator.merge([part])
    _holds(estimator, parameters, "merge")
    fitted(estimator, case.rows.X, case.rows.y)
    _holds(estimator, parameters | declared, "fit")
    missing = declared - set(vars(estimator))
    require(not missing, f"declared in released or public, but not set by fit: {sorted(missing)}")
    estimator.transform(case.rows.X)
    _holds(estimator, parameters | declared, "transform")
    estimator.error_from_true_value(part)
    _holds(estimator, parameters | declared, "error_from_true_value")
    _holds(case.fresh().finalize([part]), parameters | declared, "finalize")


def check_state_round_trip(case: Case) -> None:
    """Check that a state survives its files, byte for byte, and the estimator read from it gives the same features."""
    _stored(case)
    estimator = case.fitted()
    files = estimator.to_state().to_files()
    again = DPEstimator.from_state(ReleasedState.from_files(files))
    require(type(again) is type(estimator), "from_state returns another class")
    require(again.to_state().to_files() == files, "a state read and written again has other bytes")
    same = np.array_equal(again.transform(case.rows.X), estimator.transform(case.rows.X), equal_nan=True)
    require(same, "transform differs after a round trip: a feature depends on something the state lacks")
    declared = {*again.get_params(deep=False), *type(again).released, *type(again).public}
    _holds(again, declared, "from_state")


def check_spec_round_trip(case: Case) -> None:
    """Check that the spec is plain JSON and describes the same estimator and the same loss."""
    spec = json.loads(json.dumps(case.estimator.to_spec(), sort_keys=True, allow_nan=False))
    if not is_family(type(case.estimator).__name__):
        raise SkipTest("the family is not in ptklib.families: no stored spec may ask for it")
    again = estimator_from_spec(spec)
    require(again.to_spec() == case.estimator.to_spec(), "a spec read and written again differs")
    require(again.declared_loss() == case.estimator.declared_loss(), "the loss differs after a round trip")


def check_event_is_what_was_drawn(case: Case) -> None:
    """Check that mechanisms, scales and numbers of values drawn by `fit` and by `finalize` are those of the event."""
    event, estimator = case.fresh().declared_loss().event, case.fresh()
    part = estimator.partial_statistics(case.rows.X, case.rows.y)
    for name, data in (
        ("fit", (case.rows.X, case.rows.y)),
        ("fit without rows", _none(case.rows)),
        ("finalize", ([part],)),
    ):
        with recorded_draws() as draws, few_rows():
            getattr(estimator, name.split()[0])(*data)
        apart = differences(event, draws)
        require(not apart, f"{name} does not draw what declared_loss says: " + "; ".join(apart))


def check_only_training_draws_noise(case: Case) -> None:
    """Check that statistics of shards are exact, and features are functions of the state."""
    estimator = case.fitted()
    with recorded_draws() as draws:
        part = estimator.partial_statistics(case.rows.X, case.rows.y)
        estimator.merge([part, part])
        first = estimator.transform(case.rows.X)
        second = estimator.transform(case.rows.X)
    require(not draws, "noise is drawn outside of fit and finalize: a release that nobody declared")
    require(np.array_equal(first, second, equal_nan=True), "transform of the same rows differs between calls")


def check_shards_merge(case: Case) -> None:
    """Check that parts of shards add up to the whole, whatever their order, survive a table and hide their numbers."""
    estimator, rows = case.fresh(), case.rows
    whole = estimator.partial_statistics(rows.X, rows.y)
    for name, units in whole.arrays.items():
        whole_numbers = units.dtype == np.int64
        require(whole_numbers, f"vector {name!r} is not of whole numbers: sums would depend on their order")
    cuts = [(0, 30), (30, 31), (31, 31), (31, len(rows))]
    shards = [estimator.partial_statistics(*_slice(rows, *cut)) for cut in cuts]
    merged = estimator.merge([estimator.merge(shards[:2]), *shards[2:]])
    require(merged.arrays.keys() == whole.arrays.keys(), "shards have other vectors than the whole")
    for name, units in whole.arrays.items():
        require(
            np.array_equal(merged.arrays[name], units),
            f"vector {name!r} of merged shards differs from the whole",
        )
    again = PartialStatistics.from_table(whole.to_table())
    require(
        all(np.array_equal(again.arrays[n], whole.arrays[n]) for n in whole.arrays), "a stored part differs"
    )
    require(not any(char.isdigit() for char in repr(whole)), "the repr of partial statistics shows numbers")


def check_shapes_do_not_depend_on_data(case: Case) -> None:
    """Check that tables have the declared schema, and as many rows for no row, one, equal and many rows.

    The number of rows of tables in `released_keys` is part of the release.
    """
    schemas = case.fresh().table_schemas()
    shapes = {}
    rows = case.rows
    alike = case.synthetic.alike(-1, 20)
    for name, part in (
        ("many rows", (rows.X, rows.y)),
        ("no row", _none(rows)),
        ("one row", _slice(rows, 0, 1)),
        ("equal rows", (alike.X, alike.y)),
    ):
        tables = fitted(case.fresh(), *part).tables_
        actual = {n: t.schema for n, t in tables.items()}
        require(
            actual == {n: s.schema for n, s in schemas.items()},
            f"tables of {name} differ from table_schemas()",
        )
        shapes[name] = _lengths(case, tables)
    require(
        len({json.dumps(s, sort_keys=True) for s in shapes.values()}) == 1,
        f"the shape tells the data: {shapes}",
    )


def check_odd_rows_are_harmless(case: Case) -> None:
    """Check that missing, infinite, huge, unseen and mistyped entries of objects neither fail nor change a shape."""
    rows, estimator = case.rows, case.fresh()
    usual = _lengths(case, case.fitted().tables_)
    for name in rows.X.columns:
        entries = np.array([*_ODD, *rows.X[name][len(_ODD) :], None], dtype=object)[:-1]
        X = rows.X.assign(**{name: pd.Series(entries, dtype=object)}).astype(object)
        try:
            tables = fitted(estimator, X, rows.y).tables_
        except Exception as error:
            raise AssertionError(
                f"an odd entry of column {name!r} of objects stops fit: {type(error).__name__} tells that it is there"
            ) from error
        what = f"odd entries of column {name!r}"
        require(_lengths(case, tables) == usual, f"{what} change the number of released rows")
        numbers = [
            t.column(f.name).to_numpy() for t in tables.values() for f in t.schema if str(f.type) == "double"
        ]
        require(all(np.isfinite(n).all() for n in numbers), f"{what} release a number that is not finite")
        features = np.asarray(estimator.transform(X), dtype=np.float64)
        require(np.isfinite(features).all(), f"{what} make features that are not finite")


def check_errors_hold_no_value(case: Case) -> None:
    """Check that a missing column or a column of another type raises `SchemaError`, which never quotes an entry."""
    rows = case.rows
    for name in rows.X.columns:
        without, number = rows.X.drop(columns=name), np.full(len(rows), _SECRET)
        _refused(case, without, rows.y, f"a table without column {name!r}")
        for typed in (number, number.astype(str), number.astype(complex), number.astype("datetime64[s]")):
            _quiet(case, rows.X.assign(**{name: pd.Series(typed)}), rows.y)
    _refused(case, rows.X[0:0].drop(columns=list(rows.X.columns)), rows.y, "a table without columns")


def check_transform_names_its_columns(case: Case) -> None:
    """Check that `transform` gives finite numbers under the names of its columns, in the container asked for."""
    estimator = case.fitted().set_output(transform="pandas")
    features = estimator.transform(case.rows.X[:5])
    require(isinstance(features, pd.DataFrame), "set_output(transform='pandas') has no effect")
    require(
        list(features.columns) == list(estimator.get_feature_names_out()), "columns are not the feature names"
    )
    require(len(features) == 5, "transform loses or adds rows")
    require(np.isfinite(features.to_numpy(dtype=np.float64)).all(), "a feature is not finite")


def check_unfitted_does_nothing(case: Case) -> None:
    """Check that an unfitted estimator neither transforms nor has a state."""
    for method, data in (("transform", (case.rows.X,)), ("to_state", ())):
        try:
            getattr(case.fresh(), method)(*data)
        except NotFittedError:
            continue
        raise AssertionError("an unfitted estimator must raise NotFittedError")


def check_continues_a_previous_state(case: Case) -> None:
    """Check that a state of the same parameters is continued, with another epsilon too, and counted."""
    _stored(case)
    state = ReleasedState.from_files(case.fitted().to_state().to_files())
    again = fitted(case.fresh(), case.rows.X, case.rows.y, previous_state=state)
    require(again.n_releases_ == 2, "n_releases_ does not count the previous state")
    cheaper = case.fresh().set_params(epsilon=float(case.estimator.epsilon) / 2)
    require(
        cheaper.finalize([], previous_state=state).n_releases_ == 2,
        "n_releases_ does not count the previous state",
    )


CONTRACT: tuple[Callable[[Case], None], ...] = (
    check_parameters_are_kept_as_given,
    check_loss_is_declared_before_data,
    check_unusable_epsilon_is_refused_before_data,
    check_holds_nothing_beyond_declared,
    check_spec_round_trip,
    check_state_round_trip,
    check_continues_a_previous_state,
    check_event_is_what_was_drawn,
    check_only_training_draws_noise,
    check_shards_merge,
    check_shapes_do_not_depend_on_data,
    check_odd_rows_are_harmless,
    check_errors_hold_no_value,
    check_transform_names_its_columns,
    check_unfitted_does_nothing,
)
"""The checks of the contract, in the order they are run."""


def require(condition: object, message: str) -> None:
    """Raise `AssertionError` unless `condition` is true, under ``python -O`` too."""
    if not condition:
        raise AssertionError(message)


def _holds(estimator: Any, allowed: set[str], method: str) -> None:
    beyond = sorted(set(vars(estimator)) - allowed - {"_sklearn_output_config"})
    require(
        not beyond,
        f"after {method} the object also holds {', '.join(beyond)}: what is DP output belongs in `released`, what is "
        "known without data in `public`, anything else must go",
    )


def _lengths(case: Case, tables: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of rows of the tables whose keys are not themselves released."""
    released = case.estimator.released_keys()
    return {name: table.num_rows for name, table in tables.items() if name not in released}


def _stored(case: Case) -> None:
    if not is_family(type(case.estimator).__name__):
        raise SkipTest(
            "the family is not in ptklib.families: only families of the library have stored states"
        )


def _none(rows: Rows) -> tuple[Any, Any]:
    return _slice(rows, 0, 0)


def _slice(rows: Rows, start: int, stop: int) -> tuple[Any, Any]:
    part = rows[start:stop]
    return part.X, part.y


def _refused(case: Case, X: Any, y: Any, what: str) -> None:
    try:
        fitted(case.fresh(), X, y)
    except SchemaError as error:
        require(_MARK not in str(error), f"the error for {what} quotes an entry")
        return
    raise AssertionError(f"fit accepts {what}")


def _quiet(case: Case, X: Any, y: Any) -> None:
    try:
        fitted(case.fresh(), X, y)
    except PtklibError as error:
        require(_MARK not in str(error), f"{type(error).__name__} quotes an entry of the data")
    except Exception as error:
        raise AssertionError(
            f"fit of a column of another type raises {type(error).__name__}, not SchemaError"
        ) from error
