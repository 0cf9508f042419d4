"""Writes and reads as commands and replies, the same for a blocking and for an asynchronous client.

Each function here is a generator: it yields a batch of commands, is sent their replies, and returns its result.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from feast.protos.feast.types.Value_pb2 import Value
from feast.value_type import ValueType

from ptkstore.adapters.feast.packed.keys import LAYOUT_FIELD
from ptkstore.adapters.feast.packed.layout import Layout, Layouts
from ptkstore.adapters.feast.packed.messages import cells, layout_of
from ptkstore.adapters.feast.packed.reading import values_of

Command = tuple[Any, ...]
Work = Generator[list[Command], list[Any], Any]

AT_ONCE = 2_000  # rows per command: a few milliseconds of Redis, which does one thing at a time
_PER_SCRIPT = 500

# Sets each row only if it is still what the writer read; answers the fields that are not.
_SET_UNCHANGED = """
local changed = {}
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
for i = 3, #ARGV, 3 do
  if (redis.call('HGET', KEYS[1], ARGV[i]) or '') == ARGV[i + 1] then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2])
  else
    changed[#changed + 1] = ARGV[i]
  end
end
return changed
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A row to write."""

    field: bytes
    micros: int
    values: Mapping[str, Value]


def read(hash_key: bytes, fields: Sequence[bytes], layouts: Layouts) -> Work:
    """Read packed rows of one hash, and all layouts needed to decode them."""
    (rows,) = yield [("HMGET", hash_key, *fields)]
    yield from learn(hash_key, rows, layouts)
    return rows


def read_several(wanted: Sequence[tuple[bytes, Sequence[bytes]]], layouts: Layouts) -> Work:
    """Read packed rows of several hashes, in one round trip if their layouts are known."""
    replies = yield [("HMGET", hash_key, *fields) for hash_key, fields in wanted]
    for (hash_key, _), rows in zip(wanted, replies, strict=True):
        yield from learn(hash_key, rows, layouts)
    return replies


def learn(hash_key: bytes, rows: Sequence[bytes | None], layouts: Layouts) -> Work:
    """Fetch the layouts of rows that this process has not met."""
    if ids := layouts.unknown(rows):
        (texts,) = yield [("HMGET", hash_key, *(LAYOUT_FIELD + wanted for wanted in ids))]
        for wanted, text in zip(ids, texts, strict=True):
            layouts.learn(wanted, text)


def write(hash_key: bytes, rows: Sequence[Row], declared: Mapping[str, ValueType]) -> Work:
    """Put whole rows, whatever was there; of two rows of one key the later in the list."""
    layout = layout_of((row.values for row in rows), declared)
    packed = [layout.pack(row.micros, cells(layout, row.values)) for row in rows]
    yield from put(hash_key, layout, [row.field for row in rows], packed)


def put(hash_key: bytes, layout: Layout, fields: Sequence[bytes], packed: Sequence[bytes]) -> Work:
    """Put packed rows."""
    commands: list[Command] = [("HSET", hash_key, LAYOUT_FIELD + layout.id, layout.text)]
    for start in range(0, len(fields), AT_ONCE):
        pairs: list[bytes] = [b""] * (2 * len(fields[start : start + AT_ONCE]))
        pairs[0::2] = fields[start : start + AT_ONCE]
        pairs[1::2] = packed[start : start + AT_ONCE]
        commands.append(("HSET", hash_key, *pairs))
    yield commands


def merge(
    hash_key: bytes,
    rows: Sequence[Row],
    declared: Mapping[str, ValueType],
    layouts: Layouts,
    *,
    newer_only: bool,
) -> Work:
    """Put rows over those that are there, feature by feature.

    A row that somebody else changed meanwhile is read and merged again: no write is lost.

    Parameters
    ----------
    hash_key, rows, declared : bytes, sequence of Row, mapping of str to ValueType
        The hash of the view's version, the rows to merge, and the types of the view's features.
    layouts : Layouts
        Learns the layouts that are met.
    newer_only : bool
        Drop rows that are not newer than the stored ones.
    """
    pending: dict[bytes, list[Row]] = {}
    for row in rows:
        pending.setdefault(row.field, []).append(row)
    while pending:
        stored = yield from read(hash_key, list(pending), layouts)
        changes = []
        for (field, wanted), old in zip(pending.items(), stored, strict=True):
            merged = _merged(wanted, None if old is None else values_of(old, layouts), newer_only)
            if merged is not None:
                changes.append((field, old, merged))
        if not changes:
            return
        layout = layout_of((merged[1] for _, _, merged in changes), declared)
        layouts.add(layout)
        commands: list[Command] = []
        for start in range(0, len(changes), _PER_SCRIPT):
            arguments: list[bytes] = [LAYOUT_FIELD + layout.id, layout.text]
            for field, old, (micros, values) in changes[start : start + _PER_SCRIPT]:
                arguments += [field, old or b"", layout.pack(micros, cells(layout, values))]
            commands.append(("EVAL", _SET_UNCHANGED, 1, hash_key, *arguments))
        replies = yield commands
        changed = {field for reply in replies for field in reply}
        pending = {field: wanted for field, wanted in pending.items() if field in changed}


def _merged(
    rows: Sequence[Row], old: tuple[int, dict[str, Value]] | None, newer_only: bool
) -> tuple[int, dict[str, Value]] | None:
    """Return the row after all of `rows`; None if nothing changes."""
    changed = False
    for row in rows:
        if newer_only and old is not None and row.micros <= old[0]:
            continue
        old = (row.micros, {**(old[1] if old is not None else {}), **row.values})
        changed = True
    return old if changed else None
