"""The key store as files, with the only cryptography of the service."""

from ptkstore.adapters.keys.aead import AesGcmSealer
from ptkstore.adapters.keys.signing import FileSigner, public_hex, public_pem, verifies
from ptkstore.adapters.keys.splitting import split_hash
from ptkstore.adapters.keys.store import FileKeyStore

__all__ = [
    "AesGcmSealer",
    "FileKeyStore",
    "FileSigner",
    "public_hex",
    "public_pem",
    "split_hash",
    "verifies",
]
