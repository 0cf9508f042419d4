"""What differs between two versions is said beside the noise of the rows that are compared."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ptkstore.application.states.diff_versions import difference


def version(told: Mapping[str, Any], /, **columns: list[Any]) -> tuple[dict[str, Any], dict[str, bytes]]:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    content = {"schema": {"zone": {"keys": ["zone"]}}, "state": {"noise_std": told}}
    return content, {"zone-0.parquet": sink.getvalue()}


def test_rows_with_noise_of_their_own_give_the_least_and_the_most() -> None:
    told = {"zone": {"count": 9.0}}
    one = version(told, zone=["a", "b"], noise_std=[4.0, 2.0], count=[1.0, 2.0])
    other = version(told, zone=["a", "b", "c"], noise_std=[5.0, 3.0, 1.0], count=[1.5, 2.0, 7.0])
    (table,) = difference("taxi.zones", (1, 2), one, other).tables
    noises = {column.column: column.noise for column in table.columns}
    assert noises == {
        "noise_std": (None, None),
        "count": ((2.0, 4.0), (3.0, 5.0)),
    }  # c is in one version only


def test_all_rows_have_the_noise_of_their_column() -> None:
    one = version({"zone": {"count": 4.0}}, zone=["a"], count=[1.0])
    (table,) = difference("taxi.zones", (1, 2), one, version({}, zone=["a"], count=[2.0])).tables
    assert [column.noise for column in table.columns] == [((4.0, 4.0), None)]
