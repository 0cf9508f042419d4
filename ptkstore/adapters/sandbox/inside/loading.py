"""Inside the sandbox: the code that a description names, one training of it, and the losses of rows that it says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ptklib.base import DPEstimator
from ptklib.families import trust_family
from ptklib.state import FORMAT_VERSION, ReleasedState
from ptklib.team import TeamCode
from ptkstore.adapters.sandbox.messages.team_code import columns_of, losses_message, message

Tables = Mapping[str, pa.Table]


@dataclass(frozen=True, eq=False)
class Functions:
    """The paper's two functions, as the team wrote them, and its loss of each row."""

    train_dp: Callable[..., Any]
    eval: Callable[..., Any] | None
    row_losses: Callable[..., Any] | None = None

    def train(
        self, described: TeamCode, rows: pa.Table, epsilon: float, previous: Tables | None
    ) -> dict[str, pa.Table]:
        """Train once; the tables in the declared form."""
        released = self.train_dp(iter([rows]), epsilon, previous, described.arguments or {})
        return in_form(released, described)

    def evaluate(self, rows: pa.Table, state: Tables) -> float:
        """Ask `eval` for its value of a state."""
        assert self.eval is not None
        takes_state = len(_positional(self.eval)) > 1
        return float(self.eval(iter([rows]), state) if takes_state else self.eval(iter([rows])))


def loaded(described: TeamCode) -> DPEstimator | Functions:
    """Return the estimator with the described parameters, or the functions; `TypeError` if the code is neither."""
    code = _named(described.code)
    if isinstance(code, type) and issubclass(code, DPEstimator):
        trust_family(code)
        return code(**_parameters(code, described))
    if isinstance(code, type) or not callable(code):
        raise TypeError(f"{described.code} is neither a DPEstimator class nor a function train_dp")
    evaluate, losses = (
        None if name is None else _named(name) for name in (described.eval, described.row_losses)
    )
    return Functions(code, evaluate, losses)


def trained(header: Mapping[str, Any], parts: Mapping[str, memoryview]) -> bytes:
    """Train on the rows of a message, and answer with the state."""
    described = TeamCode(**header["estimator"]["params"])
    code = loaded(described)
    rows = pa.ipc.open_stream(pa.py_buffer(parts["rows"])).read_all()
    previous = _previous(header["previous"], parts)
    if isinstance(code, Functions):
        tables: Tables = code.train(described, rows, float(described.epsilon), previous)
        return _answer(described, tables, {})
    state = None if previous is None else continued(code, described, previous, header["previous"])
    code.fit(rows, previous_state=state)
    released = code.to_state()
    return _answer(described, released.tables, released.meta)


def losses_of(
    code: DPEstimator | Functions,
    described: TeamCode,
    rows: pa.Table,
    state: Tables,
    meta: Mapping[str, Any],
) -> npt.NDArray[np.float64]:
    """Ask the code for the loss of each row under a state; `ValueError` if it says something else.

    Parameters
    ----------
    code, described
        Code that declares `row_losses`.
    rows : pyarrow.Table
        The columns that a training is given.
    state, meta
        The tables of a state, and what is said of their noise: functions get the tables, a class a state of its own.
    """
    if isinstance(code, Functions):
        assert code.row_losses is not None
        said = code.row_losses(dict(state), rows)
    else:
        said = code.row_losses(continued(code, described, state, meta), rows)
    losses = np.asarray(said, dtype=np.float64)
    if losses.shape != (rows.num_rows,):
        raise ValueError(
            f"row_losses has to return one number for each row; of {rows.num_rows} rows it returned an array of shape "
            f"{losses.shape}"
        )
    return losses


def losses(header: Mapping[str, Any], parts: Mapping[str, memoryview]) -> bytes:
    """Answer with the loss of each row of a message under the state in it."""
    described = TeamCode(**header["estimator"]["params"])
    code = loaded(described)
    rows = pa.ipc.open_stream(pa.py_buffer(parts["rows"])).read_all()
    state = _previous(header["previous"], parts)
    assert state is not None
    return losses_message(losses_of(code, described, rows, state, header["previous"]))


def continued(
    estimator: DPEstimator, described: TeamCode, tables: Tables, meta: Mapping[str, Any]
) -> ReleasedState:
    """Return a stored state of team code as one of the team's own class."""
    schemas = {name: schema.to_json() for name, schema in described.table_schemas().items()}
    return ReleasedState(
        tables,
        {"format_version": FORMAT_VERSION, **estimator.to_spec(), "tables": schemas, **meta},
        is_read=True,
    )


def in_form(released: Any, described: TeamCode) -> dict[str, pa.Table]:
    """Convert what `train_dp` returned to tables of the declared columns; `ValueError` if it is something else."""
    schemas = described.table_schemas()
    if not isinstance(released, Mapping) or set(released) != set(schemas):
        raise ValueError(
            f"train_dp has to return a mapping with exactly the tables {', '.join(sorted(schemas))}"
        )
    return {name: _in_form(name, released[name], schema.schema) for name, schema in schemas.items()}


def _in_form(name: str, table: Any, schema: pa.Schema) -> pa.Table:
    if isinstance(table, pd.DataFrame):
        table = pa.Table.from_pandas(table, preserve_index=False)
    if not isinstance(table, pa.Table) or set(table.column_names) != set(schema.names):
        raise ValueError(
            f"table {name!r} has to be a table with exactly the columns {', '.join(schema.names)}"
        )
    if any(column.null_count for column in table.columns):
        raise ValueError(f"table {name!r} has missing values")
    return table.select(schema.names).replace_schema_metadata(None).cast(schema)


def _previous(meta: Any, parts: Mapping[str, memoryview]) -> dict[str, pa.Table] | None:
    if meta is None:
        return None
    return {
        name.removeprefix("previous/"): pa.ipc.open_stream(pa.py_buffer(content)).read_all()
        for name, content in parts.items()
        if name.startswith("previous/")
    }


def _answer(described: TeamCode, tables: Tables, meta: Mapping[str, Any]) -> bytes:
    rows, parts = columns_of(tables, described.table_schemas())
    noise = {name: _plain(meta.get(name, {})) for name in ("noise_std", "noise_variance", "defaults")}
    return message({"rows": rows, **noise}, parts)


def _plain(value: Any) -> Any:
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _named(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)


def _parameters(family: type, described: TeamCode) -> dict[str, Any]:
    names = signature(family).parameters
    budget = {"epsilon": described.epsilon, "delta": described.delta}
    return {**(described.arguments or {}), **{name: value for name, value in budget.items() if name in names}}


def _positional(function: Callable[..., Any]) -> list[Parameter]:
    kinds = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in signature(function).parameters.values() if p.kind in kinds]
