"""Staging: outputs of runs before election, each file encrypted under its draft's key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptkstore.adapters.objects.names import CHECKPOINTS, STAGING, checked_token
from ptkstore.adapters.objects.places import place_at
from ptkstore.errors import NameTaken, UnknownName
from ptkstore.ports.keys import Sealer


class FsspecStaging:
    """`Staging` in the tree of a raw zone or another one; a local one is for this user alone.

    A file is `_staging/<draft_id>/<name>`, sealed and bound to draft and name.
    """

    def __init__(self, url: str, sealer: Sealer) -> None:
        self._place = place_at(url, private=True)
        self._sealer = sealer

    @property
    def url(self) -> str:
        """The address of the tree, for another process on it."""
        return self._place.url

    def write(self, draft_id: str, files: Mapping[str, bytes], key: bytes) -> None:
        """Store the files of a draft; the same ones again change nothing, others are `NameTaken`."""
        paths = {name: _path(draft_id, name) for name in files}
        for name, path in paths.items():
            if self._place.create(path, self._sealer.seal(key, files[name], path)):
                continue
            if self.read(draft_id, (name,), key)[name] != files[name]:
                raise NameTaken(f"draft {draft_id!r} has other content already")

    def read(self, draft_id: str, names: Sequence[str], key: bytes) -> dict[str, bytes]:
        """Read and decrypt files of a draft."""
        paths = {name: _path(draft_id, name) for name in names}
        try:
            return {
                name: self._sealer.open(key, self._place.read(path), path) for name, path in paths.items()
            }
        except FileNotFoundError:
            raise UnknownName("draft", draft_id) from None

    def delete(self, draft_id: str) -> None:
        """Delete a draft's files."""
        self._place.delete(_folder(draft_id))

    def drafts(self) -> tuple[str, ...]:
        """Return the ids of all drafts of which any file exists."""
        beside = CHECKPOINTS.rpartition("/")[2]
        return tuple(name for name in self._place.folders(STAGING) if name != beside)


def _folder(draft_id: str) -> str:
    return f"{STAGING}/{checked_token('draft id', draft_id)}"


def _path(draft_id: str, name: str) -> str:
    return f"{_folder(draft_id)}/{checked_token('file name', name)}"
