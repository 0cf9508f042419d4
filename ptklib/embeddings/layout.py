"""How released tables are laid out."""

from typing import Any

import numpy as np

from ptklib.arrays import Floats
from ptklib.domains import Domain
from ptklib.exceptions import CorruptStateError
from ptklib.names import refuse_duplicates
from ptklib.state import TableSchema

ITEMS, USERS, COUNT = "items", "users", "count"


def schema_of(key: Domain, columns: list[str]) -> TableSchema:
    """Return the schema of a table with one key and columns of numbers."""
    refuse_duplicates([key.column, *columns], "the columns of a released table")
    return TableSchema.of({key.column: key.arrow_type}, columns)


def matrix(table: Any, names: list[str]) -> Floats:
    """Return some columns of numbers side by side."""
    return np.column_stack([table.column(name).to_numpy() for name in names])


def check_numbers(table: Any, names: list[str], least: float, most: float) -> None:
    """Raise `CorruptStateError` unless all numbers of some columns are between `least` and `most`."""
    numbers = matrix(table, names)
    if not bool(((numbers >= least) & (numbers <= most)).all()):  # NaN is neither
        raise CorruptStateError("a state of user embeddings has numbers that are never released")


def factor_names(k: int) -> list[str]:
    """Return the columns of item factors."""
    return [f"factor_{i}" for i in range(k)]


def user_names(k: int) -> list[str]:
    """Return the columns of user vectors, which are also the features."""
    return [f"user_{name}" for name in factor_names(k)]
