"""Let a stream's schema grow by a column with a default."""

from __future__ import annotations

from dataclasses import replace

from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.domain.streams.streams import Stream
from ptkstore.ports.catalog import Begin


def add_column(
    stream_name: str, column: str, kind: ColumnType, default: str | int | float | bool, *, begin: Begin
) -> Stream:
    """Add a column; repeating it changes nothing.

    Windows that are open now hold it: rows that came before, or that come without it, have the default. Windows that
    have closed stay as they are.

    Parameters
    ----------
    default : str, int, float or bool
        Public; what rows without a value have.

    Raises
    ------
    InvalidRequest
        The name is taken by another column, or the default is none of its type.
    """
    with begin() as uow:
        stream = uow.streams.lock(stream_name)
        since = uow.streams.progress(stream_name).closed_before
        added_since = {one.column: one.since for one in stream.schema.added}
        if column in added_since:
            before = replace(
                stream.schema,
                columns=tuple(c for c in stream.schema.columns if c[0] != column),
                added=tuple(one for one in stream.schema.added if one.column != column),
            )
            again = before.with_column(column, kind, default, since=added_since[column])
            if set(again.added) == set(stream.schema.added) and again.type_of(
                column
            ) is stream.schema.type_of(column):
                return stream
        grown = replace(stream, schema=stream.schema.with_column(column, kind, default, since=since))
        uow.streams.replace(grown)
        uow.commit()
    return grown
