from __future__ import annotations

import pytest

from ptkstore.adapters.keys import AesGcmSealer
from ptkstore.errors import CorruptObject

KEY = bytes(range(32))


def test_what_was_sealed_opens_with_the_same_key_and_name() -> None:
    sealer = AesGcmSealer()
    assert sealer.open(KEY, sealer.seal(KEY, b"secret", "a/b"), "a/b") == b"secret"
    assert sealer.open(KEY, sealer.seal(KEY, b"", ""), "") == b""


def test_sealing_twice_gives_other_bytes_and_never_the_plain_ones() -> None:
    sealer = AesGcmSealer()
    sealed = [sealer.seal(KEY, b"a-plain-text", "n") for _ in range(2)]
    assert sealed[0] != sealed[1]
    assert not any(b"plain" in text for text in sealed)


def test_every_changed_byte_is_refused() -> None:
    sealer = AesGcmSealer()
    sealed = sealer.seal(KEY, b"secret", "a/b")
    for position in range(len(sealed)):
        changed = sealed[:position] + bytes([sealed[position] ^ 1]) + sealed[position + 1 :]
        with pytest.raises(CorruptObject):
            sealer.open(KEY, changed, "a/b")
    for length in range(len(sealed)):
        with pytest.raises(CorruptObject):
            sealer.open(KEY, sealed[:length], "a/b")


def test_another_key_another_name_and_no_key_are_refused() -> None:
    sealer = AesGcmSealer()
    sealed = sealer.seal(KEY, b"secret", "a/b")
    for key, name in ((KEY[::-1], "a/b"), (KEY, "a/c"), (b"", "a/b"), (KEY[:16], "a/b")):
        with pytest.raises(CorruptObject):
            sealer.open(key, sealed, name)
