"""The bytes of a packed row: all features of one entity in one value.

A row is a head (format, layout, event time), a bitmap of nulls, the fixed fields, and the bytes of the others::

    1 byte  format, 0x01            8 bytes  event time, microseconds since 1970
    8 bytes layout id               then     bitmap | numbers and lengths | texts, bytes, lists, messages

The layout names the features and the kind of each; its id is a hash of its text. The text is stored beside the rows.
So a reader needs to know nothing in advance, and a reader who knows a view needs to fetch nothing.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ptkstore.errors import CorruptObject

FORMAT = b"\x01"
HEAD = 9  # format and layout id
ANY = "m"

_NUMBERS = {"d": "d", "f": "f", "q": "q", "i": "i", "?": "?", "t": "q"}
_LISTS: dict[str, np.dtype[Any]] = {"D": np.dtype("<f8"), "F": np.dtype("<f4"), "Q": np.dtype("<i8")}


class Layout:
    """The features of a row, their order, and the kind of each.

    Parameters
    ----------
    fields : sequence of (name, kind)
        Kinds: `d f q i ? t` numbers (double, float, 64 and 32 bit integers, truth, seconds since 1970), `s` text,
        `b` bytes, `D F Q` lists of numbers, `m` any other value as its message.
    """

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self.names = tuple(name for name, _ in fields)
        self.kinds = tuple(kind for _, kind in fields)
        self.position = {name: index for index, name in enumerate(self.names)}
        self.text = json.dumps(list(fields), separators=(",", ":"), ensure_ascii=False).encode()
        self.id = hashlib.blake2b(self.text, digest_size=8).digest()
        self.head = FORMAT + self.id
        self.bitmap_bytes = -(-len(fields) // 8)
        self._all = (1 << len(fields)) - 1
        codes = "".join(_NUMBERS.get(kind, "I") for kind in self.kinds)
        self._struct = struct.Struct(f"<9sq{self.bitmap_bytes}s{codes}")
        self._no_nulls = bytes(self.bitmap_bytes)
        self._variable = tuple(i for i, kind in enumerate(self.kinds) if kind not in _NUMBERS)

    @classmethod
    def parsed(cls, text: bytes) -> Layout:
        """From its text, or `CorruptObject`."""
        try:
            fields = [(str(name), str(kind)) for name, kind in json.loads(text)]
        except (ValueError, TypeError):
            raise CorruptObject("a layout of packed rows is not what was written") from None
        if unknown := {kind for _, kind in fields} - _KINDS:
            raise CorruptObject(f"packed rows hold kinds that this release does not know: {sorted(unknown)}")
        return cls(fields)

    @cached_property
    def fixed_type(self) -> np.dtype[Any]:
        """Head, bitmap, numbers and lengths of a row, for many rows at once."""
        codes = {"d": "<f8", "f": "<f4", "q": "<i8", "i": "<i4", "?": "?", "t": "<i8"}
        fields = [("head", "V9"), ("micros", "<i8"), ("nulls", "u1", (self.bitmap_bytes,))]
        return np.dtype([*fields, *((f"c{i}", codes.get(kind, "<u4")) for i, kind in enumerate(self.kinds))])

    def pack(self, micros: int, values: Sequence[Any]) -> bytes:
        """Pack a row; None is null, an `m` is the bytes of its message."""
        nulls = 0
        cells = []
        rest = []
        for index, (kind, value) in enumerate(zip(self.kinds, values, strict=True)):
            if value is None:
                nulls |= 1 << index
                cells.append(0)
            elif kind in _NUMBERS:
                cells.append(value)
            else:
                content = content_of(kind, value)
                cells.append(len(content))
                rest.append(content)
        fixed = self._struct.pack(self.head, micros, nulls.to_bytes(self.bitmap_bytes, "little"), *cells)
        return b"".join((fixed, *rest)) if rest else fixed

    def unpack(self, row: bytes) -> tuple[int, Sequence[Any]]:
        """Event time in microseconds, and the values in the order of the layout."""
        try:
            _, micros, nulls, *values = self._struct.unpack_from(row)
            if self._variable:
                self._read_variable(row, values)
            elif len(row) != self._struct.size:
                raise ValueError
        except (struct.error, ValueError):
            raise CorruptObject("a packed row is not what was written") from None
        return micros, values if nulls == self._no_nulls else self._with_nulls(nulls, values)

    def unpack_many(self, rows: Sequence[bytes]) -> list[tuple[int, Sequence[Any]]]:
        """Unpack several rows."""
        size = self._struct.size
        content = b"".join(rows)
        if self._variable or len(content) != size * len(rows) or any(len(row) != size for row in rows):
            return [self.unpack(row) for row in rows]
        return [
            (cells[1], cells[3:])
            if cells[2] == self._no_nulls
            else (cells[1], self._with_nulls(cells[2], cells[3:]))
            for cells in self._struct.iter_unpack(content)
        ]

    def _with_nulls(self, nulls: bytes, values: Sequence[Any]) -> list[Any]:
        bits = int.from_bytes(nulls, "little")
        return [None if bits >> i & 1 else value for i, value in enumerate(values)]

    def _read_variable(self, row: bytes, values: list[Any]) -> None:
        start = self._struct.size
        for index in self._variable:
            end = start + values[index]
            values[index] = _READERS[self.kinds[index]](row[start:end])
            start = end
        if start != len(row):
            raise ValueError


def content_of(kind: str, value: Any) -> bytes:
    """Return the bytes of a value that is no number."""
    if kind == "s":
        return bytes(value, "utf-8")
    if kind in _LISTS:
        return np.asarray(value, _LISTS[kind]).tobytes()
    return bytes(value)


def _list_reader(kind: str) -> Callable[[bytes], list[Any]]:
    dtype = _LISTS[kind]
    return lambda content: np.frombuffer(content, dtype).tolist()


_READERS: dict[str, Callable[[bytes], Any]] = {
    "s": lambda content: content.decode("utf-8"),
    "b": bytes,
    ANY: bytes,
    **{kind: _list_reader(kind) for kind in _LISTS},
}
_KINDS = {*_NUMBERS, *_READERS}


class Layouts:
    """The layouts a process has met, by the head of their rows; they never change, so they never age."""

    def __init__(self) -> None:
        self._known: dict[bytes, Layout] = {}

    def add(self, layout: Layout) -> Layout:
        """Return the one object of this layout."""
        return self._known.setdefault(layout.head, layout)

    def unknown(self, rows: Sequence[bytes | None]) -> list[bytes]:
        """Return the ids of layouts that have to be fetched before these rows can be read."""
        heads = {row[:HEAD] for row in rows if row is not None} - self._known.keys()
        for head in heads:
            if head[:1] != FORMAT or len(head) != HEAD:
                raise CorruptObject("a packed row has a format that this release does not know")
        return [head[1:] for head in heads]

    def of(self, row: bytes) -> Layout:
        """Return the layout of a row; `unknown` was asked before."""
        return self._known[row[:HEAD]]

    def learn(self, wanted: bytes, text: bytes | None) -> None:
        """Keep a layout as the store tells it."""
        layout = None if text is None else Layout.parsed(text)
        if layout is None or layout.id != wanted:
            raise CorruptObject("packed rows have no layout beside them")
        self.add(layout)
