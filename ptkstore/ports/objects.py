"""Files of the store: the encrypted raw zone, the encrypted staging area in it, and the lake for all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import Version

if TYPE_CHECKING:
    import pyarrow as pa


class RawZone(Protocol):
    """Raw rows, one folder per window, each file encrypted with the window's key and bound to its own name."""

    def write_batch(self, window: WindowId, token: str, rows: pa.Table, key: bytes) -> None:
        """Store the rows of one ingest for one window; durable on return; a repeated token replaces nothing."""

    def read_batches(
        self, window: WindowId, tokens: Sequence[str], key: bytes, noted: Collection[str] = ()
    ) -> Iterator[pa.Table]:
        """Read the stored rows of those tokens that have any in this window, in the order of `tokens`.

        The work of the store grows with this window's files, not with `tokens`. `WindowGone` if a file vanishes
        meanwhile, or one of a token that was `noted` is not there.
        """

    def write_part(self, window: WindowId, part: int, rows: pa.Table, key: bytes) -> None:
        """Store all rows of one part; a repeated call replaces the file whole."""

    def part_url(self, window: WindowId, part: int) -> str:
        """Return the place of a part's file, for a run that has the key."""

    def read_part(
        self,
        url: str,
        key: bytes,
        columns: Sequence[str] | None = None,
        hashes: tuple[int, int] | None = None,
    ) -> pa.Table:
        """Read the rows of one part; `CorruptObject` if the file was changed, `WindowGone` if it is not there.

        With `hashes`, only those whose keyed hash is in this half-open range. If rows are in the order of their
        hashes, little else is read.
        """

    def rewrite(self, window: WindowId, change: Callable[[pa.Table], pa.Table], key: bytes) -> None:
        """Put the rows of every file of a window through `change`, file by file, each replaced whole.

        Files that dead writers left unfinished are deleted. A damaged file does not keep the others from being
        rewritten; `CorruptObject` comes at the end. `WindowGone` if a file vanishes meanwhile.
        """

    def check_writable(self) -> None:
        """Write what nobody reads, enough to tell a full disk; raises `Unavailable` if that cannot be done."""

    def windows(self, stream: str) -> tuple[WindowId, ...]:
        """Return the windows of which any file exists, in order."""

    def delete_window(self, window: WindowId) -> None:
        """Delete every file of a window; repeatable."""

    def files(self, stream: str | None = None) -> tuple[str, ...]:
        """Name all files of rows that exist, for the operator."""

    def ages(self) -> dict[str, float]:
        """Tell how many seconds ago each file of rows was written, by its name."""

    def remove(self, path: str) -> None:
        """Delete one file of rows by its name; repeatable."""


class Staging(Protocol):
    """Outputs of runs before election, encrypted with a key per draft, bound to draft and file name."""

    def write(self, draft_id: str, files: Mapping[str, bytes], key: bytes) -> None:
        """Store a draft whole; durable on return."""

    def read(self, draft_id: str, names: Sequence[str], key: bytes) -> dict[str, bytes]:
        """Read and decrypt files of a draft; `CorruptObject` if one was changed, `UnknownName` if it is gone."""

    def delete(self, draft_id: str) -> None:
        """Delete a draft's files; repeatable."""

    def drafts(self) -> tuple[str, ...]:
        """Name all drafts that exist."""


class Checkpoints(Protocol):
    """The newest instances of each PTK that devices train, encrypted: one file, overwritten."""

    def write(self, ptk_id: str, name: str, content: bytes, key: bytes) -> None:
        """Put a checkpoint of 16 characters' name in the place of the last one, whole; durable on return."""

    def newest(self, ptk_id: str) -> str | None:
        """Return the name of the last checkpoint; None if there is none."""

    def read(self, ptk_id: str, name: str, key: bytes) -> bytes:
        """Return the content of the last checkpoint; `CorruptObject` if it was changed, or is another one."""

    def delete(self, ptk_id: str) -> None:
        """Delete the checkpoint; repeatable."""


class Lake(Protocol):
    """Published states for everyone: written once, manifest last, verified by hash on every read."""

    def put_version(self, version: Version, files: Mapping[str, bytes]) -> None:
        """Place a version: content files first, manifest last, each created exclusively; repeatable.

        Raises `InvariantBroken` if the place has other bytes.
        """

    def holds(self, version: Version) -> bool:
        """Tell whether this very manifest is in its place."""

    def settle(self, version: Version) -> None:
        """Have a manifest that is in its place last there; a failed write of it may have left it undurable."""

    def read_version(self, ptk_id: str, number: int) -> tuple[dict[str, object], dict[str, bytes]]:
        """Read manifest and files, every byte verified; `UnknownName` or `CorruptObject` otherwise."""

    def check_writable(self) -> None:
        """Write as to the raw zone; raises what a store raises that takes no files now."""

    def ptk_ids(self) -> tuple[str, ...]:
        """Name the PTKs of which anything was placed, in order."""

    def ages(self) -> dict[str, float]:
        """Tell how many seconds ago each file of the lake was written, by its path."""

    def manifest(self, ptk_id: str, number: int) -> dict[str, object] | None:
        """Read the manifest of a version, None if there is none; errors as of `listed`."""

    def listed(self, ptk_id: str, number: int) -> frozenset[str] | None:
        """Name the files that belong to a version, manifest included; None without a manifest.

        `CorruptObject` for a manifest that is none, `InvalidRequest` for what is no version.
        """

    def remove(self, path: str) -> None:
        """Delete one file by its path, for what no manifest names; repeatable."""

    def manifest_url(self, ptk_id: str, number: int) -> str:
        """Return the public address of a version's manifest."""
