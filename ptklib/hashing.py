"""Hashed domains: values of any kind fall into a fixed number of buckets, the same on every machine.

The hash is public (`ptklib.public_hash`), so that whoever reads a table finds the bucket of a value without us: it is
the hash modulo the number of buckets.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ptklib.arrays import Bools, Ints
from ptklib.arrow_types import dense
from ptklib.columns import as_column
from ptklib.domains import CELLS_MAX, OUTSIDE
from ptklib.exceptions import InvalidDomainError, InvalidParameterError
from ptklib.keys import integer_keys, string_keys
from ptklib.public_hash import Words, buckets_of, hash_entries, hash_integers, hash_texts
from ptklib.scalars import is_integer

BUCKET = "_bucket"
"""Ends the name of the key column of a hashed feature."""

_WORD = 2**64 - 1


@dataclass(frozen=True)
class HashedDomain:
    """Buckets for the values of one column; nothing of the column is declared."""

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
            When the type of the column has neither integers nor strings, booleans or floats.
        """
        hashes, valid = hash_keys(column, self.column, self.seed)
        buckets = buckets_of(hashes, self.width)
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
    """Return a 64-bit hash of each entry, and which entries have one; None means all of them."""
    if isinstance(column, np.ndarray):
        kind = column.dtype.kind
        if kind == "O":
            if pd.api.types.infer_dtype(column, skipna=True) == "string":
                return _hash_strings(string_keys(column, name), seed)
            return hash_entries(column, seed)
        if kind in "iub":
            return hash_integers(column.astype(np.int64, copy=False).view(np.uint64), seed), None
        if kind == "U":
            return _hash_strings(string_keys(column, name), seed)
        values, valid = integer_keys(column, name)
        return hash_integers(values.view(np.uint64), seed), valid
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
    return hash_integers(values.view(np.uint64), seed), valid


def _hash_strings(strings: Any, seed: int) -> tuple[Words, Bools | None]:
    """Hash each distinct string once."""
    encoded = strings.dictionary_encode()
    distinct = hash_texts(encoded.dictionary.to_pylist(), seed)
    if strings.null_count == 0:
        return distinct[dense(encoded.indices)], None
    places = dense(encoded.indices.fill_null(len(distinct)))
    return np.append(distinct, np.uint64(0))[places], dense(strings.is_valid())
