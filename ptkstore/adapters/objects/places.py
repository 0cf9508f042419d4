"""One tree of files, local or remote, with writes that appear whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Protocol

from ptkstore.adapters.objects.local import LocalPlace
from ptkstore.errors import InvalidRequest


class Place(Protocol):
    """Paths are relative, with `/`, made of checked names. A missing file is `FileNotFoundError`.

    Failures of the storage itself are `Unavailable`, and `OutcomeUnknown` where a write may have happened.
    """

    @property
    def url(self) -> str:
        """The address of the tree's root."""

    def address(self, path: str) -> str:
        """Return the address of a file."""

    def relative(self, address: str) -> str:
        """Return the path of a file from its address; `InvalidRequest` if it is elsewhere."""

    def create(self, path: str, content: bytes) -> bool:
        """Write a new file whole and durably; False, and nothing changed, if the name is taken."""

    def replace(self, path: str, content: bytes) -> None:
        """Write a file whole and durably, in place of what was there."""

    def probe(self, path: str) -> None:
        """Write what shows that files can be written, under a name of its own or beside it."""

    def read(self, path: str) -> bytes:
        """Read all bytes of a file."""

    def open(self, path: str) -> IO[bytes]:
        """Open a file to read parts of it."""

    def exists(self, path: str) -> bool:
        """Tell whether the file is there."""

    def find(self, folder: str) -> tuple[str, ...]:
        """List the sorted paths of all files below a folder, unfinished ones too; none if there is no such folder."""

    def folders(self, folder: str) -> tuple[str, ...]:
        """List the names of the folders right below a folder, sorted."""

    def delete(self, folder: str) -> None:
        """Delete a folder with all its files; repeatable."""

    def ages(self, folder: str) -> dict[str, float]:
        """Tell how many seconds ago each file below a folder was written, unfinished ones too."""

    def age(self, path: str) -> float:
        """Tell how many seconds ago a file was written."""

    def remove(self, path: str) -> None:
        """Delete one file; repeatable."""

    def clean(self, folder: str) -> None:
        """Delete what crashed writers left right in a folder, never what a living one is writing."""


def place_at(url: str, *, private: bool) -> Place:
    """Open the tree at a path, a `file://` URL or any URL that fsspec knows.

    `private` local trees are for this user alone (0700, 0600); others are readable by all (0755, 0644). For
    remote trees the bucket's own policy decides.
    """
    scheme, colon, rest = url.partition("://")
    if not colon or scheme == "file":
        return LocalPlace(Path(rest if colon else url), private=private)
    if not rest.strip("/"):
        raise InvalidRequest(f"{scheme}:// needs a bucket or folder behind it")
    # fsspec: a child on local trees starts without it
    from ptkstore.adapters.objects.remote import RemotePlace

    return RemotePlace(url)
