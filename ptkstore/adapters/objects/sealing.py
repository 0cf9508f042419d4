"""What this room asks of cryptography."""

from __future__ import annotations

from typing import Protocol


class Sealer(Protocol):
    """Authenticated encryption of bytes that are bound to a name."""

    def seal(self, key: bytes, plaintext: bytes, bound_to: str) -> bytes:
        """Encrypt so that only the same key and the same `bound_to` open it."""

    def open(self, key: bytes, sealed: bytes, bound_to: str) -> bytes:
        """Decrypt, or raise `CorruptObject`."""
