"""Signing: who keeps the key that reports are signed with."""

from __future__ import annotations

from typing import Protocol


class Signer(Protocol):
    """One signing key of the store, made at first use and kept for its life."""

    def public_key(self) -> bytes:
        """The 32 bytes that verify what `sign` makes."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of exactly these bytes."""
        ...
