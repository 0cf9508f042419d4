from __future__ import annotations

import secrets
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from ptkstore.adapters.keys import FileKeyStore, split_hash
from ptkstore.errors import InvalidRequest, UnknownName


def ids(count: int) -> npt.NDArray[np.void]:
    return np.frombuffer(secrets.token_bytes(16 * count), dtype="V16")


def test_it_is_aes_of_each_id_first_half_little_endian(root: Path, store: FileKeyStore) -> None:
    key = (root / "streams/taxi.split").read_bytes()
    units = ids(5)
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    expected = [int.from_bytes(encryptor.update(unit.tobytes())[:8], "little") for unit in units]
    hashes = split_hash(store.split_key("taxi"), units)
    assert hashes.dtype == np.uint64
    assert hashes.tolist() == expected


def test_it_depends_on_nothing_but_stream_and_id(root: Path, store: FileKeyStore) -> None:
    units = ids(100)
    hashes = split_hash(store.split_key("taxi"), units)
    assert np.array_equal(split_hash(FileKeyStore(root).split_key("taxi"), units[::-1])[::-1], hashes)
    assert np.array_equal(split_hash(store.split_key("taxi"), units[7:9]), hashes[7:9])
    store.create_stream("bikes")
    assert not np.any(split_hash(store.split_key("bikes"), units) == hashes)


def test_it_is_uniform_on_64_bits(store: FileKeyStore) -> None:  # false alarm once in 10**6 runs
    counting = np.zeros((200_000, 2), dtype="<u8")
    counting[:, 0] = np.arange(200_000)
    hashes = split_hash(store.split_key("taxi"), counting.view("V16").ravel())
    assert stats.kstest(hashes.astype(np.float64) / 2.0**64, "uniform").pvalue > 1e-6
    for bit in (0, 31, 63):
        ones = int((hashes >> np.uint64(bit) & np.uint64(1)).sum())
        assert stats.binomtest(ones, len(hashes)).pvalue > 1e-6 / 3


def test_no_ids_give_no_hashes(store: FileKeyStore) -> None:
    hashes = split_hash(store.split_key("taxi"), np.empty(0, dtype="V16"))
    assert hashes.shape == (0,)
    assert hashes.dtype == np.uint64


@pytest.mark.parametrize(
    "wrong", [np.zeros(3, dtype="V15"), np.zeros((2, 2), dtype="V16"), np.zeros(4, np.uint8)]
)
def test_other_shapes_and_widths_are_refused(store: FileKeyStore, wrong: npt.NDArray[np.void]) -> None:
    with pytest.raises(InvalidRequest, match="V16"):
        split_hash(store.split_key("taxi"), wrong)


def test_an_unknown_stream_has_no_split_key(store: FileKeyStore) -> None:
    with pytest.raises(UnknownName):
        store.split_key("bikes")
