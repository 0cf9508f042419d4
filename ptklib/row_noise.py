"""The noise of a released row: its own, where the table says it row by row, or that of its column."""

from collections.abc import Collection, Mapping
from typing import Any

OWN_NOISE = "noise_std"
"""A column of tables whose rows do not all have the same noise: the standard deviation in each count of a row."""

Columns = Mapping[str, float]
"""The standard deviation of a table's columns, as a state has it; of rows that differ it is the largest."""


def has_own_noise(numbers: Collection[str], columns: Columns) -> bool:
    """Return whether each row of a table says its noise.

    Parameters
    ----------
    numbers : collection of str
        The table's columns of numbers that are no keys.
    columns : mapping of column to float
        The noise that the state tells of the table. A table without any has no noise of its rows either, whatever a
        team names its columns.
    """
    return bool(columns) and OWN_NOISE in numbers and OWN_NOISE not in columns


def noise_of_row(row: Mapping[str, Any], columns: Columns) -> dict[str, float]:
    """Return the noise of one row's values, by column; columns without noise in closed form are not in it.

    The row is without its keys.
    """
    own = row.get(OWN_NOISE)
    if isinstance(own, int | float) and has_own_noise(row.keys(), columns):
        return dict.fromkeys(columns, float(own))
    return dict(columns)


def noise_of_column(table: Any, column: str, columns: Columns, keys: Collection[str]) -> list[float] | None:
    """Return the noise of each value in a column of an Arrow table; None where it has no closed form."""
    if column not in columns:
        return None
    if has_own_noise({*numbers_of(table)} - {*keys}, columns):
        return [float(std) for std in table.column(OWN_NOISE).to_pylist()]
    return [columns[column]] * int(table.num_rows)


def noise_ranges(table: Any, columns: Columns, keys: Collection[str]) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest noise in each column of an Arrow table; a table without rows has none."""
    if not has_own_noise({*numbers_of(table)} - {*keys}, columns):
        return {column: (std, std) for column, std in columns.items()}
    stds = table.column(OWN_NOISE).to_pylist()
    return dict.fromkeys(columns, (float(min(stds)), float(max(stds)))) if stds else {}


def numbers_of(table: Any) -> list[str]:
    """Return the columns of numbers that an Arrow table has."""
    return [field.name for field in table.schema if str(field.type) in ("double", "int64")]
