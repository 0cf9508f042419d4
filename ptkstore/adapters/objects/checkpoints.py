"""Checkpoints of instances: one encrypted file for each PTK, overwritten."""

from __future__ import annotations

from ptkstore.adapters.objects.names import CHECKPOINTS, checked_token
from ptkstore.adapters.objects.places import place_at
from ptkstore.errors import CorruptObject
from ptkstore.ports.keys import Sealer

_NAME_BYTES = 16


class FsspecCheckpoints:
    """`Checkpoints` beside the drafts of a staging area; a local one is for this user alone.

    A file is its name, and then what is sealed and bound to PTK and name.
    """

    def __init__(self, url: str, sealer: Sealer) -> None:
        self._place = place_at(url, private=True)
        self._sealer = sealer

    def write(self, ptk_id: str, name: str, content: bytes, key: bytes) -> None:
        """Put a checkpoint in the place of the last one."""
        sealed = self._sealer.seal(key, content, _bound(ptk_id, name))
        self._place.replace(_path(ptk_id), name.encode() + sealed)

    def newest(self, ptk_id: str) -> str | None:
        """Return the name of the last checkpoint."""
        found = self._found(ptk_id)
        return None if found is None else _name(found)

    def read(self, ptk_id: str, name: str, key: bytes) -> bytes:
        """Return the content of the last checkpoint, which must be this one."""
        found = self._found(ptk_id)
        if found is None or _name(found) != name:
            raise CorruptObject("there is another checkpoint by now")
        return self._sealer.open(key, found[_NAME_BYTES:], _bound(ptk_id, name))

    def delete(self, ptk_id: str) -> None:
        """Delete the file."""
        self._place.remove(_path(ptk_id))

    def _found(self, ptk_id: str) -> bytes | None:
        try:
            return self._place.read(_path(ptk_id))
        except FileNotFoundError:
            return None


def _path(ptk_id: str) -> str:
    return f"{CHECKPOINTS}/{checked_token('PTK id', ptk_id)}"


def _bound(ptk_id: str, name: str) -> str:
    return f"{_path(ptk_id)}@{name}"


def _name(found: bytes) -> str:
    return found[:_NAME_BYTES].decode("ascii", "replace")
