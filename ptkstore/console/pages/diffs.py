"""What differs between two versions, as much of it as a page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptkstore.console.pages.shown import compact, shown_time

if TYPE_CHECKING:
    from ptkstore.application.states.diff_versions import ColumnDiff, TableDiff, VersionDiff

TABLES_SHOWN = 20
COLUMNS_SHOWN = 100
NAMES_SHOWN = 10


def shown_diff(diff: VersionDiff) -> dict[str, Any]:
    """Return the changes of the first tables and columns, and how many more there are."""
    return {
        "facts": diff.facts,
        "tables": [_table(one) for one in diff.tables[:TABLES_SHOWN]],
        "more_tables": max(0, len(diff.tables) - TABLES_SHOWN),
    }


def too_large(ptk_id: str, one: int, other: int) -> str:
    """Say why two versions are not compared, and what compares them."""
    from ptkstore.application.states.diff_versions import CELLS_MOST, ROWS_MOST
    from ptkstore.application.states.state_tables import BYTES_MOST

    return (
        f"These versions are too large to be compared on a page. It reads at most {ROWS_MOST:,} rows, {CELLS_MOST:,} "
        f"values and {BYTES_MOST // 1_000_000} MB of each. To compare them in full: ptk diff {ptk_id} {one} {other}."
    )


def fact(value: object) -> str:
    """Write a fact of a manifest; a window by its number and its days, nothing as a word."""
    if isinstance(value, Mapping) and set(value) == {"index", "start", "end"}:
        return f"window {value['index']}, {shown_time(value['start'])} to {shown_time(value['end'])}"
    return "none" if value is None else compact(value)


def _table(table: TableDiff) -> dict[str, Any]:
    columns = [_column(one) for one in table.columns[:COLUMNS_SHOWN]]
    return {
        "table": table.table,
        "n_kept": table.n_kept,
        "n_added": table.n_added,
        "n_dropped": table.n_dropped,
        "added": _names(table.columns_added),
        "dropped": _names(table.columns_dropped),
        "columns": columns,
        "noisy": [place for place in (0, 1) if any(one["noises"][place] for one in columns)],
        "n_columns": len(table.columns),
    }


def _column(column: ColumnDiff) -> dict[str, Any]:
    return {
        "column": column.column,
        "n_changed": column.n_changed,
        "mean": column.mean,
        "largest": column.largest,
        "noises": [_noise(*ends) if ends else "" for ends in column.noise],
    }


def _noise(least: float, most: float) -> str:
    """One deviation, or those of the rows with the least and the most."""
    return f"± {most:.3g}" if least == most else f"± {least:.3g} to ± {most:.3g}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join([*names[:NAMES_SHOWN], *([f"{more:,} more"] if more > 0 else [])])
