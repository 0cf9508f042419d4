"""One cumulative Parquet file per version: what `get_historical_features` joins against, point in time.

A file holds the rows of its version and of all versions before it, each at the event time of its version.
Two kinds of rows without values make Feast's as-of join right: a *tombstone* at the version that dropped a
key, or the key would keep its last value for ever; and a *floor* in 1970 for every key, or Feast drops entity
rows older than the key's first value instead of answering null.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ptkstore.adapters.feast.files import replace_file
from ptkstore.adapters.feast.names import AS_OF_COLUMN, PUBLISHED_COLUMN, VERSION_FEATURE, is_view_of
from ptkstore.adapters.feast.tables import TIMESTAMP, ViewTable
from ptkstore.errors import CorruptObject

_KEYS = b"ptk.keys"
_FLOOR = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class History:
    """The files of one repository, `history/<view>/v00000001.parquet`; Feast gets relative paths."""

    repo: Path

    def relative_path(self, view: str, version: int) -> str:
        """As Feast's data source names it."""
        return f"history/{view}/v{version:08d}.parquet"

    def path(self, view: str, version: int) -> Path:
        """Where the file of a version lies."""
        return self.repo / self.relative_path(view, version)

    def versions(self, view: str) -> list[int]:
        """The versions that have a file, oldest first: every version with rows online is among them."""
        return sorted(int(path.stem[1:]) for path in (self.repo / "history" / view).glob("v*.parquet"))

    def views(self, base: str) -> list[str]:
        """The views with files that belong to the PTK whose first view name is `base`."""
        folders = (self.repo / "history").glob(f"{base}*")
        return sorted(f.name for f in folders if is_view_of(base, f.name))

    def write(
        self, table: ViewTable, version: int, *, as_of: datetime, published_at: datetime, after: int | None
    ) -> None:
        """Write the file of a version on top of that of version `after`; repeatable; durable on return."""
        rows = dated(table.rows, as_of, published_at)
        earlier = self._earlier(table, rows.schema, after)
        if earlier is None:
            merged = pa.concat_tables([rows, without_values(rows, table.keys, _FLOOR, _FLOOR)])
        else:
            # At one event time the newest version counts; Feast's sort does not keep equal times in order.
            kept = earlier.filter(pc.not_equal(earlier[AS_OF_COLUMN], pa.scalar(as_of, TIMESTAMP)))
            known = earlier.select(list(table.keys)).group_by(list(table.keys)).aggregate([])
            dropped = known.join(rows.select(list(table.keys)), list(table.keys), join_type="left anti")
            new = rows.join(known, list(table.keys), join_type="left anti").select(rows.column_names)
            merged = pa.concat_tables(
                [
                    kept,
                    rows,
                    without_values(_widened(dropped, rows.schema), table.keys, as_of, published_at),
                    without_values(new, table.keys, _FLOOR, _FLOOR),
                ]
            )
        metadata = {_KEYS: json.dumps(table.keys).encode()}
        buffer = io.BytesIO()
        pq.write_table(
            merged.replace_schema_metadata(metadata),
            buffer,
            compression="lz4",
            use_dictionary=_repetitive(merged.schema),
            use_compliant_nested_type=False,  # or a list comes back as another type than it went
        )
        target = self.path(table.view, version)
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, buffer.getvalue(), mode=0o644)

    def columns(self, view: str, version: int) -> ViewTable:
        """Keys and columns of a version, without rows."""
        with self._readable(view, version):
            schema = pq.read_schema(self.path(view, version))
        plain = [field for field in schema if field.name not in {AS_OF_COLUMN, PUBLISHED_COLUMN}]
        return ViewTable(view, _keys_of(schema, view), pa.schema(plain).empty_table())

    def ends(self, view: str, version: int) -> dict[int, datetime]:
        """The event time of each version that a join in time can answer from."""
        with self._readable(view, version):
            rows = pq.read_table(self.path(view, version), columns=[VERSION_FEATURE, AS_OF_COLUMN])
        found = rows.group_by(VERSION_FEATURE).aggregate([(AS_OF_COLUMN, "max")]).to_pylist()
        return {row[VERSION_FEATURE]: row[f"{AS_OF_COLUMN}_max"] for row in found if row[VERSION_FEATURE]}

    def read_version(self, view: str, version: int) -> ViewTable:
        """The rows of one version alone, as they lie online."""
        table = self._read(view, version)
        keys = _keys_of(table.schema, view)
        rows = table.filter(pc.equal(table[VERSION_FEATURE], version))
        return ViewTable(view, keys, rows.drop_columns([AS_OF_COLUMN, PUBLISHED_COLUMN]))

    def delete(self, view: str, version: int) -> None:
        """Delete the file of a version; repeatable."""
        self.path(view, version).unlink(missing_ok=True)

    def mark_forgotten(self, view: str, version: int) -> None:
        """Note that nobody can resolve a version from now on."""
        if self.path(view, version).exists():
            os.utime(self.path(view, version))

    def unchanged_seconds(self, view: str, version: int) -> float:
        """How long ago the version was written or forgotten."""
        return time.time() - self.path(view, version).stat().st_mtime

    def delete_view(self, view: str) -> None:
        """Delete all files of a view; repeatable."""
        shutil.rmtree(self.repo / "history" / view, ignore_errors=True)

    def _earlier(self, table: ViewTable, schema: pa.Schema, after: int | None) -> pa.Table | None:
        if after is None or not self.path(table.view, after).exists():
            return None
        earlier = self._read(table.view, after)
        if _keys_of(earlier.schema, table.view) != table.keys:
            return None  # rows under other keys cannot be joined with these
        for key in table.keys:
            if earlier.schema.field(key).type != schema.field(key).type:
                return None
        return _widened(earlier, schema)

    def _read(self, view: str, version: int) -> pa.Table:
        with self._readable(view, version):
            return pq.read_table(io.BytesIO(self.path(view, version).read_bytes()))

    @contextmanager
    def _readable(self, view: str, version: int) -> Iterator[None]:
        try:
            yield
        except pa.ArrowInvalid:
            damaged = True
        else:
            damaged = False
        if damaged:  # outside, for Arrow's message quotes the file
            raise CorruptObject(f"the history of {view} v{version} is no Parquet file any more")


def _keys_of(schema: pa.Schema, view: str) -> tuple[str, ...]:
    metadata = schema.metadata or {}
    if _KEYS not in metadata:
        raise CorruptObject(f"the history of {view} does not name its keys")
    return tuple(json.loads(metadata[_KEYS]))


def _repetitive(schema: pa.Schema) -> list[str]:
    """Columns that a dictionary makes smaller; noisy numbers it only makes slower."""
    return [
        field.name
        for field in schema
        if not (pa.types.is_floating(field.type) or pa.types.is_list(field.type))
    ]


def dated(rows: pa.Table, as_of: datetime, published_at: datetime) -> pa.Table:
    """The rows with their event time and the time they became known."""
    for name, moment in ((AS_OF_COLUMN, as_of), (PUBLISHED_COLUMN, published_at)):
        column = pa.repeat(pa.scalar(moment, TIMESTAMP), rows.num_rows)
        rows = rows.append_column(name, pa.chunked_array([column]))
    return rows


def without_values(
    rows: pa.Table, keys: tuple[str, ...], as_of: datetime, published_at: datetime
) -> pa.Table:
    """Rows of the same keys that say "nothing released" from `as_of` on."""
    only_keys = rows.select(list(keys))
    return _widened(dated(only_keys, as_of, published_at), rows.schema)


def _widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in another version's columns; a value that no longer fits the type becomes null."""
    columns = []
    for field in schema:
        column = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        if field.name in rows.column_names:
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                column = pc.cast(rows[field.name], field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)
