"""Hashed domains: values of any kind fall into a fixed number of buckets, the same on every machine.

The hash is public, so that whoever reads a table finds the bucket of a value without us:

* an integer x, modulo 2**64, has ``mix(x ^ mix(seed + 0x9E3779B97F4A7C15))`` with the finaliser of SplitMix64,
  ``z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *= 0x94D049BB133111EB; z ^= z >> 31``;
* a string has the BLAKE2b digest of its UTF-8 bytes with ``digest_size=8`` and the seed as 16 bytes of ``salt``,
  both little-endian;
* the bucket is the hash modulo the number of buckets.

Booleans are the integers 0 and 1, floats that are whole numbers are those integers. Everything else is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ptklib.arrays import Bools, Ints
from ptklib.arrow_types import dense
from ptklib.columns import as_column
from ptklib.domains import CELLS_MAX, OUTSIDE
from ptklib.exceptions import InvalidDomainError, InvalidParameterError
from ptklib.keys import integer_keys, is_text, is_whole, string_keys
from ptklib.scalars import is_integer, number_of

Words = npt.NDArray[np.uint64]

BUCKET = "_bucket"
"""Ends the name of the key column of a hashed feature."""

_GOLDEN = 0x9E3779B97F4A7C15
_BLOCK = 2**14
_WORD = 2**64 - 1


@dataclass(frozen=True)
class HashedDomain:
    """Buckets that stand for the values of one column; nothing of the column is declared."""

    column: str
    width: int
    """Number of buckets."""
    seed: int = 0
    """From 0 to 2**64 - 1. Two seeds let different values collide."""

    @classmethod
    def of(cls, column: str, width: object, seed: object) -> "HashedDomain":
        """Read the number of buckets and the seed declared for `column`."""
        if not is_integer(width) or not 2 <= width <= CELLS_MAX:
            raise InvalidDomainError(f"hash_buckets of {column!r} must be an integer from 2 to {CELLS_MAX}")
        if not is_integer(seed) or not 0 <= seed <= _WORD:
            raise InvalidParameterError("hash_seed must be an integer from 0 to 2**64 - 1")
        return cls(column, int(width), int(seed))

    def __len__(self) -> int:
        return self.width

    @property
    def key(self) -> str:
        """Name of the key column of the table."""
        return self.column + BUCKET

    @property
    def arrow_type(self) -> Any:
        """The Arrow type of bucket numbers."""
        return pa.int64()

    @cached_property
    def array(self) -> Any:
        """All buckets, in code order."""
        return pa.array(np.arange(self.width, dtype=np.int64))

    def encode(self, column: Any) -> Ints:
        """Return the bucket of each entry of a numpy or Arrow column, `OUTSIDE` where it is missing.

        Raises
        ------
        SchemaError
            When the type of the column holds neither integers nor strings, booleans or floats.
        """
        hashes, valid = hash_keys(column, self.column, self.seed)
        buckets = (hashes % np.uint64(self.width)).view(np.int64)
        return buckets if valid is None else np.where(valid, buckets, OUTSIDE)


def bucket_of(values: Any, width: int, seed: int = 0) -> Ints:
    """Return the bucket of each value, -1 where it is missing.

    Parameters
    ----------
    values : array-like of shape (n,), or one value
        Integers, strings, booleans; pandas, pyarrow, numpy or a list.
    width, seed : int
        As for the feature: `hash_buckets` and `hash_seed`.
    """
    if isinstance(values, str) or not isinstance(values, Iterable):
        values = [values]
    return HashedDomain.of("values", width, seed).encode(as_column(values, "values"))


def hash_keys(column: Any, name: str, seed: int) -> tuple[Words, Bools | None]:
    """Return a 64-bit hash of each entry, and which entries have one; None stands for all of them."""
    if isinstance(column, np.ndarray):
        kind = column.dtype.kind
        if kind == "O":
            if pd.api.types.infer_dtype(column, skipna=True) == "string":
                return _hash_strings(string_keys(column, name), seed)
            return _hash_objects(column, seed)
        if kind in "iub":
            return _mixed(column.astype(np.int64, copy=False).view(np.uint64), seed), None
        if kind == "U":
            return _hash_strings(string_keys(column, name), seed)
        values, valid = integer_keys(column, name)
        return _mixed(values.view(np.uint64), seed), valid
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _hash_strings(string_keys(column, name), seed)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int64())
    if column.null_count == 0 and pa.types.is_integer(column.type):
        return hash_keys(dense(column), name, seed)
    if pa.types.is_uint64(column.type):  # integer_keys knows signed ones only
        filled = column.fill_null(pa.scalar(0, type=column.type))
        return hash_keys(dense(filled), name, seed)[0], dense(column.is_valid())
    values, valid = integer_keys(column, name)
    return _mixed(values.view(np.uint64), seed), valid


def _mixed(words: Words, seed: int) -> Words:
    """Hash integers; blocks stay in the processor's cache."""
    start = _mix(np.array([(seed + _GOLDEN) & _WORD], dtype=np.uint64))
    hashes = np.empty(len(words), dtype=np.uint64)
    for first in range(0, len(words), _BLOCK):
        rows = slice(first, first + _BLOCK)
        hashes[rows] = _mix(words[rows] ^ start)
    return hashes


def _mix(z: Words) -> Words:
    """Return the finaliser of SplitMix64, a bijection; `z` is overwritten."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def _hash_strings(strings: Any, seed: int) -> tuple[Words, Bools | None]:
    """Hash each distinct string once."""
    encoded = strings.dictionary_encode()
    distinct = _digests(encoded.dictionary.to_pylist(), seed)
    if strings.null_count == 0:
        return distinct[dense(encoded.indices)], None
    places = dense(encoded.indices.fill_null(len(distinct)))
    return np.append(distinct, np.uint64(0))[places], dense(strings.is_valid())


def _digests(strings: list[str], seed: int) -> Words:
    salted = blake2b(digest_size=8, salt=seed.to_bytes(16, "little"))

    def digest(text: str) -> bytes:
        state = salted.copy()
        state.update(text.encode())
        return state.digest()

    return np.frombuffer(b"".join(map(digest, strings)), dtype="<u8").astype(np.uint64)


def _hash_objects(column: npt.NDArray[np.object_], seed: int) -> tuple[Words, Bools]:
    """Hash a column of Python objects entry by entry, strings and integers apart."""
    texts = np.fromiter((is_text(value) for value in column), dtype=np.bool_, count=len(column))
    hashes, valid = np.zeros(len(column), dtype=np.uint64), texts.copy()
    if texts.any():
        strings = pa.array(column[texts].tolist(), type=pa.string())
        hashes[texts] = _hash_strings(strings, seed)[0]
    if not texts.all():
        words = [_word(value) for value in column[~texts]]
        valid[~texts] = [word is not None for word in words]
        hashes[~texts] = _mixed(np.array([word or 0 for word in words], dtype=np.uint64), seed)
    return hashes, valid


def _word(value: object) -> int | None:
    """Return the 64 bits of an entry that is an integer or stands for one."""
    number = int(value) if isinstance(value, bool | np.bool_) else number_of(value)
    if number is None or (isinstance(number, float) and not is_whole(number)):
        return None
    return int(number) & _WORD
