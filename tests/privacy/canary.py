"""Values that exist in the rows only, and a search for them in bytes, in whatever form those hold them."""

from __future__ import annotations

import base64
import io
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

TEXT = "KANARIENVOGEL-7f3a9c51e0b2"
WHOLE = 7_219_634_117_385_201
FRACTION = 81_234.567890123
LARGEST = 64 << 20
PIECE = 64 << 10
DEPTH = 3  # a Parquet file in base64 in a database, and no deeper

ZSTD, LZ4, PARQUET, ARROW = b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18", b"PAR1", b"ARROW1"
DEFLATED = re.compile(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08")
GZIP_OR_ZLIB = 47  # 32 + 15: told apart by the header
BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")
HEX = re.compile(rb"(?:[0-9a-f]{2}){16,}|(?:[0-9A-F]{2}){16,}")
SQLITE_HEADER = b"SQLite format 3\0"


def _needles() -> dict[bytes, str]:
    found = {}
    for text in (TEXT, str(WHOLE), repr(FRACTION)):
        for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
            found[text.encode(encoding)] = f"{text} as {encoding}"
    for value, form in ((WHOLE, "q"), (FRACTION, "d")):
        for order in "<>":
            found[struct.pack(f"{order}{form}", value)] = f"{value} as {order}{form}"
    return found


NEEDLES = _needles()


def find(content: bytes, *, depth: int = DEPTH) -> set[str]:
    """Which canaries are in these bytes, as they are or packed."""
    found = {what for needle, what in NEEDLES.items() if needle in content}
    if depth:
        for inner in _unpacked(content):
            found |= find(inner, depth=depth - 1)
    return found


def search(tree: Path) -> dict[str, set[str]]:
    """Canaries by file, in every file and file name below a directory; a file that vanishes meanwhile is left out."""
    hits = {}
    for path in sorted(tree.rglob("*")):
        with suppress(FileNotFoundError):
            found = find(str(path).encode(), depth=0)
            if path.is_file():
                found |= find(path.read_bytes())
                found |= find(_database(path), depth=0)
            if found:
                hits[str(path.relative_to(tree))] = found
    return hits


def _database(path: Path) -> bytes:
    """All values of an SQLite file with its log, as text."""
    with path.open("rb") as file:
        if file.read(len(SQLITE_HEADER)) != SQLITE_HEADER:
            return b""
    return "\n".join(map(repr, values(path))).encode()


def values(database: Path) -> Iterator[Any]:
    """Every value of every table of an SQLite file."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                yield from row


def numbers_in(text: str) -> set[int]:
    """The whole numbers that stand by themselves in a text."""
    return {int(number) for number in re.findall(r"(?<![\w.])\d{1,18}(?![\w.]\d|\w)", text)}


def _unpacked(content: bytes) -> Iterator[bytes]:
    if content.startswith(PARQUET):
        yield _table_text(lambda: pq.read_table(io.BytesIO(content)))
    if content.startswith(ARROW):
        yield _table_text(lambda: pa.ipc.open_file(content).read_all())
    for codec, magic in (("zstd", ZSTD), ("lz4", LZ4)):
        for start in _places(content, magic):
            with suppress(OSError, pa.ArrowInvalid):
                yield _decompressed(content[start:], codec)
    for match in DEFLATED.finditer(content):
        with suppress(zlib.error):
            yield zlib.decompressobj(wbits=GZIP_OR_ZLIB).decompress(content[match.start() :], LARGEST)
    with suppress(OSError, pa.ArrowInvalid, ValueError):
        yield bytes(pa.decompress(content, decompressed_size=_snappy_size(content), codec="snappy"))
    for match in BASE64.finditer(content):
        text = match[0].rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        for shift in range(4):  # a value may begin anywhere in a longer text
            part = text[shift:]
            with suppress(ValueError):
                yield base64.b64decode(part + b"=" * (-len(part) % 4))
    for match in HEX.finditer(content):
        yield bytes.fromhex(match[0].decode())


def _decompressed(content: bytes, codec: str) -> bytes:
    """Read in pieces: Arrow's pool never gives back the ``LARGEST`` that one read reserves at each place."""
    parts, left = [], LARGEST
    with pa.input_stream(pa.py_buffer(content), compression=codec) as stream:
        while left > 0 and (part := stream.read(min(left, PIECE))):
            parts.append(part)
            left -= len(part)
    return b"".join(parts)


def _places(content: bytes, magic: bytes) -> Iterator[int]:
    start = content.find(magic)
    while start >= 0:
        yield start
        start = content.find(magic, start + 1)


def _snappy_size(content: bytes) -> int:
    """A raw snappy block begins with its length, seven bits a byte; it is never far longer than the block."""
    size = 0
    for index, byte in enumerate(content[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            break
    if not 0 < size <= min(LARGEST, 64 * len(content)):
        raise ValueError("not snappy")
    return size


def _table_text(read: Any) -> bytes:
    try:
        table = read()
    except (OSError, pa.ArrowInvalid):
        return b""
    columns: Mapping[str, list[Any]] = table.to_pydict()
    return repr(columns).encode() + repr(table.schema.metadata).encode()
