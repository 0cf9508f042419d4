"""Erase the rows of one privacy unit from the raw zone; what was spent stays spent."""

from __future__ import annotations

import re

from ptkstore.application.paid_runs.release_ticks import ReleaseTicks
from ptkstore.domain.streams.schemas import ColumnType
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.streams.windows import WindowId, WindowState
from ptkstore.errors import InvalidRequest, PtkStoreError, Refused, UnknownName, WindowGone
from ptkstore.ports.catalog import Begin
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import RawZone
from ptkstore.ports.row_processes import Eraser, ForgetRequest

_WHOLE = re.compile(r"-?[0-9]{1,19}")


def forget_unit(
    stream_name: str,
    unit: str | int,
    *,
    begin: Begin,
    keys: KeyStore,
    raw: RawZone,
    eraser: Eraser,
    ticks: ReleaseTicks,
) -> None:
    """Rewrite every file of every window that is still kept without the rows of `unit`; repeatable.

    Rows whose ingest was answered before this call are gone when it returns, and no run that starts later sees them. A
    run that has opened its rows already may still publish what it paid for. Rows that are sent meanwhile or afterwards
    are new rows. All files are written anew, whether they had such rows or not, and the end is on a tick. So neither
    the answer nor its time shows whether there were any (differences.md F6). Nothing about the unit is kept, so a call
    that failed half way is to be repeated.

    Raises
    ------
    Refused
        The stream's privacy unit is the record: its random ids are known to nobody. Or its rows stay on devices.
    InvalidRequest
        The unit is not of the column's type.
    CorruptObject, Unavailable, WindowGone
        Some window could not be rewritten; all others were.
    """
    with begin() as uow:
        stream = uow.streams.get(stream_name)
    stream.check_rows_in_store("there is nothing here to erase")
    column, wanted = _checked(stream, unit)
    failed: PtkStoreError | None = None
    try:
        for window in raw.windows(stream_name):
            try:
                _forget_in(window, column, wanted, begin, keys, raw, eraser)
            except PtkStoreError as error:
                failed = failed or error
    finally:
        ticks.wait()
    if failed is not None:
        raise failed


def _forget_in(
    window: WindowId,
    column: str,
    unit: str | int,
    begin: Begin,
    keys: KeyStore,
    raw: RawZone,
    eraser: Eraser,
) -> None:
    # A preparation, or another erasure, that had read the old rows would write them back.
    with keys.hold_rows(window, alone=True):
        try:
            request = ForgetRequest(window, column, unit, keys.sealing_key(window))
            eraser.forget(request, lambda: None)  # an erasure holds no lease
        except WindowGone:
            if not _leaves(window, begin):
                raise
    if _leaves(window, begin):  # a file may have been replaced after its expiry deleted it
        raw.delete_window(window)


def _leaves(window: WindowId, begin: Begin) -> bool:
    """Whether no run may open the window any more."""
    try:
        with begin() as uow:
            state = uow.windows.get(window).state
    except UnknownName:  # it has not closed
        return False
    return state in (WindowState.EXPIRING, WindowState.EXPIRED)


def _checked(stream: Stream, unit: str | int) -> tuple[str, str | int]:
    """The unit column, and the unit in the type of that column; messages never name the unit."""
    column = stream.policy.unit_column
    if column is None:
        raise Refused(
            f"the privacy unit of stream {stream.name!r} is the record, known by a random id that nobody is told: "
            "single rows cannot be named. They go when their window expires"
        )
    if stream.schema.type_of(column) is ColumnType.STRING:
        if not isinstance(unit, str):
            raise InvalidRequest(f"units of stream {stream.name!r} are text, as in column {column!r}")
        return column, unit
    number = int(unit) if isinstance(unit, str) and _WHOLE.fullmatch(unit) else unit
    if type(number) is not int or not -(2**63) <= number < 2**63:
        raise InvalidRequest(f"units of stream {stream.name!r} are whole numbers, as in column {column!r}")
    return column, number
