"""Ingest a table of events: check it, seal the rows per window, commit the batch."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ptkstore.application.ingest import event_tables
from ptkstore.domain.streams.schemas import ROW_ID
from ptkstore.domain.streams.windows import WindowId, expired_before
from ptkstore.errors import Conflict, InvalidRequest, OutcomeUnknown, PtkStoreError, Unavailable, WindowGone
from ptkstore.ports.catalog import Begin, CatalogView, UnitOfWork
from ptkstore.ports.keys import KeyStore
from ptkstore.ports.objects import RawZone
from ptkstore.ports.runtime import Clock
from ptkstore.ports.streams import WHOLE, Part

_TRIES = 5


@dataclass(frozen=True, slots=True)
class IngestReply:
    """The outcome of a batch. The counts are private: for its producer, and kept nowhere (differences.md F6)."""

    batch_id: str
    accepted: int
    refused: dict[str, int]
    repeated: bool = False


def ingest_records(
    stream_name: str,
    table: pa.Table,
    batch_id: str | None = None,
    part: Part | None = None,
    *,
    begin: Begin,
    clock: Clock,
    keys: KeyStore,
    raw: RawZone,
) -> IngestReply:
    """Store the rows of `table` that may enter; a repeated `batch_id` stores nothing twice.

    A batch may come in parts, one after the other, as many as its first part said. It is stored once its last part is;
    a part of a stored batch stores nothing.

    Rows become visible by one transaction at the end: before it, files of an unknown token count for nothing. Nothing
    about the rows, not even which windows they touch, enters the catalog; the key store notes the windows, so that a
    file that is lost is missed.

    Parameters
    ----------
    part : Part, optional
        Its number, from 1, and how many there are.

    Raises
    ------
    Refused
        The rows of the stream stay on devices; nothing is stored.
    SchemaMismatch
        The table does not have the declared columns; nothing is stored.
    Conflict
        The part before is not stored, or a batch whose parts came before comes otherwise; nothing is stored.
    Unavailable
        Nothing is stored.
    OutcomeUnknown
        The commit was not answered; the error names the batch id to send the same rows with.
    """
    batch_id = secrets.token_hex(16) if batch_id is None else batch_id
    _check_names(batch_id, part)
    token = secrets.token_hex(16)
    with begin() as uow:
        stream = uow.streams.get(stream_name)
        stream.check_takes_rows()
        if _is_stored(uow, stream_name, batch_id, part):
            return IngestReply(batch_id, 0, {}, repeated=True)
    rows, exact = event_tables.conform(table, stream.schema)
    indices = event_tables.window_indices(rows, stream.schema, stream.policy)
    rows = rows.append_column(ROW_ID, _row_ids(rows.num_rows))
    now = clock.now()  # of all tries: a row is taken or refused once, since a window's file is written once
    for _ in range(_TRIES):  # a window may close while the rows are written
        with begin() as uow:
            closed_before = uow.streams.progress(stream_name).closed_before
        accepted, refused = event_tables.refuse(
            rows, exact, indices, stream.schema, stream.policy, closed_before=closed_before, now=now
        )
        touched = np.unique(indices[accepted])
        try:
            for index in touched.tolist():
                window = WindowId(stream_name, index)
                chosen = rows.filter(pa.array(accepted & (indices == index)))
                raw.write_batch(window, token, chosen, keys.sealing_key(window))
                keys.note_batch(window, token)
        except WindowGone:
            continue
        except OutcomeUnknown as error:  # of a file or key, that counts for nothing without the commit below
            raise Unavailable(
                f"nothing of this {'batch' if part is None else 'part'} is stored: its files could not be made durable"
            ) from error
        with begin() as uow:
            uow.streams.lock(stream_name)
            if _is_stored(uow, stream_name, batch_id, part):
                return IngestReply(batch_id, 0, {}, repeated=True)
            progress = uow.streams.progress(stream_name)
            if progress.closed_before == closed_before:
                _commit(uow, stream_name, batch_id, part, token, closed_before)
                return IngestReply(batch_id, int(accepted.sum()), refused)
        for index in touched[touched < expired_before(stream.policy, progress.reached)].tolist():
            # written after its expiry looked: of no use, without a key
            raw.delete_window(WindowId(stream_name, index))
    raise Conflict(f"windows of {stream_name!r} kept closing during this ingest; send the batch again")


def _check_names(batch_id: str, part: Part | None) -> None:
    if not 1 <= len(batch_id) <= 200 or not batch_id.isprintable():
        raise InvalidRequest("a batch id has 1 to 200 printable characters")
    if part is not None and not 1 <= part[0] <= part[1]:
        raise InvalidRequest("a part has a number from 1 to how many there are")


def _commit(
    uow: UnitOfWork, stream: str, batch_id: str, part: Part | None, token: str, closed_before: int
) -> None:
    """Enter the batch, or the part, whose files have this token."""
    uow.streams.add_batch(stream, batch_id, token, closed_before, part or WHOLE)
    try:
        uow.commit()
    except OutcomeUnknown:
        raise may_be_stored(batch_id, part) from None


def may_be_stored(batch_id: str, part: Part | None = None) -> OutcomeUnknown:
    """Describe a batch that nobody answered for, by the name that its sender knows or was given."""
    named = f"batch {batch_id!r}" if part is None else f"part {part[0]} of {part[1]} of batch {batch_id!r}"
    return OutcomeUnknown(
        f"the batch may be stored: send the same rows again as {named}, which stores none twice"
    )


def may_be_stored_in_part(batch_id: str) -> OutcomeUnknown:
    """Describe a batch that went in parts, once nobody answered for one of them."""
    return OutcomeUnknown(
        f"the batch, or a part of it, may be stored: send the same rows again as batch {batch_id!r}, in the same "
        "order, which stores none twice"
    )


def partly_stored(batch_id: str, error: PtkStoreError) -> OutcomeUnknown:
    """Describe a batch that went in parts, once one is stored and another was not taken."""
    return OutcomeUnknown(
        f"send the same rows again as batch {batch_id!r}, in the same order, which stores none twice: a part of them "
        f"is stored, and the next was not taken: {error}"
    )


def taken_up_to(batch_id: str, row: int, error: PtkStoreError) -> InvalidRequest:
    """Describe a batch that went in parts, once one is stored and the rows behind it never will be."""
    return InvalidRequest(
        f"the rows before row {row} of the table, counted from 0, are stored as batch {batch_id!r}, and those from it "
        f"on were not taken: {error}. Send these, mended, as a batch of their own"
    )


def _is_stored(uow: CatalogView, stream: str, batch_id: str, part: Part | None) -> bool:
    """Whether it is stored, as `Conflict` tells of what would lose or double rows: another cut or order of a batch."""
    stored = uow.streams.stored_part(stream, batch_id)
    number, count = part or WHOLE
    done, known_count = stored or (0, count)
    if stored and done == known_count:
        return True
    if count == 1 and stored:
        raise Conflict(
            f"a part of batch {batch_id!r} is stored: send it in parts, by the client that began it"
        )
    if count != known_count:
        raise Conflict(
            f"batch {batch_id!r} was begun in another number of parts: send the same rows by the client that began it"
        )
    if number > done + 1:
        raise Conflict(
            f"part {number - 1} of batch {batch_id!r} is not stored: parts come one after the other"
        )
    return number <= done


def _row_ids(count: int) -> pa.Array:
    """Random 128-bit ids: the privacy unit 'record' is hashed by them (differences.md P7)."""
    entropy = pa.py_buffer(secrets.token_bytes(16 * count))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, entropy])
