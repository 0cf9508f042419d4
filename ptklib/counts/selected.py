"""Counts of keys nobody declared: exact per shard, noisy and few once released."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ptklib.arrays import Bools, Ints
from ptklib.arrow_types import dense
from ptklib.counts.contingency import Contingency
from ptklib.domains import CELLS_MAX, OUTSIDE
from ptklib.exceptions import InvalidDomainError, InvalidParameterError, StateMismatchError
from ptklib.keys import integer_keys, string_keys
from ptklib.mechanisms.grid import count_by
from ptklib.mechanisms.partition import PartitionSelection
from ptklib.scalars import TEXT_BYTES_MAX, is_integer

TEXT = ".text"
"""Ends the name of the vector that holds the UTF-8 bytes of string keys; no column has a dot in its name."""

KINDS = ("int64", "string")


@dataclass(frozen=True)
class SelectedKeys:
    """A column whose values are not declared: those frequent enough to hide each row are released."""

    column: str
    kind: Literal["int64", "string"]
    """Public type of the values. Entries of another type are dropped."""
    max_values: int
    """Largest number of released values."""

    @classmethod
    def of(cls, column: str, kind: object, max_values: object) -> "SelectedKeys":
        """Read the type declared for `column`."""
        if kind not in KINDS:
            raise InvalidDomainError(f"select of {column!r} must be 'int64' or 'string'")
        if not is_integer(max_values) or max_values < 1:
            raise InvalidParameterError("max_values must be a positive integer")
        if max_values > CELLS_MAX:
            raise InvalidDomainError(f"max_values must be at most {CELLS_MAX}")
        return cls(column, kind, int(max_values))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.max_values

    @property
    def arrow_type(self) -> Any:
        """The Arrow type of the values."""
        return pa.int64() if self.kind == "int64" else pa.string()

    @property
    def vectors(self) -> tuple[str, ...]:
        """Names of the exact integer vectors of a shard: keys with counts, and the bytes of string keys."""
        return (self.column,) if self.kind == "int64" else (self.column, self.column + TEXT)

    def empty(self) -> dict[str, Ints]:
        """Return the vectors of no row."""
        return {name: np.zeros(0, dtype=np.int64) for name in self.vectors}

    def collect(self, column: Any, labels: Ints, labelled: Bools, n_classes: int) -> dict[str, Ints]:
        """Return the vectors of some rows: each key once, in ascending order, with its count per class."""
        keys, codes = self._distinct(column)
        kept = labelled & (codes != OUTSIDE)
        size = len(keys) * n_classes
        cells = count_by(np.where(kept, codes * n_classes + labels, size), size + 1)[:size]
        return self.pack(keys, cells.reshape(len(keys), n_classes))

    def pack(self, keys: Any, counts: Ints) -> dict[str, Ints]:
        """Return the vectors of keys and their counts; keys without any row are left out."""
        present = counts.any(axis=1)
        keys, counts = keys.filter(pa.array(present)), counts[present]
        order = pc.sort_indices(keys)
        keys, counts = keys.take(order), counts[dense(order)]
        if self.kind == "int64":
            return {self.column: np.column_stack([dense(keys), counts]).reshape(-1)}
        lengths, words = _words(keys)
        return {
            self.column: np.column_stack([lengths, counts]).reshape(-1),
            self.column + TEXT: words,
        }

    def unpack(self, vectors: Mapping[str, Ints], n_classes: int) -> tuple[Any, Ints]:
        """Return the distinct keys of merged vectors, ascending, and their counts of shape (n_keys, n_classes).

        Raises
        ------
        StateMismatchError
            When the vectors are not what `pack` wrote, end to end.
        """
        flat = vectors[self.column]
        if len(flat) % (n_classes + 1):
            raise StateMismatchError("partial statistics do not have the shape this estimator declares")
        rows = flat.reshape(-1, n_classes + 1)
        if self.kind == "int64":
            keys = pa.array(np.ascontiguousarray(rows[:, 0]))
        else:
            keys = _strings(rows[:, 0], vectors[self.column + TEXT])
        encoded = keys.dictionary_encode()
        distinct, codes = encoded.dictionary, dense(encoded.indices).astype(np.int64)
        counts = np.zeros((len(distinct), n_classes), dtype=np.int64)
        np.add.at(counts, codes, rows[:, 1:])
        order = pc.sort_indices(distinct)
        return distinct.take(order), counts[dense(order)]

    def release(
        self,
        vectors: Mapping[str, Ints],
        selection: PartitionSelection,
        variance: float,
        previous: Contingency | None,
    ) -> Contingency:
        """Draw the noise of one release and return what is known of all values released so far.

        Notes
        -----
        The values of `previous` are public: they get noise whether rows have them or not, and are never dropped.
        Other values must pass the threshold and are counted from this release on. When more pass than fit, those
        with the largest noisy counts stay.
        """
        n_classes = selection.n_cells
        before = previous or Contingency.nothing(self.arrow_type, n_classes)
        keys, exact = self.unpack(vectors, n_classes)
        places = self.codes(keys, before.keys)
        old = places != OUTSIDE
        earlier = np.zeros((len(before.keys), n_classes), dtype=np.int64)
        earlier[places[old]] = exact[old]
        new = np.flatnonzero(~old)
        noisy_earlier, noisy_new, passed = selection.draw(earlier, exact[new])
        largest = np.argsort(-noisy_new.sum(axis=1), kind="stable")[: self.max_values - len(earlier)]
        released = keys.take(pa.array(new[passed[largest]]))
        both = pa.concat_arrays([before.keys, released])
        counts = np.concatenate([before.counts + noisy_earlier, noisy_new[largest]])
        variances = np.concatenate([before.variance + variance, np.full(len(released), variance)])
        order = pc.sort_indices(both)
        return Contingency(both.take(order), counts[dense(order)], variances[dense(order)])

    def codes(self, column: Any, keys: Any) -> Ints:
        """Return the place in ascending `keys` of each entry of a numpy or Arrow column, or `OUTSIDE`."""
        if self.kind == "string":
            strings = string_keys(column, self.column)
            indices = pc.index_in(strings, value_set=keys.cast(strings.type)).fill_null(OUTSIDE)
            return dense(indices).astype(np.int64)
        values, valid = integer_keys(column, self.column)
        places = pd.Index(dense(keys)).get_indexer(values)  # -1 where there is none
        return np.where(valid, places, OUTSIDE)

    def _distinct(self, column: Any) -> tuple[Any, Ints]:
        """Return the distinct values of a column and the place of each entry among them."""
        if self.kind == "string":
            encoded = string_keys(column, self.column).dictionary_encode()
            return encoded.dictionary.cast(pa.string()), dense(encoded.indices.fill_null(OUTSIDE)).astype(
                np.int64
            )
        values, valid = integer_keys(column, self.column)
        codes, distinct = pd.factorize(values)
        return pa.array(distinct), np.where(valid, codes, OUTSIDE)


def _words(keys: Any) -> tuple[Ints, Ints]:
    """Return the number of UTF-8 bytes of each string and the bytes, each string padded to whole words."""
    texts = [text.encode() for text in keys.to_pylist()]
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    padded = b"".join(text.ljust(-(-len(text) // 8) * 8, b"\0") for text in texts)
    return lengths, np.frombuffer(padded, dtype="<i8").astype(np.int64)


def _strings(lengths: Ints, words: Ints) -> Any:
    """Return the strings that `_words` wrote, end to end."""
    n_words = -(-lengths // 8)
    unusable = (lengths < 0) | (lengths > TEXT_BYTES_MAX)
    if unusable.any() or n_words.sum() != len(words):
        raise StateMismatchError("partial statistics do not have the shape this estimator declares")
    octets = words.astype("<i8").view(np.uint8)
    starts = 8 * (np.cumsum(n_words) - n_words)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    kept = octets[np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])]
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(kept)]
    strings = pa.Array.from_buffers(pa.large_string(), len(lengths), buffers)
    try:
        strings.validate(full=True)
        return strings.cast(pa.string())
    except pa.ArrowException:
        raise StateMismatchError("partial statistics hold keys that are not UTF-8") from None
