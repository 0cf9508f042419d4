"""The Parquet files of a version's history; the newest of them says what is in each."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ptkstore.adapters.feast.files import replace_file
from ptkstore.adapters.feast.names import AS_OF_COLUMN, VERSION_FEATURE
from ptkstore.adapters.feast.publishing.history_folders import name_of, number_of, unavailable
from ptkstore.errors import CorruptObject

_T = TypeVar("_T")
_PARTS = b"ptk.parts"
_VERSION = b"ptk.version"


@dataclass(frozen=True, slots=True)
class Part:
    """One file; `times` are the event times of its rows, `ends` those of the versions that have values in it."""

    path: Path
    rows: int
    times: frozenset[datetime]
    ends: Mapping[int, datetime]


def parts_of(path: Path) -> list[Part]:
    """Return the parts of a version's folder, oldest first; a file of a store before this one is its only part."""
    if path.is_file():
        return [_described(path, read_rows(path, [VERSION_FEATURE, AS_OF_COLUMN]))]
    names = _readable(path, lambda: os.listdir(path) if path.exists() else [])
    files = [path / name for name in sorted(names) if name.startswith("part-")]
    said = (read_schema(files[-1]).metadata or {}) if files else {}
    listed = json.loads(said.get(_PARTS, b"[]"))
    # Stores before this one did not name the version.
    of_this = bool(files) and ("-v" not in files[-1].name or said.get(_VERSION) == _number(number_of(path)))
    if not of_this or len(listed) != len(files):
        raise _damaged(path)
    return [_part(file, one) for file, one in zip(files, listed, strict=True)]


def write_parts(
    folder: Path,
    version: int,
    kept: Iterable[Part | pa.Table],
    own: pa.Table,
    metadata: Mapping[bytes, bytes],
) -> None:
    """Fill a new folder: links to parts of other folders, files of tables, and last the version's own part.

    Parameters
    ----------
    folder, version : Path, int
        The empty folder, and the version's number.
    kept, own : iterable of Part or Table, Table
        The remaining parts of earlier versions, oldest first, and the version's own part.
    metadata : mapping of bytes to bytes
        Stored in each new file.
    """
    listed: list[dict[str, Any]] = []
    for part in kept:
        target = folder / _file_name(len(listed), version)
        if isinstance(part, Part):
            listed.append(_entry(part))
            _link(part.path, target)
        else:
            listed.append(_entry(_described(target, part)))
            _write(part.replace_schema_metadata(metadata), target)
    target = folder / _file_name(len(listed), version)
    listed.append(_entry(_described(target, own)))
    about = {_PARTS: json.dumps(listed).encode(), _VERSION: _number(version)}
    _write(own.replace_schema_metadata({**metadata, **about}), target)


def _file_name(n: int, version: int) -> str:
    return f"part-{n:05d}-v{version:08d}.parquet"


def _number(version: int) -> bytes:
    return str(version).encode()


def read_rows(path: Path, columns: list[str] | None = None) -> pa.Table:
    """Read the rows of one file."""
    return _readable(path, lambda: pq.read_table(io.BytesIO(path.read_bytes()), columns=columns))


def read_schema(path: Path) -> pa.Schema:
    """Read the columns of one file, and its metadata."""
    return _readable(path, lambda: pq.read_schema(path))


def _readable(path: Path, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except pa.ArrowException:
        failure: Exception = _damaged(path)
    except OSError as error:  # Arrow's own have no number: of a footer that cannot be parsed
        failure = unavailable(path, "read", error) if error.errno else _damaged(path)
    raise failure  # outside, for Arrow's message quotes the file


def _damaged(path: Path) -> CorruptObject:
    return CorruptObject(f"the history of {name_of(path)} is not what was written any more")


def _described(path: Path, rows: pa.Table) -> Part:
    times = rows[AS_OF_COLUMN].unique().to_pylist()
    ends = rows.group_by(VERSION_FEATURE).aggregate([(AS_OF_COLUMN, "max")]).to_pylist()
    return Part(
        path,
        rows.num_rows,
        frozenset(times),
        {row[VERSION_FEATURE]: row[f"{AS_OF_COLUMN}_max"] for row in ends if row[VERSION_FEATURE]},
    )


def _entry(part: Part) -> dict[str, Any]:
    return {
        "rows": part.rows,
        "times": [time.isoformat() for time in sorted(part.times)],
        "ends": {str(version): end.isoformat() for version, end in part.ends.items()},
    }


def _part(path: Path, entry: Mapping[str, Any]) -> Part:
    ends = {int(version): datetime.fromisoformat(end) for version, end in entry["ends"].items()}
    return Part(path, int(entry["rows"]), frozenset(map(datetime.fromisoformat, entry["times"])), ends)


def _link(source: Path, target: Path) -> None:
    """One file under two names, for nothing writes to it any more; a copy where the file system has no links."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        replace_file(target, source.read_bytes(), mode=0o644)


def _write(rows: pa.Table, target: Path) -> None:
    buffer = io.BytesIO()
    pq.write_table(
        rows,
        buffer,
        compression="lz4",
        use_dictionary=_repetitive(rows.schema),
        use_compliant_nested_type=False,  # or a list comes back as another type than it went
    )
    replace_file(target, buffer.getvalue(), mode=0o644)


def _repetitive(schema: pa.Schema) -> list[str]:
    """Columns that a dictionary makes smaller; noisy numbers it only makes slower."""
    return [
        field.name
        for field in schema
        if not (pa.types.is_floating(field.type) or pa.types.is_list(field.type))
    ]
