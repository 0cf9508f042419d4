"""Columns of Arrow: types that few of its functions read, and their way to numpy."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_WITHOUT_VIEWS = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}


def without_views(column: Any) -> Any:
    """Return an Arrow column without runs or views of texts and bytes, which few functions of Arrow read."""
    kind = column.type
    if pa.types.is_run_end_encoded(kind):
        return without_views(pc.run_end_decode(column))
    if kind in _WITHOUT_VIEWS:
        return column.cast(_WITHOUT_VIEWS[kind])
    if not pa.types.is_dictionary(kind) or kind.value_type not in _WITHOUT_VIEWS:
        return column
    form = _WITHOUT_VIEWS[kind.value_type]
    if isinstance(column, pa.Array):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(form))
    chunks = [pa.DictionaryArray.from_arrays(c.indices, c.dictionary.cast(form)) for c in column.chunks]
    return pa.chunked_array(chunks, pa.dictionary(kind.index_type, form))


def without_dictionaries(rows: Any) -> Any:
    """Return a table, or a record batch, whose columns have their values in place of dictionaries."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(place, field.name, rows.column(place).cast(field.type.value_type))
    return rows


def dense(column: Any) -> npt.NDArray[Any]:
    """Return an Arrow column without missing entries as numpy."""
    whole = isinstance(column, pa.Array)
    return np.asarray(column.to_numpy(zero_copy_only=False) if whole else column.to_numpy())
