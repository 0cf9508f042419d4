"""One cumulative Parquet folder per version: what `get_historical_features` joins against, point in time.

A folder has the rows of its version and of all versions before it, each at the event time of its version. Two kinds of
rows without values make Feast's as-of join right. A *tombstone* at the version that dropped a key ends its last value,
which the key would otherwise keep for ever. A *floor* in 1970 for every key makes Feast answer null, where it would
otherwise drop entity rows older than the key's first value.

Parts of earlier versions are linked, not written again, so a publication costs only the rows of its own version. Small
parts are put together, so that a folder has few of them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from ptkstore.adapters.feast.names import AS_OF_COLUMN, PUBLISHED_COLUMN, VERSION_FEATURE, is_view_of
from ptkstore.adapters.feast.publishing.history_folders import name_of, new_folder, place, remove, writing
from ptkstore.adapters.feast.publishing.history_parts import (
    Part,
    parts_of,
    read_rows,
    read_schema,
    write_parts,
)
from ptkstore.adapters.feast.tables import TIMESTAMP, ViewTable
from ptkstore.errors import CorruptObject

_KEYS = b"ptk.keys"
_FLOOR = datetime(1970, 1, 1, tzinfo=UTC)
_SMALL_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class History:
    """The folders of one repository, `history/<view>/v00000001.parquet`; Feast gets relative paths."""

    repo: Path

    def relative_path(self, view: str, version: int) -> str:
        """Return the path as Feast's data source names it."""
        return f"history/{view}/v{version:08d}.parquet"

    def path(self, view: str, version: int) -> Path:
        """Return the place of a version: a folder of parts, or one file, as stores before this one wrote."""
        return self.repo / self.relative_path(view, version)

    def versions(self, view: str) -> list[int]:
        """Return the versions that have a history, oldest first: every version with rows online is among them."""
        return sorted(int(path.stem[1:]) for path in (self.repo / "history" / view).glob("v*.parquet"))

    def views(self, base: str) -> list[str]:
        """Return the views with a history that belong to the PTK whose first view name is `base`."""
        folders = (self.repo / "history").glob(f"{base}*")
        return sorted(f.name for f in folders if is_view_of(base, f.name))

    @contextmanager
    def written(
        self, table: ViewTable, version: int, *, as_of: datetime, published_at: datetime, after: int | None
    ) -> Iterator[Callable[[], None]]:
        """Write the history of a version out of sight; calling what this yields puts it in place, durably.

        Nothing stays if it is not called. Repeatable.

        Raises `CorruptObject` if the history of `after` was damaged or lost alone. If there is none of any version
        before, as on a machine that was set up anew, this one begins it. `Unavailable` if the file system fails.

        Parameters
        ----------
        table, version, as_of, published_at
            The rows of the version, its number, their event time, and when they became known.
        after : int or None
            The version whose history this one continues; None begins a history.
        """
        target = self.path(table.view, version)
        with new_folder(target) as made:
            with writing(target):
                self._fill(made, table, version, as_of, published_at, after)
            yield lambda: place(made, target)

    def _fill(
        self,
        made: Path,
        table: ViewTable,
        version: int,
        as_of: datetime,
        published_at: datetime,
        after: int | None,
    ) -> None:
        rows = dated(table.rows, as_of, published_at)
        earlier = self._earlier(table, version, rows.schema, after)
        if not earlier:
            own = pa.concat_tables([rows, without_values(rows, table.keys, _FLOOR, _FLOOR)])
        else:
            # The newest part has a row of every key there ever was: a value, or a tombstone.
            keys = list(table.keys)
            earlier_keys = read_rows(earlier[-1].path, keys).group_by(keys).aggregate([])
            dropped = earlier_keys.join(rows.select(keys), keys, join_type="left anti")
            new = rows.select(keys).join(earlier_keys, keys, join_type="left anti")
            own = pa.concat_tables(
                [
                    rows,
                    without_values(_widened(dropped, rows.schema), table.keys, as_of, published_at),
                    without_values(_widened(new, rows.schema), table.keys, _FLOOR, _FLOOR),
                ]
            )
        kept, own = _kept(earlier, own, as_of)
        write_parts(made, version, kept, own, {_KEYS: json.dumps(table.keys).encode()})

    def columns(self, view: str, version: int) -> ViewTable:
        """Read keys and columns of a version, without rows."""
        schema = read_schema(self._newest(view, version))
        plain = [field for field in schema if field.name not in {AS_OF_COLUMN, PUBLISHED_COLUMN}]
        return ViewTable(view, _keys_of(schema, view), pa.schema(plain).empty_table())

    def ends(self, view: str, version: int) -> dict[int, datetime]:
        """Return the event time of each version that a join in time can answer from."""
        parts = parts_of(self.path(view, version))
        return {number: end for part in parts for number, end in part.ends.items()}

    def read_version(self, view: str, version: int) -> ViewTable:
        """Return the rows of one version alone, as they are online."""
        table = read_rows(self._newest(view, version))
        keys = _keys_of(table.schema, view)
        rows = table.filter(pc.equal(table[VERSION_FEATURE], version))
        return ViewTable(view, keys, rows.drop_columns([AS_OF_COLUMN, PUBLISHED_COLUMN]))

    def erasable(self, view: str, version: int) -> list[ViewTable]:
        """Return tables with the keys and columns that a version's rows online are deleted by; at least one.

        Those of a damaged version are guessed. They are all columns of all intact versions and, for each choice of
        join keys among these, all keys that the nearest one knows, newer ones first. Columns and keys that the damaged
        version alone had are not among them.
        """
        with suppress(CorruptObject):
            return [self.read_version(view, version)]
        fields: dict[str, pa.Field] = {}
        rows_by_kind: dict[pa.Schema, tuple[tuple[str, ...], pa.Table]] = {}
        for other in sorted(self.versions(view), key=lambda one: (one < version, abs(one - version))):
            with suppress(CorruptObject):
                table = self.columns(view, other)
                for field in table.rows.schema:
                    fields.setdefault(field.name, field)
                keys = list(table.keys)
                kind = table.rows.select(keys).schema.remove_metadata()
                if kind not in rows_by_kind:
                    rows = read_rows(self._newest(view, other), keys)
                    rows_by_kind[kind] = table.keys, rows.group_by(keys).aggregate([])
        if not rows_by_kind:
            return [ViewTable(view, (), pa.schema([(VERSION_FEATURE, pa.int64())]).empty_table())]
        return [
            ViewTable(view, keys, _widened(rows, _keys_first(rows.schema, fields)))
            for keys, rows in rows_by_kind.values()
        ]

    def delete(self, view: str, version: int) -> None:
        """Delete the history of a version, not what later ones took over; repeatable."""
        remove(self.path(view, version))

    def mark_forgotten(self, view: str, version: int) -> None:
        """Note that nobody can resolve a version from now on."""
        if self.path(view, version).exists():
            os.utime(self.path(view, version))

    def unchanged_seconds(self, view: str, version: int) -> float:
        """Tell how long ago the version was written or forgotten."""
        return time.time() - self.path(view, version).stat().st_mtime

    def delete_view(self, view: str) -> None:
        """Delete all of a view; repeatable."""
        shutil.rmtree(self.repo / "history" / view, ignore_errors=True)

    def _newest(self, view: str, version: int) -> Path:
        return parts_of(self.path(view, version))[-1].path

    def _earlier(self, table: ViewTable, version: int, schema: pa.Schema, after: int | None) -> list[Part]:
        """Return the parts of an earlier version; none if rows under other keys cannot be joined with these."""
        if after is None:
            return []
        path = self.path(table.view, after)
        if not path.exists():
            if not any(number < version for number in self.versions(table.view)):
                return []
            raise CorruptObject(
                f"the history of {name_of(path)} is not there: put it back from a copy, or take all of"
                f" history/{table.view} away and joins in time begin anew"
            )
        parts = parts_of(path)
        earlier = read_schema(parts[-1].path)
        same = _keys_of(earlier, table.view) == table.keys
        same = same and all(earlier.field(key).type == schema.field(key).type for key in table.keys)
        return parts if same else []


def _kept(earlier: list[Part], own: pa.Table, as_of: datetime) -> tuple[Iterator[Part | pa.Table], pa.Table]:
    """Choose the earlier parts that stay, and merge the newest into the version's own part if it is small."""
    if not earlier:
        return iter(()), own
    same_columns = read_schema(earlier[-1].path).remove_metadata() == own.schema.remove_metadata()
    if earlier[-1].rows + own.num_rows <= _SMALL_ROWS:
        own = pa.concat_tables([_left(earlier[-1], own.schema, as_of), own])
        earlier = earlier[:-1]
    return _as_they_are(earlier, same_columns, own.schema, as_of), own


def _as_they_are(
    earlier: list[Part], same_columns: bool, schema: pa.Schema, as_of: datetime
) -> Iterator[Part | pa.Table]:
    for part in earlier:
        if same_columns and as_of not in part.times:
            yield part
        elif (rows := _left(part, schema, as_of)).num_rows:
            yield rows


def _left(part: Part, schema: pa.Schema, as_of: datetime) -> pa.Table:
    """Return what stays of a part beside a version of this event time, in that version's columns."""
    rows = _widened(read_rows(part.path), schema)
    # At one event time the newest version counts; Feast's sort does not keep equal times in order.
    return rows.filter(pc.not_equal(rows[AS_OF_COLUMN], pa.scalar(as_of, TIMESTAMP)))


def _keys_first(keys: pa.Schema, fields: Mapping[str, pa.Field]) -> pa.Schema:
    return pa.schema([*keys, *(field for name, field in fields.items() if name not in keys.names)])


def _keys_of(schema: pa.Schema, view: str) -> tuple[str, ...]:
    metadata = schema.metadata or {}
    if _KEYS not in metadata:
        raise CorruptObject(f"the history of {view} does not name its keys")
    return tuple(json.loads(metadata[_KEYS]))


def dated(rows: pa.Table, as_of: datetime, published_at: datetime) -> pa.Table:
    """Add the event time and the time of publication to rows."""
    for name, moment in ((AS_OF_COLUMN, as_of), (PUBLISHED_COLUMN, published_at)):
        column = pa.repeat(pa.scalar(moment, TIMESTAMP), rows.num_rows)
        rows = rows.append_column(name, pa.chunked_array([column]))
    return rows


def without_values(
    rows: pa.Table, keys: tuple[str, ...], as_of: datetime, published_at: datetime
) -> pa.Table:
    """Make rows of the same keys that say "nothing released" from `as_of` on."""
    only_keys = rows.select(list(keys))
    return _widened(dated(only_keys, as_of, published_at), rows.schema)


def _widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Convert rows to another version's columns; a value that no longer fits the type becomes null."""
    columns = []
    for field in schema:
        column = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        if field.name in rows.column_names:
            with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                column = pc.cast(rows[field.name], field.type)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)
