"""Say what differs between two published versions of a PTK."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ptklib.row_noise import noise_ranges
from ptkstore.application.versions.elected_files import files_of
from ptkstore.domain.versions.versions import table_of
from ptkstore.ports.catalog import Read
from ptkstore.ports.objects import Lake

_FACTS = (
    "family",
    "tau",
    "config",
    "guarantee",
    "oldest_contributing_window",
    "newest_contributing_window",
    "planned",
    "release_decision",
    "repeats",
)

ROWS_MOST = 100_000
"""Rows of a version that are compared for a page: that many keys take about a second and 50 MB."""
CELLS_MOST = 2_000_000


NoiseRange = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ColumnDiff:
    """How the values of a column changed, over the rows that both versions have.

    `largest` and `mean` are of the absolute changes of numbers; None for other columns. `noise` has the smallest and
    the largest standard deviation of the noise in these rows, of the older version and of the newer; None where it is
    not told.
    """

    column: str
    n_changed: int
    largest: float | None
    mean: float | None
    noise: tuple[NoiseRange | None, NoiseRange | None] = (None, None)


@dataclass(frozen=True, slots=True)
class TableDiff:
    """The changes of a table's rows; rows are distinguished by the table's keys."""

    table: str
    n_added: int
    n_dropped: int
    n_kept: int
    columns_added: tuple[str, ...]
    columns_dropped: tuple[str, ...]
    columns: tuple[ColumnDiff, ...]


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """`facts` maps what the manifests say differently to both values, older first."""

    ptk_id: str
    versions: tuple[int, int]
    facts: Mapping[str, tuple[Any, Any]]
    tables: tuple[TableDiff, ...]


def diff_versions(ptk_id: str, one: int, other: int, *, begin: Read, lake: Lake) -> VersionDiff:
    """Compare two versions as they are in the lake, verified; all of it is public.

    Parameters
    ----------
    one, other : int
        The older and the newer number.

    Raises
    ------
    CorruptObject
        The lake does not hold what was elected.
    """
    with begin() as uow:
        versions = [uow.versions.get(ptk_id, number) for number in (one, other)]
    contents = [(version.content, files_of(version, lake)) for version in versions]
    return difference(ptk_id, (one, other), contents[0], contents[1])


State = tuple[Mapping[str, Any], Mapping[str, bytes]]
"""A manifest and the files it names."""


def has_few_rows(files: Mapping[str, bytes]) -> bool:
    """Return whether the tables of a version have few enough rows and cells to be compared for a page.

    A small file may hold many equal rows, so its footer is asked and not its size.
    """
    facts = [pq.read_metadata(io.BytesIO(data)) for data in files.values()]
    rows, cells = sum(one.num_rows for one in facts), sum(one.num_rows * one.num_columns for one in facts)
    return bool(rows <= ROWS_MOST and cells <= CELLS_MOST)


def difference(ptk_id: str, numbers: tuple[int, int], one: State, other: State) -> VersionDiff:
    """Compare two versions in hand."""
    before, after = contents = [one[0], other[0]]
    tables = [_tables(one[1]), _tables(other[1])]
    facts = {
        name: (before.get(name), after.get(name)) for name in _FACTS if before.get(name) != after.get(name)
    }
    names = sorted({*tables[0], *tables[1]})
    diffs = []
    for name in names:
        keys = [list(c["schema"].get(name, {}).get("keys", ())) for c in contents]
        noise = [c["state"].get("noise_std", {}).get(name, {}) for c in contents]
        diffs.append(_table_diff(name, tables[0].get(name), tables[1].get(name), keys, noise))
    return VersionDiff(ptk_id, numbers, facts, tuple(diffs))


def _tables(files: Mapping[str, bytes]) -> dict[str, pa.Table]:
    return {table_of(name): pq.read_table(io.BytesIO(data)) for name, data in files.items()}


def _table_diff(
    name: str,
    before: pa.Table | None,
    after: pa.Table | None,
    keys: list[list[str]],
    noise_std: list[Mapping[str, float]],
) -> TableDiff:
    if before is None or after is None or keys[0] != keys[1]:  # nothing to tell rows apart by
        old, new = ([] if table is None else table.column_names for table in (before, after))
        n_old, n_new = (0 if table is None else table.num_rows for table in (before, after))
        return TableDiff(name, n_new, n_old, 0, _beyond(new, old), _beyond(old, new), ())
    places = [_places(table, keys[0]) for table in (before, after)]
    kept = [key for key in places[0] if key in places[1]]
    rows = [pa.array([place[key] for key in kept], pa.int64()) for place in places]
    shared = [c for c in before.column_names if c in after.column_names and c not in keys[0]]
    old, new = before.take(rows[0]), after.take(rows[1])
    noises = [noise_ranges(table, told, keys[0]) for table, told in zip((old, new), noise_std, strict=True)]
    columns = [
        replace(_column_diff(c, old[c], new[c]), noise=(noises[0].get(c), noises[1].get(c))) for c in shared
    ]
    return TableDiff(
        name,
        len(places[1]) - len(kept),
        len(places[0]) - len(kept),
        len(kept),
        _beyond(after.column_names, before.column_names),
        _beyond(before.column_names, after.column_names),
        tuple(columns),
    )


def _beyond(names: list[str], others: list[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in others)


def _places(table: pa.Table, keys: list[str]) -> dict[tuple[Any, ...], int]:
    """The place of each key's row; rows without keys are distinguished by their place."""
    if not keys:
        return {(place,): place for place in range(table.num_rows)}
    columns = [table[key].to_pylist() for key in keys]
    return {key: place for place, key in enumerate(zip(*columns, strict=True))}


def _column_diff(column: str, before: pa.ChunkedArray, after: pa.ChunkedArray) -> ColumnDiff:
    if not all(pa.types.is_integer(c.type) or pa.types.is_floating(c.type) for c in (before, after)):
        pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
        return ColumnDiff(column, sum(a != b for a, b in pairs), None, None)
    old, new = (c.cast(pa.float64(), safe=False).to_numpy() for c in (before, after))
    same = (old == new) | (np.isnan(old) & np.isnan(new))
    changes = np.abs(new[~same] - old[~same])
    changes = changes[np.isfinite(changes)]
    size = (float(changes.max()), float(changes.mean())) if len(changes) else (0.0, 0.0)
    return ColumnDiff(column, int((~same).sum()), *size)
