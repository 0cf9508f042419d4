"""Thrift messages that other readers would read differently, or for ever, are refused."""

from __future__ import annotations

import pytest

from ptkstore.api.rows.thrift import I32, CompactReader, Malformed


def read(message: bytes) -> object:
    return CompactReader(memoryview(message), most_values=10_000, most_structs=10_000).struct(0)


def number(value: int) -> bytes:
    """A signed number, as the protocol writes it."""
    value = value << 1
    written = b""
    while value > 0x7F:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])


def field(number_of_field: int, value: int) -> bytes:
    """A whole number under a field number in long form."""
    return bytes([I32]) + number(number_of_field) + number(value)


def test_a_field_is_read_under_its_number() -> None:
    assert read(field(2, 100) + b"\0") == {2: (I32, 100)}


@pytest.mark.parametrize("wrapped", [65_538, 32_768, 0])
def test_a_field_number_that_others_cut_to_16_bits_is_refused(wrapped: int) -> None:
    with pytest.raises(Malformed):
        read(field(2, 100) + field(wrapped, 160_008) + b"\0")


def test_lists_of_lists_end() -> None:
    with pytest.raises(Malformed):
        read(b"\x19" * 5_001 + b"\0")
