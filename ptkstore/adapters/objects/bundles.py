"""Bundles of team code, beside the states that they made."""

from __future__ import annotations

from typing import Final

from ptkstore.adapters.objects.places import place_at
from ptkstore.domain.bundles import checked_sha256, sha256_of
from ptkstore.errors import CorruptObject, UnknownName

FOLDER: Final = "bundles"


class FsspecBundles:
    """`Bundles` in the lake: who may read a state may read the code that made it.

    Parameters
    ----------
    url : str
        The lake's path or URL.
    """

    def __init__(self, url: str) -> None:
        self._place = place_at(url, private=False)

    def put(self, content: bytes) -> str:
        """Store a bundle; repeating changes nothing."""
        sha256 = sha256_of(content)
        if not self._place.create(_path(sha256), content):
            self.get(sha256)
        return sha256

    def get(self, sha256: str) -> bytes:
        """A bundle, held against its name."""
        try:
            content = self._place.read(_path(sha256))
        except FileNotFoundError:
            raise UnknownName("bundle", sha256) from None
        if sha256_of(content) != sha256:
            raise CorruptObject(f"bundle {sha256} is not what was stored")
        return content


def _path(sha256: str) -> str:
    return f"{FOLDER}/{checked_sha256(sha256)}.tar"
