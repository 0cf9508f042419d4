"""Tables as encrypted Parquet bytes, bound to a name."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Callable, Sequence
from typing import IO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import encryption

from ptkstore.domain.streams.schemas import HASH
from ptkstore.errors import CorruptObject, SchemaMismatch, Unavailable
from ptkstore.ports.keys import Sealer

ROWS_PER_GROUP = 64 * 1024
_T = TypeVar("_T")
_ENCRYPTED_END = b"PARE"
_MASTER_KEY = "window"  # written in clear into every file, so the same for all

# What pyarrow raises on bytes that are not an intact encrypted file, found by changing every byte of one. Not
# its base class: that one also stands for a process without memory or threads.
_BROKEN = (
    pa.ArrowInvalid,
    pa.ArrowKeyError,
    pa.ArrowTypeError,
    pa.ArrowIndexError,
    pa.ArrowNotImplementedError,
    binascii.Error,
    CorruptObject,
    OSError,
)


class _NameBoundKms(encryption.KmsClient):  # type: ignore[misc]
    """Wraps a file's data key by the window's key and the file's name, so that swapped files do not open."""

    def __init__(self, sealer: Sealer, key: bytes, name: str) -> None:
        super().__init__()
        self._sealer, self._key, self._bound_to = sealer, key, f"parquet {name}"

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        """Seal a data key."""
        return base64.b64encode(self._sealer.seal(self._key, key_bytes, self._bound_to))

    def unwrap_key(self, wrapped_key: bytes, master_key_identifier: str) -> bytes:
        """Open a data key."""
        return self._sealer.open(self._key, base64.b64decode(wrapped_key, validate=True), self._bound_to)


def encrypted(rows: pa.Table, sealer: Sealer, key: bytes, name: str) -> bytes:
    """Return the bytes of an encrypted file; plain Parquet exists in memory only, page by page.

    Every part is encrypted with one data key of its own, the footer with schema and statistics included.
    """
    properties = _factory(sealer, key, name).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key=_MASTER_KEY, uniform_encryption=True, data_key_length_bits=256, double_wrapping=False
        ),
    )
    sink = pa.BufferOutputStream()
    pq.write_table(
        rows, sink, row_group_size=ROWS_PER_GROUP, compression="zstd", encryption_properties=properties
    )
    content: bytes = sink.getvalue().to_pybytes()
    return content


def decrypted(
    file: IO[bytes],
    sealer: Sealer,
    key: bytes,
    name: str,
    columns: Sequence[str] | None,
    hashes: tuple[int, int] | None = None,
) -> pa.Table:
    """Decrypt the rows, or some columns; `CorruptObject` unless the file was written under this name and key.

    Parameters
    ----------
    file, sealer, key, name
        The encrypted file, what it was sealed with, and under which name.
    columns : sequence of str or None
        The columns to read; None reads all. One that the file lacks is a `SchemaMismatch`.
    hashes : tuple of int or None
        Only rows whose keyed hash is in this half-open range; only groups that may have such rows are decrypted.
    """
    opened = _intact(lambda: open_encrypted(file, sealer, key, name))
    names = opened.schema_arrow.names if columns is None else list(columns)
    needed = names if hashes is None else [*names, HASH]
    if absent := [column for column in needed if column not in opened.schema_arrow.names]:
        raise SchemaMismatch(f"the stored rows have no column {', '.join(map(repr, absent))}")
    if hashes is not None:
        return _intact(lambda: _between(opened, names, *hashes))
    return _intact(lambda: opened.read(columns=names, use_threads=False))


def _between(opened: pq.ParquetFile, names: list[str], low: int, high: int) -> pa.Table:
    """Read the rows whose hash is at least `low` and below `high`, group by group."""
    place = opened.schema_arrow.names.index(HASH)
    read = list(dict.fromkeys((*names, HASH)))
    pieces = [opened.schema_arrow.empty_table().select(names)]
    for group in range(opened.num_row_groups if low < high else 0):
        bounds = opened.metadata.row_group(group).column(place).statistics
        if bounds is not None and bounds.has_min_max and (bounds.max < low or bounds.min >= high):
            continue
        rows = opened.read_row_group(group, columns=read, use_threads=False)
        hashes = rows[HASH].to_numpy()
        chosen = (hashes >= np.uint64(low)) & (hashes <= np.uint64(high - 1))
        pieces.append(rows.filter(pa.array(chosen)).select(names))
    return pa.concat_tables(pieces)


def open_encrypted(file: IO[bytes], sealer: Sealer, key: bytes, name: str) -> pq.ParquetFile:
    """Read and decrypt the footer; raises whatever pyarrow does on damage."""
    file.seek(-len(_ENCRYPTED_END), io.SEEK_END)
    if file.read() != _ENCRYPTED_END:  # pyarrow would read a plain file without asking for a key
        raise CorruptObject("a file of rows is not encrypted")
    file.seek(0)
    properties = _factory(sealer, key, name).file_decryption_properties(
        encryption.KmsConnectionConfig(), encryption.DecryptionConfiguration()
    )
    return pq.ParquetFile(file, decryption_properties=properties)


def _factory(sealer: Sealer, key: bytes, name: str) -> encryption.CryptoFactory:
    return encryption.CryptoFactory(lambda _: _NameBoundKms(sealer, key, name))


def _intact(read: Callable[[], _T]) -> _T:
    try:
        return read()
    except MemoryError:
        raise
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:  # from the system, not from the decoder
            raise Unavailable("a file of rows could not be read; wait and retry") from None
        raise CorruptObject("a file of rows is not what was written under its name and key") from None
    except pa.ArrowException:
        raise Unavailable("a file of rows could not be read for want of memory or threads") from None
