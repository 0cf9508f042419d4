"""Check a table of events against a stream's schema and say which rows may enter."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ptklib.arrays import Bools, Ints
from ptkstore.domain.streams.policies import Policy
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.errors import SchemaMismatch

TIME = pa.timestamp("us", tz="UTC")
ARROW: dict[ColumnType, pa.DataType] = {
    ColumnType.INT64: pa.int64(),
    ColumnType.FLOAT64: pa.float64(),
    ColumnType.STRING: pa.string(),
    ColumnType.BOOL: pa.bool_(),
    ColumnType.TIMESTAMP: TIME,
}
WINDOWS_AHEAD = 4_000  # a row further than this beyond the first open window is a mistake in its time
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def empty_table(schema: Schema) -> pa.Table:
    """Return no rows, with the declared columns and types."""
    return pa.schema([pa.field(name, ARROW[kind]) for name, kind in schema.columns]).empty_table()


def conform(table: pa.Table, schema: Schema) -> tuple[pa.Table, Bools]:
    """Return `table` with exactly the declared columns, in their order and types, and which rows fit them exactly.

    A value that its column cannot hold exactly becomes null, and its row is one of those that do not fit. A column that
    was added later may be missing or null: it has its default then, so that producers need not know of it yet.

    Raises
    ------
    SchemaMismatch
        For a missing or undeclared column, or one of another kind than declared. The message names columns and
        types, never values.
    """
    declared = [name for name, _ in schema.columns]
    try:
        names = table.column_names
    except UnicodeDecodeError:  # its text holds the name
        raise SchemaMismatch("a column's name is not UTF-8") from None
    if len(set(names)) != len(names):
        raise SchemaMismatch("the table names a column twice")
    if missing := [name for name in declared if name not in names and name not in schema.defaults]:
        raise SchemaMismatch(f"missing columns: {', '.join(missing)}")
    if unknown := sorted(set(names) - set(declared)):
        raise SchemaMismatch(
            f"unknown columns: {', '.join(unknown)}; the stream declares {', '.join(declared)}"
        )
    columns, exact = [], np.ones(table.num_rows, dtype=bool)
    for name, kind in schema.columns:
        if name not in names:
            columns.append(_repeated(schema, name, table.num_rows))
            continue
        column, fits = _cast(table[name], name, kind)
        if name in schema.defaults:
            column = pc.fill_null(column, pa.scalar(schema.defaults[name], ARROW[kind]))
        columns.append(column)
        exact &= fits
    return pa.table(columns, names=declared), exact


def filled(table: pa.Table, schema: Schema) -> pa.Table:
    """Return stored rows of any version of a schema as those of the present one, further columns behind."""
    declared = [name for name, _ in schema.columns]
    for name in declared:
        if name not in table.column_names:
            table = table.append_column(name, _repeated(schema, name, table.num_rows))
    return table.select([*declared, *(name for name in table.column_names if name not in declared)])


def _repeated(schema: Schema, name: str, n_rows: int) -> pa.Array:
    """The default of an added column, once per row."""
    kind = schema.type_of(name)
    assert kind is not None
    return pa.repeat(pa.scalar(schema.defaults[name], ARROW[kind]), n_rows)


def _cast(column: pa.ChunkedArray, name: str, kind: ColumnType) -> tuple[pa.ChunkedArray, Bools]:
    given = column.type
    if pa.types.is_dictionary(given):
        given = given.value_type
    if not _castable(given, kind):
        raise SchemaMismatch(f"column {name!r} is {given}, but the stream declares {kind}")
    column = column.cast(given)
    if kind is ColumnType.STRING and not _is_utf8(column):
        return _without_broken_text(column)
    if kind is ColumnType.TIMESTAMP and given.tz is None:
        column = pc.assume_timezone(column, "UTC")
    # Nanoseconds are cut to microseconds; what does not fit into microseconds at all is no time.
    cut = kind is ColumnType.TIMESTAMP and given.unit == "ns"
    try:
        return column.cast(ARROW[kind], safe=not cut), np.ones(len(column), dtype=bool)
    except pa.ArrowInvalid:  # some row does not fit; which one is told row by row
        cast = column.cast(ARROW[kind], safe=False)
        back = cast.cast(column.type, safe=False)
        fits = pc.fill_null(pc.equal(back, column), True).to_numpy(zero_copy_only=False)
        same_sign = _same_sign(column, cast) if kind is ColumnType.INT64 else fits
        fits = fits & same_sign
        return pc.if_else(pa.array(fits), cast, pa.scalar(None, ARROW[kind])), fits


def _is_utf8(column: pa.ChunkedArray) -> bool:
    """Whether all strings are; nobody checks it when a file is read."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _without_broken_text(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, Bools]:
    octets = column.cast(pa.large_binary()).to_pylist()
    texts = [None if text is None else text.decode(errors="replace") for text in octets]
    fits = [t is None or t.encode() == o for t, o in zip(texts, octets, strict=True)]
    whole = [text if fit else None for text, fit in zip(texts, fits, strict=True)]
    return pa.chunked_array([whole], type=pa.string()), np.asarray(fits, dtype=bool)


def _same_sign(column: pa.ChunkedArray, cast: pa.ChunkedArray) -> Bools:
    """An unsigned integer above the signed range comes back from a cast and yet has become negative."""
    zero = pa.scalar(0, cast.type)
    if not pa.types.is_unsigned_integer(column.type):
        return np.ones(len(column), dtype=bool)
    return np.asarray(
        pc.fill_null(pc.greater_equal(cast, zero), True).to_numpy(zero_copy_only=False), dtype=bool
    )


def _castable(given: pa.DataType, kind: ColumnType) -> bool:
    types = pa.types
    match kind:
        case ColumnType.INT64:
            return bool(types.is_integer(given) or types.is_null(given))
        case ColumnType.FLOAT64:
            return bool(types.is_integer(given) or types.is_floating(given) or types.is_null(given))
        case ColumnType.STRING:
            return bool(types.is_string(given) or types.is_large_string(given) or types.is_null(given))
        case ColumnType.BOOL:
            return bool(types.is_boolean(given) or types.is_null(given))
        case ColumnType.TIMESTAMP:
            return bool(types.is_timestamp(given))


def window_indices(table: pa.Table, schema: Schema, policy: Policy) -> Ints:
    """Return the window of each row; rows without a time get the lowest integer."""
    stamps = table[schema.time_column]
    micros = pc.fill_null(stamps.cast(pa.int64()), np.iinfo(np.int64).min).to_numpy()
    origin = (policy.origin - _EPOCH) // timedelta(microseconds=1)
    length = policy.window // timedelta(microseconds=1)
    lowest = np.iinfo(np.int64).min
    safe = np.where(micros == lowest, origin, np.clip(micros, lowest // 2, np.iinfo(np.int64).max // 2))
    return np.where(micros == lowest, lowest, (safe - origin) // length)


def refuse(
    table: pa.Table,
    exact: Bools,
    indices: Ints,
    schema: Schema,
    policy: Policy,
    *,
    closed_before: int,
    now: datetime,
) -> tuple[Bools, dict[str, int]]:
    """Say which rows may enter and why not the others; a row's fate depends on that row and public times alone.

    The counts of reasons are for the producer of the rows only (differences.md F6).

    Parameters
    ----------
    table, exact
        From `conform`; `indices` are from `window_indices`.
    closed_before : int
        Windows below it take no rows.
    """
    stamps = table[schema.time_column]
    latest = pa.scalar(now + policy.future_skew, type=TIME)
    late = pc.fill_null(pc.greater(stamps, latest), False).to_numpy(zero_copy_only=False)
    reasons = [
        ("not-exact", ~exact),
        ("too-long", _too_long(table, schema, policy)),
        ("time-missing", stamps.is_null().to_numpy()),
        ("time-before-origin", indices < 0),
        ("time-in-future", late),
        ("too-far-ahead", indices >= closed_before + WINDOWS_AHEAD),
        ("late", (indices >= 0) & (indices < closed_before)),
        ("missing-value", _any(table, schema, missing=True)),
        ("not-finite", _any(table, schema, missing=False)),
        ("outside-domain", _outside(table, policy)),
    ]
    accepted = np.ones(table.num_rows, dtype=bool)
    counts: dict[str, int] = {}
    for reason, refused in reasons:
        hit = refused & accepted
        if hit.any():
            counts[reason] = int(hit.sum())
        accepted &= ~refused
    return accepted, counts


def _too_long(table: pa.Table, schema: Schema, policy: Policy) -> Bools:
    """Rows with a text of more bytes than a cell may have."""
    hit = np.zeros(table.num_rows, dtype=bool)
    for name, kind in schema.columns:
        if kind is ColumnType.STRING:
            longer = pc.greater(pc.binary_length(table[name]), policy.max_cell_bytes)
            hit |= pc.fill_null(longer, False).to_numpy(zero_copy_only=False)
    return hit


def _outside(table: pa.Table, policy: Policy) -> Bools:
    """Rows whose value of the attribute that blocks are by is none of its public domain."""
    if policy.attribute is None:
        return np.zeros(table.num_rows, dtype=bool)
    column = table[policy.attribute]
    inside = pc.is_in(column, value_set=pa.array(policy.attribute_values, type=column.type))
    return ~np.asarray(inside.to_numpy(), dtype=bool)


def _any(table: pa.Table, schema: Schema, *, missing: bool) -> Bools:
    hit = np.zeros(table.num_rows, dtype=bool)
    for name, kind in schema.columns:
        if missing:
            hit |= table[name].is_null().to_numpy()
        elif kind is ColumnType.FLOAT64:
            hit |= ~pc.fill_null(pc.is_finite(table[name]), True).to_numpy(zero_copy_only=False)
    return hit
