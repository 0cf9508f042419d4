"""The child's work on a unit that is to be forgotten: every file of a window, rewritten without its rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import ForgetRequest


def forget(request: ForgetRequest, raw: RawZone) -> None:
    """Rewrite all files alike: neither which are written nor how long it takes shows whether there were such rows."""

    def without(rows: pa.Table) -> pa.Table:
        column = rows[request.unit_column]
        return rows.filter(pc.fill_null(pc.not_equal(column, pa.scalar(request.unit, column.type)), True))

    raw.rewrite(request.window, without, request.window_key)
