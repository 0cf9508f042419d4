"""The signing key: made once, kept for this user alone, and what it signs anybody can check."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ptkstore.adapters.keys import FileKeyStore, FileSigner, public_hex, public_pem, verifies
from ptkstore.errors import CorruptObject, InvalidRequest

MESSAGE = b"report"


def test_the_key_is_made_once_and_kept(tmp_path: Path) -> None:
    first = FileSigner(tmp_path / "keys")
    again = FileSigner(tmp_path / "keys")
    assert first.public_key() == again.public_key()
    assert first.sign(MESSAGE) == again.sign(MESSAGE)
    assert FileSigner(tmp_path / "other").public_key() != first.public_key()


def test_many_at_once_make_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: FileSigner(tmp_path / "keys").public_key(), range(32)))
    assert len(keys) == 1


def test_nobody_else_may_read_the_key(tmp_path: Path) -> None:
    FileSigner(tmp_path / "keys").public_key()
    key = tmp_path / "keys" / "signing" / "report.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    key.parent.chmod(0o755)
    with pytest.raises(InvalidRequest):
        FileSigner(tmp_path / "keys").sign(MESSAGE)


def test_it_lives_beside_the_other_keys(tmp_path: Path) -> None:
    store = FileKeyStore(tmp_path / "keys")
    store.create_stream("taxi")
    FileSigner(tmp_path / "keys").public_key()
    assert FileKeyStore(tmp_path / "keys").split_key("taxi") == store.split_key("taxi")


def test_a_file_that_holds_no_key_signs_nothing(tmp_path: Path) -> None:
    FileSigner(tmp_path / "keys").public_key()
    (tmp_path / "keys" / "signing" / "report.key").write_bytes(b"short")
    with pytest.raises(CorruptObject):
        FileSigner(tmp_path / "keys").public_key()


def test_a_signature_fits_one_message_and_one_key(tmp_path: Path) -> None:
    signer, other = FileSigner(tmp_path / "keys"), FileSigner(tmp_path / "other")
    key, signature = signer.public_key(), signer.sign(MESSAGE)
    assert verifies(key, MESSAGE, signature)
    assert not verifies(key, MESSAGE + b".", signature)
    assert not verifies(other.public_key(), MESSAGE, signature)
    for place in range(len(signature)):
        changed = bytearray(signature)
        changed[place] ^= 1
        assert not verifies(key, MESSAGE, bytes(changed))
    for wrong in (b"", signature[:-1], signature + b"\0"):
        assert not verifies(key, MESSAGE, wrong)
    for wrong in (b"", key[:-1], b"\xff" * 32):
        assert not verifies(wrong, MESSAGE, signature)


def test_a_public_key_is_given_as_pem_or_as_digits(tmp_path: Path) -> None:
    key = FileSigner(tmp_path / "keys").public_key()
    assert (
        public_hex(public_pem(key))
        == public_hex(key.hex())
        == public_hex(f" {key.hex().upper()}\n")
        == key.hex()
    )
    exchange = X25519PrivateKey.generate().public_key()
    pem = exchange.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    secret = Ed25519PrivateKey.generate().private_bytes_raw().hex()
    for wrong in (
        "",
        "xyz",
        key.hex()[:-2],
        secret + "00",
        pem,
        "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----",
    ):
        with pytest.raises(InvalidRequest, match="64 hexadecimal digits"):
            public_hex(wrong)
