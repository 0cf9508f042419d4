"""Ed25519 signatures of reports, with a key from the key store."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from ptkstore.adapters.keys import files
from ptkstore.errors import CorruptObject, InvalidRequest

KEY_BYTES = 32
SIGNATURE_BYTES = 64


class FileSigner:
    """`Signer` with one key file, `signing/report.key`, below the key store's directory.

    The key is made at first use. If it is lost, a new one is made, and whoever pinned the old public key sees that.
    """

    def __init__(self, root: Path) -> None:
        self._root = Path(root)

    def public_key(self) -> bytes:
        """Return the public half."""
        return self._key().public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """Make the 64 bytes of a signature; the same for the same message."""
        return self._key().sign(message)

    def _key(self) -> Ed25519PrivateKey:
        files.make_private(self._root)
        room = self._root / "signing"
        files.make_private(room)
        path = room / "report.key"
        with files.locked(room / "report.lock"), files.storage_errors():
            if not path.exists():
                files.create(path, Ed25519PrivateKey.generate().private_bytes_raw())
            content = path.read_bytes()
        if len(content) != KEY_BYTES:
            raise CorruptObject("the signing key's file does not hold a key; restore the key store")
        return Ed25519PrivateKey.from_private_bytes(content)


def verifies(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Tell whether `signature` of `message` is by the owner of `public_key`."""
    if len(public_key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def public_pem(public_key: bytes) -> str:
    """Return the public key as other tools take it."""
    key = Ed25519PublicKey.from_public_bytes(public_key)
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def public_hex(text: str) -> str:
    """Parse a public key from 64 hexadecimal digits or from PEM."""
    try:
        if "BEGIN" not in text:
            key = bytes.fromhex(text.strip())
        else:
            loaded = load_pem_public_key(text.encode())
            key = loaded.public_bytes_raw() if isinstance(loaded, Ed25519PublicKey) else b""
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidRequest("a public key is 64 hexadecimal digits, or a PEM file of an Ed25519 key")
    return key.hex()
