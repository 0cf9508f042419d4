"""Rows in a body of Arrow, Parquet or NDJSON as a table, within bounds and without a word about a value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from ptklib.arrow_types import without_dictionaries
from ptkstore.api.limits import Limits
from ptkstore.api.rows.parquet_pages import Bounds, checked_metadata, unpacked_bytes
from ptkstore.application.ingest.event_tables import empty_table
from ptkstore.application.ingest.row_texts import read_ndjson
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.errors import InvalidRequest, SchemaMismatch, TooLarge, UnknownFormat

ARROW_STREAM = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
NDJSON = "application/x-ndjson"

_BATCH_ROWS = 65_536
_CELL_BYTES = 8
_BROKEN = (pa.ArrowException, OSError, ValueError, KeyError, IndexError, struct.error, UnicodeDecodeError)

Hold = Callable[[int], None]
"""Takes memory for that many decoded bytes of a body in all, or refuses."""
_Reader = Callable[[bytes, Schema, Limits, Hold], pa.Table]


def table_in(
    body: bytes, media_type: str, schema: Schema, limits: Limits, hold: Hold = lambda _: None
) -> pa.Table:
    """Read the rows of a body, in the columns of a stream, none of them as a dictionary.

    A body that is small as sent and large as read is refused before it is read. Such are nested columns, compressed
    Arrow, large pages of Parquet, and Parquet columns of few long values in many rows.

    Parameters
    ----------
    hold : callable
        Is asked before anything is decoded, and again before a dictionary is written out.

    Raises
    ------
    UnknownFormat
        The media type is none that is read here.
    SchemaMismatch
        The columns are not those of the stream.
    TooLarge
        Too many rows, or too many bytes of them.
    InvalidRequest
        The body is not of its type.
    """
    readers: dict[str, _Reader] = {
        ARROW_STREAM: _arrow,
        PARQUET: _parquet,
        NDJSON: _ndjson,
    }
    kind = media_type.partition(";")[0].strip().lower()
    reader = readers.get(kind)
    if reader is None:
        raise UnknownFormat(f"rows come as one of {', '.join(readers)}")
    try:
        return reader(body, schema, limits, hold)
    except _BROKEN:  # their texts hold values
        raise InvalidRequest(f"the body cannot be read as {kind}") from None


def _arrow(body: bytes, schema: Schema, limits: Limits, hold: Hold) -> pa.Table:
    _refuse_compressed(body)
    hold(len(body))
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        _check_columns(reader.schema, schema, dictionaries=False)
        return _collected(reader, reader.schema, limits, hold)


def _parquet(body: bytes, schema: Schema, limits: Limits, hold: Hold) -> pa.Table:
    metadata = checked_metadata(body)
    form = metadata.schema.to_arrow_schema()
    _check_columns(form, schema, dictionaries=True)
    _check_rows(metadata.num_rows, len(schema.columns), limits)
    hold(unpacked_bytes(body, metadata, _bounds(limits)))
    # Texts stay as dictionaries until their true size is known.
    texts = [name for name, kind in schema.columns if kind is ColumnType.STRING and name in form.names]
    file = pyarrow.parquet.ParquetFile(pa.BufferReader(body), read_dictionary=texts, pre_buffer=False)
    batches = file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False)
    return _collected(batches, file.schema_arrow, limits, hold)


def _bounds(limits: Limits) -> Bounds:
    return Bounds(2 * limits.ingest_body, limits.ingest_decoded, _too_wide(limits))


def _ndjson(body: bytes, schema: Schema, limits: Limits, hold: Hold) -> pa.Table:
    if not body.strip():
        return empty_table(schema)
    n_rows = body.count(b"{")  # rows are flat: one brace each
    _check_rows(n_rows, len(schema.columns), limits)
    hold(len(body) + n_rows * len(schema.columns) * _CELL_BYTES)
    return read_ndjson(pa.BufferReader(body), dict(schema.columns))


def _collected(batches: Iterable[pa.RecordBatch], form: pa.Schema, limits: Limits, hold: Hold) -> pa.Table:
    kept: list[pa.RecordBatch] = []
    rows = decoded = 0
    for batch in batches:
        rows += batch.num_rows
        _check_rows(rows, batch.num_columns, limits)
        batch.validate(full=True)
        decoded += sum(_decoded_bytes(column) for column in batch.columns)
        if decoded > limits.ingest_decoded:
            raise TooLarge(_too_wide(limits))
        hold(decoded)
        # each batch has dictionaries of its own, which may be long though few of their values are used
        kept.append(without_dictionaries(batch))
    return pa.Table.from_batches(kept) if kept else form.empty_table()


def _decoded_bytes(column: pa.Array) -> int:
    """How many bytes a column takes once it is no dictionary."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = pc.fill_null(pc.binary_length(column.dictionary.cast(pa.large_binary())), 0)
    used = pc.drop_null(column.indices).to_numpy(zero_copy_only=False)
    total = np.asarray(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)[used].sum()
    return int(total) + _CELL_BYTES * len(column)


def _check_columns(form: pa.Schema, schema: Schema, *, dictionaries: bool) -> None:
    """The declared columns and flat types; the rest is checked when the rows are taken in."""
    declared = [name for name, _ in schema.columns]
    optional = {name for name in schema.defaults if name not in form.names}
    if sorted([*form.names, *optional]) != sorted(declared):
        raise SchemaMismatch(f"the columns have to be exactly {', '.join(declared)}")
    for field in form:
        kind = field.type
        if dictionaries and pa.types.is_dictionary(kind) and _is_text(kind.value_type):
            continue
        if not _is_flat(kind):
            raise SchemaMismatch(
                f"column {field.name!r} has a type that is not read here; the stream declares "
                f"{schema.type_of(field.name)}"
            )


def _is_flat(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_timestamp(kind)
        or types.is_null(kind)
        or _is_text(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _check_rows(rows: int, columns: int, limits: Limits) -> None:
    if rows > limits.ingest_rows:
        raise TooLarge(f"a batch has at most {limits.ingest_rows} rows; send several")
    if rows * columns * _CELL_BYTES > limits.ingest_decoded:
        raise TooLarge(_too_wide(limits))


def _too_wide(limits: Limits) -> str:
    return f"the rows take more than {limits.ingest_decoded} bytes in memory; send several batches"


def _refuse_compressed(body: bytes) -> None:
    """`UnknownFormat` if any message of an Arrow stream is compressed, or holds a dictionary.

    pyarrow reads both without a bound on what becomes of them.
    """
    for kind, metadata in _messages(body):
        if kind == "dictionary" or (kind == "record batch" and _is_compressed(metadata)):
            raise UnknownFormat("Arrow comes uncompressed and without dictionaries; or send Parquet")


def _messages(body: bytes) -> Iterator[tuple[str, bytes]]:
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(body))
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        yield message.type, bytes(message.metadata)


# Where things stand in Arrow's flatbuffers: Message.header is field 2, RecordBatch.compression field 3.
_HEADER, _COMPRESSION = 2, 3


def _is_compressed(metadata: bytes) -> bool:
    (root,) = struct.unpack_from("<I", metadata)
    header = _field(metadata, root, _HEADER)
    if header is None:
        raise ValueError("a message without a header")
    (offset,) = struct.unpack_from("<I", metadata, header)
    return _field(metadata, header + offset, _COMPRESSION) is not None


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Return the offset of a field of a flatbuffers table; None if it is absent."""
    (back,) = struct.unpack_from("<i", metadata, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", metadata, vtable)
    slot = 4 + 2 * number
    if slot + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", metadata, vtable + slot)
    return table + offset if offset else None
