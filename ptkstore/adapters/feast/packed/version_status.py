"""A version's status, stored beside its packed rows: served, kept or forgotten.

A reader fetches the status in the same command as the rows. So it can cache what it knows of a view for ever and never
answers from an outdated version, without a look at the registry.
"""

from __future__ import annotations

from typing import Any

from ptkstore.adapters.feast.packed.keys import STATUS_FIELD

SERVED = b"s"
KEPT = b"k"  # superseded; pinned references find it
FORGOTTEN = b"x"  # nobody can name it any more; its rows go soon

_IDENTITY = 16


def identity_of(sha256: str) -> bytes:
    """Return the bytes that tell two versions of one number apart, after a PTK began again."""
    return sha256[:_IDENTITY].encode()


def set_served(client: Any, hash_key: bytes, identity: bytes) -> None:
    """Store that this version is the newest; do nothing if it has no rows here."""
    if client.exists(hash_key):
        client.hset(hash_key, STATUS_FIELD, SERVED + identity)


def supersede(client: Any, hash_key: bytes) -> None:
    """Store that there is a newer version."""
    _replace(client, hash_key, SERVED, KEPT)


def forget(client: Any, hash_key: bytes) -> None:
    """Store that nobody can name this version any more."""
    _replace(client, hash_key, KEPT, FORGOTTEN)


def _replace(client: Any, hash_key: bytes, old: bytes, new: bytes) -> None:
    status = client.hget(hash_key, STATUS_FIELD)
    if status and status[:1] == old:
        client.hset(hash_key, STATUS_FIELD, new + status[1:])
