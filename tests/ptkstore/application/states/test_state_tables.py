"""Tables of a state that are looked at on a page: what is too large is not read."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ptkstore.application.states.state_tables import CELLS_MOST, TableAsk, state_table


@pytest.mark.parametrize(("more", "is_read"), [(0, True), (1, False)])
def test_a_small_file_of_many_cells_is_not_read(more: int, is_read: bool) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": pa.array([7] * (CELLS_MOST + more), pa.int8())}), sink)
    assert len(sink.getvalue()) < 10_000
    table = state_table({"schema": {}, "state": {}}, {"x-0.parquet": sink.getvalue()}, TableAsk())
    assert (table is not None) is is_read
