"""The public hash of values: the same on every machine, whatever reads them.

* An integer x, modulo 2**64, has ``mix(x ^ mix(seed + 0x9E3779B97F4A7C15))`` with the finaliser of SplitMix64,
  ``z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *= 0x94D049BB133111EB; z ^= z >> 31``;
* a string has the BLAKE2b digest of its UTF-8 bytes with ``digest_size=8`` and the seed as 16 bytes of ``salt``,
  both little-endian.

Booleans are the integers 0 and 1, floats that are whole numbers are those integers. Everything else is missing.
"""

from collections.abc import Collection
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Bools, Ints
from ptklib.scalars import is_text, is_whole, number_of

Words = npt.NDArray[np.uint64]

_GOLDEN = 0x9E3779B97F4A7C15
_BLOCK = 2**14
_WORD = 2**64 - 1


def hash_integers(words: Words, seed: int) -> Words:
    """Return the hash of each integer, given as its 64 bits."""
    start = _mix(np.array([(seed + _GOLDEN) & _WORD], dtype=np.uint64))
    hashes = np.empty(len(words), dtype=np.uint64)
    for first in range(0, len(words), _BLOCK):  # blocks stay in the processor's cache
        rows = slice(first, first + _BLOCK)
        hashes[rows] = _mix(words[rows] ^ start)
    return hashes


def _mix(z: Words) -> Words:
    """Return the finaliser of SplitMix64, a bijection; `z` is overwritten."""
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def hash_texts(texts: Collection[str], seed: int) -> Words:
    """Return the hash of each string."""
    salted = blake2b(digest_size=8, salt=seed.to_bytes(16, "little"))

    def digest(text: str) -> bytes:
        state = salted.copy()
        state.update(text.encode())
        return state.digest()

    return np.frombuffer(b"".join(map(digest, texts)), dtype="<u8").astype(np.uint64)


def hash_entries(entries: Collection[object], seed: int) -> tuple[Words, Bools]:
    """Return the hash of each entry, strings and integers apart, and which entries have one."""
    hashes = np.zeros(len(entries), dtype=np.uint64)
    texts: dict[str, int] = {}
    text_places, text_codes, word_places, words = list[int](), list[int](), list[int](), list[int]()
    for place, entry in enumerate(entries):
        if is_text(entry):
            text_places.append(place)
            text_codes.append(texts.setdefault(str(entry), len(texts)))
        elif (word := _word(entry)) is not None:
            word_places.append(place)
            words.append(word)
    if texts:  # each distinct one once
        hashes[text_places] = hash_texts(texts, seed)[text_codes]
    hashes[word_places] = hash_integers(np.array(words, dtype=np.uint64), seed)
    valid = np.zeros(len(entries), dtype=np.bool_)
    valid[text_places + word_places] = True
    return hashes, valid


def buckets_of(hashes: Words, width: int) -> Ints:
    """Return the bucket of each hash: the rest by the number of buckets."""
    return np.asarray((hashes % np.uint64(width)).view(np.int64))


def _word(value: object) -> int | None:
    """Return the 64 bits of an entry that is an integer or equal to one."""
    number = int(value) if isinstance(value, bool | np.bool_) else number_of(value)
    if number is None or (isinstance(number, float) and not is_whole(number)):
        return None
    return int(number) & _WORD
