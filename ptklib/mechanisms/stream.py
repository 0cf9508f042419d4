"""Random bytes in bulk: AES-256 in counter mode under a key from the operating system."""

import os

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_ZEROS = memoryview(bytes(2**18))


class KeyStream:
    """A stream of independent uniform bytes, for one piece of work in one process.

    Notes
    -----
    A stream is made where it is used and dropped with that work; nothing keeps one. So there is no generator a
    forked worker could inherit, and no key that could tell yesterday's noise.
    """

    def __init__(self) -> None:
        key, counter = os.urandom(32), bytes(16)  # a key serves once, so counting may start at 0
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()

    def octets(self, n: int) -> npt.NDArray[np.uint8]:
        """Return `n` bytes."""
        zeros = _ZEROS[:n] if n <= len(_ZEROS) else bytes(n)
        return np.frombuffer(self._encryptor.update(zeros), dtype=np.uint8)

    def words(self, n: int) -> npt.NDArray[np.uint64]:
        """Return `n` integers of 64 bits."""
        return self.octets(8 * n).view(np.uint64)

    def word(self) -> int:
        """Return one integer of 64 bits."""
        return int(self.words(1)[0])
