"""Checks of a released state before it is elected, so that it can be placed in the lake and served."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ptkstore.domain.ptks.serving import check_served_tables
from ptkstore.domain.texts import check_texts
from ptkstore.errors import InvalidRequest

if TYPE_CHECKING:
    from ptklib.team import TeamCode

Tables = Mapping[str, pa.Table]
Forms = Mapping[str, Mapping[str, Any]]


class NotServable(ValueError):
    """A version with these tables could never be served. The message names tables and columns, never a value."""


class UndeclaredValue(NotServable):
    """A key or a text of team code is none of those that were declared for its column."""


def check_servable(tables: Tables, forms: Forms) -> None:
    """Raise `NotServable` unless tables of these forms, keys and columns, can be placed and served.

    `ReleasedState` has already checked columns, types, missing values and infinite numbers.
    """
    try:
        check_served_tables(forms)
    except InvalidRequest as error:
        raise NotServable(str(error)) from None
    for name, form in forms.items():
        keys = list(form["keys"])
        if not keys and tables[name].num_rows != 1:
            raise NotServable(f"table {name!r} has no join keys, so it must have exactly one row")
        if keys and tables[name].group_by(keys).aggregate([]).num_rows < tables[name].num_rows:
            raise NotServable(f"table {name!r} has several rows for one value of {', '.join(keys)}")


def check_team_code(tables: Tables, noise_variance: Mapping[str, float], code: TeamCode) -> None:
    """Raise `NotServable` unless what team code released is as it was declared, and its texts can be shown."""
    rows, values = code.declared_rows(), code.declared_values()
    for name, table in tables.items():
        if (wanted := rows.get(name)) is not None and table.num_rows != wanted:
            raise NotServable(f"table {name!r} must have {wanted} rows, as declared")
        for column in table.column_names:
            what = f"column {column!r} of table {name!r}"
            if pa.types.is_string(table.schema.field(column).type):
                _check_texts(what, table.column(column))
            if column in values[name] and not values[name][column].hold(table.column(column)):
                raise UndeclaredValue(f"{what} has a value that is not declared in its domain")
    if code.noise_names is not None and not set(noise_variance) <= set(code.noise_names):
        raise UndeclaredValue("the release names a noise variance that is not declared")


def _check_texts(what: str, column: pa.ChunkedArray) -> None:
    from ptklib.scalars import TEXT_BYTES_MAX  # loads numpy

    longest = pc.max(pc.binary_length(column)).as_py()
    if longest is not None and longest > TEXT_BYTES_MAX:
        raise NotServable(f"{what} has a text of more than {TEXT_BYTES_MAX} bytes")
    try:
        column.validate(full=True)  # reading a file does not check UTF-8
        check_texts(what, column.to_pylist())
    except (pa.ArrowInvalid, InvalidRequest):
        raise NotServable(f"{what} has a text with characters that cannot be stored or shown") from None
