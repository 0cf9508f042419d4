"""Bundles of team code, beside the states that they made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ptkstore.adapters.objects.places import place_at
from ptkstore.domain.names import checked_name
from ptkstore.domain.ptks.bundles import BUNDLES, bundle_path, checked_sha256, sha256_of
from ptkstore.errors import CorruptObject, UnknownName

_CLAIM: Final = re.compile(r"([0-9a-f]{64})-([0-9]{1,9})", re.ASCII)


class FsspecBundles:
    """`Bundles` in the lake: who may read a state may read the code that made it.

    The owners of a bundle are recorded beside it, as empty files that are named by team, bundle and size.
    """

    def __init__(self, url: str) -> None:
        self._place = place_at(url, private=False)

    def put(self, content: bytes) -> str:
        """Store a bundle; one that is there is young again, and whole if it was damaged."""
        sha256 = sha256_of(content)
        self._place.replace(bundle_path(sha256), content)
        return sha256

    def get(self, sha256: str) -> bytes:
        """Read a bundle and check it against its name."""
        try:
            content = self._place.read(bundle_path(checked_sha256(sha256)))
        except FileNotFoundError:
            raise UnknownName("bundle", sha256) from None
        if sha256_of(content) != sha256:
            raise CorruptObject(f"bundle {sha256} is not what was stored")
        return content

    def age(self, sha256: str) -> float:
        """Tell how many seconds ago a bundle was put."""
        try:
            return self._place.age(bundle_path(checked_sha256(sha256)))
        except FileNotFoundError:
            raise UnknownName("bundle", sha256) from None

    def claim(self, team: str, sha256: str, n_bytes: int) -> None:
        """Count a bundle as a team's; repeatable, and then young again."""
        self._place.replace(_claim_path(team, sha256, n_bytes), b"")

    def disclaim(self, team: str, sha256: str, n_bytes: int) -> None:
        """Count it no longer; repeatable."""
        self._place.remove(_claim_path(team, sha256, n_bytes))

    def claimed(self, team: str) -> Mapping[str, int]:
        """Return the size of each bundle that counts as a team's."""
        names = (path.rpartition("/")[2] for path in self._place.find(_folder(team)))
        return {claim[1]: int(claim[2]) for claim in map(_CLAIM.fullmatch, names) if claim}

    def drop_claims(self, team: str, older_than: float) -> None:
        """Count no longer what is older than so many seconds and has no bundle."""
        files = self._place.ages(BUNDLES)
        for path, age in files.items():
            claim = _CLAIM.fullmatch(path.removeprefix(f"{_folder(team)}/"))
            if claim and age >= older_than and bundle_path(claim[1]) not in files:
                self._place.remove(path)


def _claim_path(team: str, sha256: str, n_bytes: int) -> str:
    return f"{_folder(team)}/{checked_sha256(sha256)}-{n_bytes}"


def _folder(team: str) -> str:
    return f"{BUNDLES}/teams/{checked_name('team', team)}"
