"""The contents of a version of a PTK: its table, and a plot of a column with its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptkstore.console.value_charts import Value, ValueChart, value_chart

if TYPE_CHECKING:
    from ptkstore.application.states.state_tables import StateTable, TableAsk

ROWS_SHOWN = 50
PLOTTED = 48
TEXT_MOST = 100
CELL_MOST = 80


def table_ask(asked: Mapping[str, Sequence[str]]) -> TableAsk:
    """Read the question of the form. An empty field restricts nothing."""
    from ptkstore.application.states.state_tables import TableAsk

    said = {name: values[0][:TEXT_MOST] for name, values in asked.items() if values}
    return TableAsk(
        said.get("table", ""),
        said.get("find", "").strip(),
        said.get("sort", ""),
        said.get("order", "") == "down",
        ROWS_SHOWN,
    )


def shown_table(table: StateTable, plotted: str) -> dict[str, Any]:
    """Return rows as texts, with a plot of one column of numbers over them."""
    values = [name for name in table.columns if name in table.numeric and name not in table.keys]
    column = plotted if plotted in values else next(iter([*table.noise_std, *values]), "")
    column = column if column in values else next(iter(values), "")
    return {
        "name": table.name,
        "tables": table.tables,
        "join_keys": table.keys,
        "columns": [
            {
                "name": name,
                "number": name in table.numeric,
                "noise": None if table.noise_by_row else table.noise_std.get(name),
            }
            for name in table.columns
        ],
        "rows": [[_cell(value) for value in row] for row in table.rows],
        "n_rows": table.n_rows,
        "n_found": table.n_found,
        "sort": table.column,
        "descending": table.descending,
        "values": values,
        "plotted": column,
        "noise": table.noise_std.get(column),
        "noise_by_row": table.noise_by_row if column in table.noise_std else "",
        "chart": _plot(table, column) if column else None,
    }


def _plot(table: StateTable, column: str) -> ValueChart | None:
    names = list(zip(*(table.values_of(key) for key in table.keys), strict=True)) or [
        (number,) for number in range(len(table.rows))
    ]
    values = []
    for name, value, told in list(zip(names, table.values_of(column), table.noises_of(column), strict=True))[
        :PLOTTED
    ]:
        if value is None:
            continue
        noise = told or 0.0
        key = ", ".join(_cell(one) for one in name)
        text = f"{key}: {_cell(value)}" + (f", noise of standard deviation {noise:.4g}" if noise else "")
        values.append(Value(key, float(value), value - 2 * noise, value + 2 * noise, text))
    return value_chart(values)


def _cell(value: object) -> str:
    """A value as people read it; a long one is cut."""
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= CELL_MOST else f"{text[:CELL_MOST]}…"
