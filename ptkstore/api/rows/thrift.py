"""Thrift's compact protocol, read within bounds: the format of Parquet's footer and of the headers of its pages."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Struct: TypeAlias = dict[int, tuple[int, Any]]
"""Fields by number, each with its wire type and its value; strings are left out."""

I32: Final = 5
STRUCT: Final = 12
_TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP = 1, 2, 3, 4, 6, 7, 8, 9, 10, 11
_WHOLE: Final = frozenset({_I16, I32, _I64})
_DEEPEST = 12
_FIELDS = 2**15
_LONGEST_NUMBER = 10  # bytes of 64 bits, seven at a time


class Malformed(ValueError):
    """The bytes are no such message, or one that no writer makes."""


class CompactReader:
    """Reads messages from a buffer, one after the other.

    Parameters
    ----------
    most_values, most_structs : int
        What all messages together may hold. A few bytes of a struct become a thousand in a reader of Parquet.
    """

    def __init__(self, buffer: memoryview, *, most_values: int, most_structs: int) -> None:
        self._buffer = buffer
        self._values_left, self._structs_left = most_values, most_structs
        self.place = 0

    def struct(self, place: int) -> Struct:
        """Read the struct that begins there; `place` is behind it then. `Malformed` if there is none."""
        self.place = place
        try:
            return self._struct(_DEEPEST)
        except IndexError:
            raise Malformed("a message ends early") from None

    def _struct(self, deeper: int) -> Struct:
        self._structs_left -= 1
        if self._structs_left < 0 or not deeper:
            raise Malformed("a message has too many parts")
        read: Struct = {}
        number = 0
        while head := self._byte():
            kind = head & 0x0F
            number = number + (head >> 4) if head >> 4 else self._whole()
            # others cut it to 16 bits, and would read another field than this does
            if not 0 < number < _FIELDS:
                raise Malformed("a message has a field with no number")
            if number in read:
                raise Malformed("a message has a field twice")
            read[number] = (kind, self._value(kind, deeper - 1))
        return read

    def _value(self, kind: int, deeper: int) -> Any:
        """Return one field's value; that of a boolean is in its kind."""
        self._values_left -= 1
        if self._values_left < 0:
            raise Malformed("a message has too many values")
        if kind in _WHOLE:
            return self._whole()
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == STRUCT:
            return self._struct(deeper)
        if kind == _BINARY:
            return self._skip(self._unsigned())
        if kind in (_LIST, _SET):
            return self._list(deeper)
        if kind == _BYTE:
            return self._byte()
        if kind == _DOUBLE:
            return self._skip(8)
        raise Malformed("a message has a field of an unknown kind")  # Parquet has no maps

    def _list(self, deeper: int) -> list[Any]:
        if not deeper:
            raise Malformed("a message has too many parts")
        head = self._byte()
        size, kind = head >> 4, head & 0x0F
        if size == 15:
            size = self._unsigned()
        if size > len(self._buffer) - self.place:
            raise Malformed("a list is longer than its message")
        if kind in (_TRUE, _FALSE):
            kind = _BYTE
        return [self._value(kind, deeper - 1) for _ in range(size)]

    def _byte(self) -> int:
        value = self._buffer[self.place]
        self.place += 1
        return value

    def _skip(self, size: int) -> None:
        if size > len(self._buffer) - self.place:
            raise Malformed("a text is longer than its message")
        self.place += size

    def _unsigned(self) -> int:
        value = 0
        for nth in range(_LONGEST_NUMBER):
            byte = self._byte()
            value |= (byte & 0x7F) << 7 * nth
            if byte < 0x80:
                return value
        raise Malformed("a number is too long")

    def _whole(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)


def i32(fields: Struct, number: int) -> int:
    """Read a 32-bit field, or `Malformed`: readers that cut a longer number down would read another one."""
    kind, value = fields.get(number, (0, None))
    if kind != I32 or not -(2**31) <= value < 2**31:
        raise Malformed("a message lacks a number")
    return int(value)


def inner(fields: Struct, number: int) -> Struct:
    """Read a struct in a field, or `Malformed`."""
    kind, value = fields.get(number, (0, None))
    if kind != STRUCT:
        raise Malformed("a message lacks a part")
    struct: Struct = value
    return struct
