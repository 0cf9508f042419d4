"""Let a stream's schema grow by a column with a default."""

from __future__ import annotations

from dataclasses import replace

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.domain.jobs import WHILE_KEPT
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.streams import ColumnType, Stream
from ptkstore.domain.windows import expired_before
from ptkstore.errors import Conflict
from ptkstore.ports.catalog import Begin, CatalogView


def add_column(
    stream_name: str, column: str, kind: ColumnType, default: str | int | float | bool, *, begin: Begin
) -> Stream:
    """Add a column; repeating it changes nothing.

    Windows that are open now hold it: rows that came before, or that come without it, have the default. Windows that
    have closed stay as they are.

    Raises
    ------
    InvalidRequest
        The name is taken by another column, or the default is none of its type.
    """
    with begin() as uow:
        stream = uow.streams.lock(stream_name)
        since = uow.streams.progress(stream_name).closed_before
        known = {one.column: one.since for one in stream.schema.added}
        if column in known:
            before = replace(
                stream.schema,
                columns=tuple(c for c in stream.schema.columns if c[0] != column),
                added=tuple(one for one in stream.schema.added if one.column != column),
            )
            again = before.with_column(column, kind, default, since=known[column])
            if set(again.added) == set(stream.schema.added) and again.type_of(
                column
            ) is stream.schema.type_of(column):
                return stream
        grown = replace(stream, schema=stream.schema.with_column(column, kind, default, since=since))
        uow.streams.replace(grown)
        uow.commit()
    return grown


def check_columns_are_stored(uow: CatalogView, spec: PtkSpec, stream: Stream) -> None:
    """`Conflict` while the PTK might be trained on a window that closed before a column of it was added.

    Which is so from the column's addition until nothing more is done with the rows of those windows.
    """
    schema = stream.schema
    if not schema.since or not _reads_added(spec, stream):
        return
    progress = uow.streams.progress(stream.name)
    still = uow.jobs.unfinished(
        stream.name, WHILE_KEPT, expired_before(stream.policy, progress.reached), schema.since
    )
    if still:
        raise Conflict(
            f"PTK {spec.ptk_id} reads a column that was added a moment ago, and windows that closed before are "
            "still worked on; try again when they are done"
        )


def _reads_added(spec: PtkSpec, stream: Stream) -> bool:
    try:
        columns = estimator_from_spec(spec.estimator).input_columns()
    except PtklibError:  # no family of the library: it may read any column
        return True
    return any(column in stream.schema.defaults for column in columns)
