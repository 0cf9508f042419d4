"""Authenticated encryption of small things under a 32-byte key."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ptkstore.errors import CorruptObject

KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16


class AesGcmSealer:
    """AES-256-GCM with a fresh random nonce per message, kept in front of the ciphertext.

    Random 96-bit nonces are safe for 2**32 messages under one key; a key here seals one window or one draft.
    """

    def seal(self, key: bytes, plaintext: bytes, bound_to: str) -> bytes:
        """Encrypt `plaintext` so that it opens only together with the same `bound_to`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + AESGCM(_checked(key)).encrypt(nonce, plaintext, bound_to.encode())

    def open(self, key: bytes, sealed: bytes, bound_to: str) -> bytes:
        """Decrypt; `CorruptObject` for another key, another `bound_to` or changed bytes."""
        if len(sealed) < _NONCE_BYTES + _TAG_BYTES:
            raise CorruptObject("sealed bytes are cut short")
        try:
            return AESGCM(_checked(key)).decrypt(
                sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to.encode()
            )
        except InvalidTag:
            raise CorruptObject("sealed bytes do not belong to this key and name") from None


def _checked(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise CorruptObject(f"a key has {KEY_BYTES} bytes; this one has another length")
    return key
