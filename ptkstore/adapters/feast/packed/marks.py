"""A publisher's word beside the packed rows of a version: whether it is the served one.

A reader who asks for a row asks for this word in the same command. So it may keep what it knows of a view for ever, and
still never answers from a version that is no longer the newest, without a look at the registry.
"""

from __future__ import annotations

from typing import Any

from ptkstore.adapters.feast.packed.keys import MARK_FIELD

SERVED = b"s"
KEPT = b"k"  # superseded; pinned references find it
FORGOTTEN = b"x"  # nobody can name it any more; its rows go soon

_IDENTITY = 16


def identity_of(sha256: str) -> bytes:
    """What tells a version from another one of the same number, after a PTK began again."""
    return sha256[:_IDENTITY].encode()


def set_served(client: Any, hash_key: bytes, identity: bytes) -> None:
    """Say that this version is the newest; nothing if it has no rows here."""
    if client.exists(hash_key):
        client.hset(hash_key, MARK_FIELD, SERVED + identity)


def supersede(client: Any, hash_key: bytes) -> None:
    """Say that there is a newer version."""
    _replace(client, hash_key, SERVED, KEPT)


def forget(client: Any, hash_key: bytes) -> None:
    """Say that nobody can name this version any more."""
    _replace(client, hash_key, KEPT, FORGOTTEN)


def _replace(client: Any, hash_key: bytes, old: bytes, new: bytes) -> None:
    known = client.hget(hash_key, MARK_FIELD)
    if known and known[:1] == old:
        client.hset(hash_key, MARK_FIELD, new + known[1:])
