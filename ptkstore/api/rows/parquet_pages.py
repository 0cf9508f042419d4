"""Sizes of the unpacked pages of a Parquet file, read from their headers before any is unpacked."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet

from ptkstore.api.rows.thrift import CompactReader, Malformed, Struct, i32, inner
from ptkstore.errors import TooLarge, UnknownFormat

_MAGIC: Final = b"PAR1"
_FOOTER_MOST = 4 * 2**20
_FOOTER_VALUES, _FOOTER_STRUCTS = 1_000_000, 60_000
_PAGES_MOST = 50_000
_PAGE_VALUES, _PAGE_STRUCTS = 40, 6  # of a header, on average
_PADDING = 100  # that readers allow behind a chunk, for the sake of an old writer
_LEAST_VALUE = 2  # bytes of a value in a dictionary: half a float has two, a text four for its length

# PageHeader
_TYPE, _UNPACKED, _PACKED, _DATA, _DICTIONARY, _DATA_2 = 1, 2, 3, 5, 7, 8
_DATA_PAGE, _INDEX_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_2 = 0, 1, 2, 3
# Of the three inner headers: how many values a page has, and their encoding.
_N_VALUES, _ENCODING, _ENCODING_2 = 1, 2, 4
# DELTA_BYTE_ARRAY is not among them: a byte of it repeats the whole text before it. Nor is DELTA_LENGTH_BYTE_ARRAY,
# which pyarrow does not read as a dictionary.
_ENCODINGS: Final = {
    0: "PLAIN",
    2: "PLAIN_DICTIONARY",
    3: "RLE",
    4: "BIT_PACKED",
    5: "DELTA_BINARY_PACKED",
    8: "RLE_DICTIONARY",
    9: "BYTE_STREAM_SPLIT",
}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits for the pages of one file, in bytes and values."""

    page_bytes: int
    all_bytes: int
    too_large: str


def checked_metadata(body: bytes) -> pyarrow.parquet.FileMetaData:
    """Read the footer of a file, once its size and number of parts are known to be those of an honest writer.

    Raises
    ------
    TooLarge
        Too many column chunks, or too long texts in the footer.
    Malformed, pyarrow.ArrowException, OSError
        It is no Parquet file.
    """
    if len(body) < 12 or body[-4:] != _MAGIC:
        raise Malformed("no Parquet file")
    (length,) = struct.unpack("<I", body[-8:-4])
    if length > len(body) - 12:
        raise Malformed("a footer that is longer than its file")
    if length > _FOOTER_MOST:
        raise TooLarge(f"a Parquet footer has at most {_FOOTER_MOST} bytes; write fewer, larger row groups")
    footer = memoryview(body)[-8 - length : -8]
    reader = CompactReader(footer, most_values=_FOOTER_VALUES, most_structs=_FOOTER_STRUCTS)
    reader.struct(0)
    return pyarrow.parquet.read_metadata(pa.BufferReader(body))


def unpacked_bytes(body: bytes, metadata: pyarrow.parquet.FileMetaData, bounds: Bounds) -> int:
    """Count the bytes of all pages, unpacked. A reader gives a page what its header says, whatever the footer says.

    Raises
    ------
    TooLarge
        A page, or all pages, take more than they may, or there are too many.
    UnknownFormat
        A page has an encoding of which few bytes become many.
    Malformed
        A header is none, or says what cannot be.
    """
    walk = _Walk(body, bounds)
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        for place in range(rows.num_columns):
            chunk = rows.column(place)
            if not 0 <= chunk.num_values <= rows.num_rows:  # of columns that are not nested
                raise Malformed("a column chunk has another number of values than rows")
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < start:
                start = chunk.dictionary_page_offset
            walk.chunk(start, chunk.total_compressed_size, chunk.num_values)
    return walk.unpacked


class _Walk:
    """Goes from header to header as a reader of the file does."""

    def __init__(self, body: bytes, bounds: Bounds) -> None:
        self._size, self._bounds = len(body), bounds
        self._reader = CompactReader(
            memoryview(body),
            most_values=_PAGES_MOST * _PAGE_VALUES,
            most_structs=_PAGES_MOST * _PAGE_STRUCTS,
        )
        self._pages_left = _PAGES_MOST
        self.unpacked = 0

    def chunk(self, start: int, length: int, n_values: int) -> None:
        """The pages of one column chunk, until they hold all its values."""
        end = start + length
        if start < len(_MAGIC) or length < 0 or end > self._size:
            raise Malformed("a column chunk lies outside of its file")
        seen, place = 0, start
        while seen < n_values and place < min(end + _PADDING, self._size):
            try:
                header = self._reader.struct(place)
                seen += self._page(header)
            except Malformed:
                if place < end:
                    raise
                return  # behind the chunk there need be no page
            place = self._reader.place + i32(header, _PACKED)

    def _page(self, header: Struct) -> int:
        """How many rows a page has values for."""
        self._pages_left -= 1
        if self._pages_left < 0:
            raise TooLarge(f"a Parquet file has at most {_PAGES_MOST} pages; write larger ones")
        unpacked, packed = i32(header, _UNPACKED), i32(header, _PACKED)
        if unpacked < 0 or not 0 <= packed <= self._size - self._reader.place:
            raise Malformed("a page lies outside of its file")
        if unpacked > self._bounds.page_bytes:
            raise TooLarge(
                f"a Parquet page has at most {self._bounds.page_bytes} bytes unpacked; write smaller pages"
            )
        self.unpacked += unpacked
        if self.unpacked > self._bounds.all_bytes:
            raise TooLarge(self._bounds.too_large)
        return _values(header, unpacked)


def _values(header: Struct, unpacked: int) -> int:
    """Return how many values of rows a page has; 0 for a page without rows."""
    kind = i32(header, _TYPE)
    if kind == _DICTIONARY_PAGE:
        inside = inner(header, _DICTIONARY)
        if not 0 <= i32(inside, _N_VALUES) * _LEAST_VALUE <= unpacked:
            raise Malformed("a dictionary of more values than it has bytes for")
        _check_encoding(i32(inside, _ENCODING))
        return 0
    if kind == _DATA_PAGE:
        inside, encoding = inner(header, _DATA), _ENCODING
    elif kind == _DATA_PAGE_2:
        inside, encoding = inner(header, _DATA_2), _ENCODING_2
    else:
        return 0  # readers pass it over
    n_values = i32(inside, _N_VALUES)
    if n_values < 0:
        raise Malformed("a page of less than no values")
    _check_encoding(i32(inside, encoding))
    return n_values


def _check_encoding(encoding: int) -> None:
    if encoding not in _ENCODINGS:
        raise UnknownFormat(f"Parquet pages are read in the encodings {', '.join(_ENCODINGS.values())}")
