"""The keyed hash that assigns privacy units to parts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from ptkstore.errors import InvalidRequest

UNIT_ID_BYTES = 16


def split_hash(key: bytes, unit_ids: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
    """Return the first 64 bits of AES-256 of each id, little-endian.

    The cipher is a pseudorandom permutation of 128-bit ids; for far fewer than 2**64 ids half of its output
    cannot be told from a random function. Equal ids get equal hashes, as they must.
    """
    if unit_ids.dtype != np.dtype((np.void, UNIT_ID_BYTES)) or unit_ids.ndim != 1:
        raise InvalidRequest(
            f"privacy-unit ids must be a vector of {UNIT_ID_BYTES}-byte values (dtype V{UNIT_ID_BYTES})"
        )
    if not len(unit_ids):
        return np.empty(0, dtype=np.uint64)
    blocks = np.ascontiguousarray(unit_ids).view(np.uint8)
    # update_into asks for room for one more block, less a byte, than it fills.
    room = np.empty(blocks.nbytes + UNIT_ID_BYTES, dtype=np.uint8)
    # ECB is exactly a permutation evaluated at many points, which is what is wanted; no text is hidden by it.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    encryptor.update_into(blocks.data, room.data)
    hashes: npt.NDArray[np.uint64] = room[: blocks.nbytes].view("<u8")[::2].astype(np.uint64)
    return hashes
