"""Privacy units in a table: who they are for the keyed hash, and which of their rows a window keeps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ptklib.arrays import Ints
from ptkstore.errors import InvariantBroken

_PERSON = b"ptk privacy unit"


def units_of(column: pa.ChunkedArray) -> tuple[Ints, npt.NDArray[np.void]]:
    """Number the users of a column without nulls, and give the 16-byte id of each number.

    The id is a digest of the value and its type, so that the number 1 and the text "1" are two users. It decides for
    the stream's life in which part a user is: changing it moves everybody.
    """
    if pa.types.is_string(column.type):  # the offsets of a string column end at 2 GiB of text
        column = column.cast(pa.large_string())
    encoded = pc.dictionary_encode(column.combine_chunks())
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    form = _form_of(column.type)
    digests = b"".join(map(form, encoded.dictionary.to_pylist()))
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, np.frombuffer(digests, dtype="V16")


def kept_rows(
    codes: Ints,
    lots: npt.NDArray[np.uint64],
    most: int,
    groups: Ints | None = None,
) -> Ints:
    """Return the places of the rows that are kept, in their order: of each unit those with the `most` lowest lots.

    Lots are keyed hashes of the rows' random ids. So the choice is uniform among a unit's rows, and does not depend on
    their content or order. It is the same when it is repeated, and no other unit has a part in it. With `groups`, a
    unit's rows all come from one: that of its lowest lot. So a unit is in one block.
    """
    order = np.lexsort((lots, codes))
    if groups is not None:
        starts, sizes = _runs(codes[order])
        first = np.repeat(groups[order[starts]], sizes)
        order = order[groups[order] == first]
    starts, sizes = _runs(codes[order])
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    return np.asarray(np.sort(order[place < most]), dtype=np.int64)


def _runs(codes: Ints) -> tuple[Ints, Ints]:
    """The starts of runs of equal codes, and their lengths."""
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return starts, np.diff(starts, append=len(codes))


def _form_of(kind: pa.DataType) -> Callable[[Any], bytes]:
    if pa.types.is_int64(kind):
        return lambda value: _digest(b"i" + value.to_bytes(8, "little", signed=True))
    if pa.types.is_large_string(kind):
        return lambda value: _digest(b"s" + value.encode())
    raise InvariantBroken("a unit column has integers or text")


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16, person=_PERSON).digest()
