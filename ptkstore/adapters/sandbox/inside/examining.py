"""Inside the sandbox: what team code says of itself, and how it does on synthetic rows."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Self
from unittest import SkipTest

import pyarrow as pa

from ptklib.base import DPEstimator
from ptklib.checks.arrays import array_form
from ptklib.checks.audit import at_audit_budget, audit, twin
from ptklib.checks.contract import CONTRACT, Case, require
from ptklib.checks.rows import Rows, Synthetic
from ptklib.checks.suite import NamedCheck, sklearn_checks
from ptklib.checks.trainings import few_rows
from ptklib.exceptions import InvalidParameterError, PtklibError
from ptklib.state import ReleasedState
from ptklib.team import TeamCode
from ptkstore.adapters.sandbox.inside.examining_losses import Losses, loss_checks
from ptkstore.adapters.sandbox.inside.loading import Functions, Tables, loaded, losses_of
from ptkstore.application.versions.servable import NotServable, check_servable, check_team_code

_ROWS: Final = 120
_LONG_SECONDS: Final = 5.0
"""An audit that takes longer is not made a second time, of a twin: examinations have to end."""
EXPECTED: Final = "expected_failed_checks"
"""Attribute of a class: scikit-learn's checks that it fails for a good reason, by name. No other check is excused."""

Finding = tuple[str, str, str]


def examined(estimator: Mapping[str, Any], runs: int) -> dict[str, Any]:
    """Return description and findings, as `messages.team_code.examined_from` expects them."""
    described = TeamCode(**estimator["params"])
    try:
        code = loaded(described)
        own_words = description(code, described)
    except BaseException as error:  # noqa: BLE001 - team code may raise anything, sys.exit included
        return {"described": None, "findings": [("loads", "failed", _error_text(error))]}
    findings: list[Finding] = [("loads", "passed", "")]
    findings += [_run(name, check) for name, check in _checks(code, described, runs)]
    return {"described": own_words, "findings": findings}


def description(code: DPEstimator | Functions, described: TeamCode) -> dict[str, Any]:
    """Describe the code, for comparison with what its owner declared."""
    subject = described if isinstance(code, Functions) else code
    loss = subject.declared_loss()
    return {
        "columns": list(subject.required_columns()),
        "tables": {name: schema.to_json() for name, schema in subject.table_schemas().items()},
        "selected": list(subject.released_keys()),
        "epsilon": loss.epsilon,
        "delta": loss.delta,
        "unit": subject.unit,
        "max_rows_per_unit": subject.max_rows_per_unit,
    }


def _checks(
    code: DPEstimator | Functions, described: TeamCode, runs: int
) -> Iterator[tuple[str, Callable[[], None]]]:
    columns = {
        name: list(values)
        if isinstance(values, list | tuple)
        else values  # as declared: an interval is two floats
        for name, values in (described.synthetic or {}).items()
    }
    if isinstance(code, Functions):
        subject: Any = _AsEstimator.of(described, code)
        yield from _function_checks(subject, columns)
    else:
        subject, case = code, Case(code, columns)
        for check in CONTRACT:
            yield check.__name__, lambda check=check: check(case)  # type: ignore[misc]
        yield from _sklearn_checks(code)
    yield from loss_checks(lambda: _losses_of_new_state(subject, described, columns), described)
    yield "check_release_can_be_served", lambda: _check_served(subject, described, columns)
    if runs:
        took: list[float] = []
        yield "check_audit_stays_below_epsilon", lambda: _audit(subject, columns, runs, took)
        yield "check_audit_sees_half_the_noise", lambda: _audit_of_twin(subject, columns, runs, took)


def _sklearn_checks(code: DPEstimator) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield scikit-learn's own, which make arrays: for classes whose columns are named by their parameters."""
    checks: list[tuple[Any, NamedCheck]] = []

    def collect() -> None:
        numbered = array_form(code)
        names = [f"x{i}" for i in range(len(numbered.required_columns()))]
        if list(numbered.required_columns()) != names:
            raise SkipTest("its columns have names of their own, and the arrays of scikit-learn have none")
        checks.extend(sklearn_checks(code, dict(getattr(type(code), EXPECTED, {}))))

    yield "sklearn_checks", collect
    yield from ((check.name, partial(_expecting, check, instance)) for instance, check in checks)


def _expecting(check: NamedCheck, instance: Any) -> None:
    try:
        check(instance)
    except SkipTest:
        raise
    except Exception as error:
        if check.expected is None:
            raise
        raise SkipTest(f"fails as expected: {check.expected}") from error


def _function_checks(
    subject: _AsEstimator, columns: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[], None]]]:
    def rows() -> Rows:
        return Synthetic(subject, columns).many(_ROWS)

    def trains() -> None:
        subject.fit(rows().X)

    def continues() -> None:
        subject.code.train(subject, _table(rows()), float(subject.epsilon), subject.fit(rows().X).tables_)

    def draws_noise() -> None:
        first, second = (subject.fit(rows().X).tables_ for _ in range(2))
        require(
            any(not first[name].equals(second[name]) for name in first),
            "two trainings on the same rows release the same: no noise is drawn",
        )

    def shape() -> None:
        table = rows()
        sizes = {
            name: _sizes(subject.fit(part.X).tables_, subject.released_keys())
            for name, part in (("many rows", table), ("no row", table[:0]), ("one row", table[:1]))
        }
        require(
            len({tuple(sorted(size.items())) for size in sizes.values()}) == 1,
            f"the number of released rows tells the data: {sizes}; declare keys, or name the table in selected",
        )

    def evaluates() -> None:
        if subject.code.eval is None:
            raise SkipTest("there is no eval")
        value = subject.code.evaluate(_table(rows()), subject.fit(rows().X).tables_)
        require(math.isfinite(value), "eval has to return a finite number")

    yield "check_trains_on_synthetic_rows", trains
    yield "check_continues_a_previous_state", continues
    yield "check_noise_is_drawn", draws_noise
    yield "check_shapes_do_not_depend_on_data", shape
    yield "check_missing_entries_are_harmless", lambda: _check_missing(subject, _table(rows()))
    yield "check_eval_is_a_number", evaluates


def _check_missing(subject: _AsEstimator, table: pa.Table) -> None:
    for name in table.column_names:
        column = table.column(name)
        holes = pa.array([None] * 5, column.type)
        odd = pa.concat_arrays([*column.chunks, holes]).slice(5)
        changed = table.set_column(table.column_names.index(name), name, odd)
        try:
            subject.code.train(subject, changed, float(subject.epsilon), None)
        except Exception as error:
            raise AssertionError(
                f"a missing entry of column {name!r} stops train_dp: {type(error).__name__} tells that it is there"
            ) from error


def _losses_of_new_state(
    subject: Any, described: TeamCode, columns: Mapping[str, Any]
) -> tuple[Losses, pa.Table]:
    """The losses of rows under a state that is trained now, and synthetic rows."""
    rows = Synthetic(subject, columns).many(_ROWS)
    with few_rows():
        fitted = subject.fit(rows.X, rows.y)
    table = _table(rows).select(list(subject.input_columns()))
    if isinstance(subject, _AsEstimator):
        return lambda part: losses_of(subject.code, described, part, fitted.tables_, {}), table
    state = fitted.to_state()
    return lambda part: losses_of(subject, described, part, state.tables, _kept(state)), table


def _kept(state: ReleasedState) -> dict[str, Any]:
    """The facts of a state that a later run gets beside its tables."""
    own = {"format_version", "family", "params", "tables"}
    return {name: value for name, value in state.meta.items() if name not in own}


def _check_served(subject: Any, described: TeamCode, columns: Mapping[str, Any]) -> None:
    """Check what a training on real rows has to fulfil as well; there nobody learns why it fails."""
    rows = Synthetic(subject, columns).many(_ROWS)
    with few_rows():
        fitted = subject.fit(rows.X, rows.y)
    functions = isinstance(subject, TeamCode)
    tables = fitted.tables_ if functions else fitted.to_state().tables
    check_servable(tables, {name: form.to_json() for name, form in subject.table_schemas().items()})
    check_team_code(tables, {} if functions else fitted.noise_variance_, described)


def _audit(subject: Any, columns: Mapping[str, Any], runs: int, took: list[float]) -> None:
    visible, began = at_audit_budget(subject), time.monotonic()
    report = audit(visible, runs=runs, columns=columns)
    took.append(time.monotonic() - began)
    require(
        report.verdict == "consistent",
        f"{report.runs} runs prove epsilon >= {report.lower_bound:.3f} at {report.confidence:.1%}, declared is "
        f"{report.epsilon:g} ({report.neighbours}): noise is missing or a sensitivity is too small",
    )


def _audit_of_twin(subject: Any, columns: Mapping[str, Any], runs: int, took: list[float]) -> None:
    """Check whether the audit could have seen half the noise; that so few runs do not is no fault of the code."""
    visible = at_audit_budget(subject)
    if not took or took[0] > _LONG_SECONDS:
        raise SkipTest("the audit takes long, or found something: it is not made of a twin")
    try:
        faulty = twin(visible)
    except InvalidParameterError as error:
        raise SkipTest(str(error)) from error
    report = audit(faulty, runs=runs, declared=visible.declared_loss(), columns=columns)
    if report.verdict != "contradicted":
        raise SkipTest(
            f"{report.runs} runs would not have shown half the noise: the audit tells of less alone"
        )


class _AsEstimator(TeamCode):
    """A team's functions in the form that audits take: what they keep of rows are the rows."""

    code: Any

    @classmethod
    def of(cls, described: TeamCode, code: Functions) -> Self:
        """Return the description, with the functions in place of their name."""
        return cls(**{**described.get_params(deep=False), "code": code})

    def _check(self) -> None:
        TeamCode(**{**self.get_params(deep=False), "code": "checked:before"})._check()

    def fit(self, X: Any, y: Any = None, *, previous_state: ReleasedState | None = None) -> Self:
        """Train once."""
        return self.finalize([self.partial_statistics(X)])

    def partial_statistics(self, X: Any, y: Any = None) -> Any:
        """Return the rows."""
        return X if isinstance(X, pa.Table) else pa.Table.from_pandas(X, preserve_index=False)

    def finalize(self, parts: Any, previous_state: ReleasedState | None = None) -> Self:
        """Train on the rows of all parts."""
        self.tables_ = self.code.train(self, pa.concat_tables(list(parts)), float(self.epsilon), None)
        return self


def _run(name: str, check: Callable[[], None]) -> Finding:
    try:
        check()
    except SkipTest as reason:
        return (name, "skipped", str(reason))
    except BaseException as error:  # noqa: BLE001 - team code may raise anything, sys.exit included
        return (name, "failed", _error_text(error))
    return (name, "passed", "")


def _error_text(error: BaseException) -> str:
    """An error on synthetic rows, for its owner; `printed` has all of it."""
    traceback.print_exception(error)
    text = str(error)
    if isinstance(error, AssertionError | PtklibError | NotServable):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}"


def _table(rows: Rows) -> pa.Table:
    return pa.Table.from_pandas(rows.X, preserve_index=False)


def _sizes(tables: Tables, selected: tuple[str, ...]) -> dict[str, int]:
    return {name: table.num_rows for name, table in tables.items() if name not in selected}
