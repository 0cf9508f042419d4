"""The raw zone: rows by window, encrypted under the window's key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import IO

import pyarrow as pa

from ptkstore.adapters.objects.names import STAGING, UNFINISHED, checked_token, window_folder
from ptkstore.adapters.objects.parquet import decrypted, encrypted
from ptkstore.adapters.objects.places import place_at
from ptkstore.domain.names import checked_name
from ptkstore.domain.streams.policies import BLOCKS_MAX
from ptkstore.domain.streams.windows import WindowId
from ptkstore.domain.versions.versions import PROBE
from ptkstore.errors import CorruptObject, InvalidRequest, WindowGone
from ptkstore.ports.keys import Sealer


class FsspecRawZone:
    """`RawZone` below a path or URL, in which staging may be too; a local one is for this user alone.

    A window is the folder `<stream>/<index>`, with `batches/<token>.parquet` and `parts/<part>.parquet`. The sealer
    wraps the data keys of files.
    """

    def __init__(self, url: str, sealer: Sealer) -> None:
        self._place = place_at(url, private=True)
        self._sealer = sealer

    @property
    def url(self) -> str:
        """The address of the tree, for another process on it."""
        return self._place.url

    def write_batch(self, window: WindowId, token: str, rows: pa.Table, key: bytes) -> None:
        """Store the rows of one ingest, once."""
        path = _batch_path(window, token)
        if not self._place.exists(path):
            self._place.create(path, encrypted(rows, self._sealer, key, path))

    def read_batches(
        self, window: WindowId, tokens: Sequence[str], key: bytes, noted: Collection[str] = ()
    ) -> Iterator[pa.Table]:
        """Read the rows of those tokens that are stored here, one table per token."""
        paths = {token: _batch_path(window, token) for token in tokens}
        stored = frozenset(self._place.find(_batches_folder(window)))
        if any(path not in stored for token, path in paths.items() if token in noted):
            raise WindowGone("rows that were stored do not exist any more")
        for path in paths.values():
            if path in stored:
                with self._opened(path) as file:
                    yield decrypted(file, self._sealer, key, path, None)

    def write_part(self, window: WindowId, part: int, rows: pa.Table, key: bytes) -> None:
        """Store all rows of one part, in place of what was there."""
        path = _part_path(window, part)
        self._place.replace(path, encrypted(rows, self._sealer, key, path))

    def part_url(self, window: WindowId, part: int) -> str:
        """Return the place of a part's file."""
        return self._place.address(_part_path(window, part))

    def read_part(
        self,
        url: str,
        key: bytes,
        columns: Sequence[str] | None = None,
        hashes: tuple[int, int] | None = None,
    ) -> pa.Table:
        """Read the rows of one part, or some columns of them, or those of a range of hashes."""
        path = self._place.relative(url)
        with self._opened(path) as file:
            return decrypted(file, self._sealer, key, path, columns, hashes)

    def rewrite(self, window: WindowId, change: Callable[[pa.Table], pa.Table], key: bytes) -> None:
        """Put the rows of every file of a window through `change`."""
        damaged = False
        for folder in (_batches_folder(window), _parts_folder(window)):
            self._place.clean(folder)
            for path in self._place.find(folder):
                if path.rpartition("/")[2].startswith(UNFINISHED):  # of a living writer
                    continue
                try:
                    with self._opened(path) as file:
                        rows = decrypted(file, self._sealer, key, path, None)
                except CorruptObject:
                    damaged = True
                    continue
                self._place.replace(path, encrypted(change(rows), self._sealer, key, path))
        if damaged:
            raise CorruptObject("a file of rows is not what was written under its name and key")

    def check_writable(self) -> None:
        """Write a file that nobody reads; raises what a failing store raises."""
        self._place.probe(f"{STAGING}/{PROBE}")

    def windows(self, stream: str) -> tuple[WindowId, ...]:
        """Return the windows of which any file exists."""
        names = self._place.folders(checked_name("stream", stream))
        return tuple(
            WindowId(stream, index) for index in sorted(int(name) for name in names if name.isdecimal())
        )

    def delete_window(self, window: WindowId) -> None:
        """Delete every file of a window, unfinished ones too."""
        self._place.delete(window_folder(window))

    def files(self, stream: str | None = None) -> tuple[str, ...]:
        """Name all files that exist, those of crashed writers too: they hold (encrypted) rows as well."""
        paths = self._place.find("" if stream is None else checked_name("stream", stream))
        return tuple(path for path in paths if not path.startswith(f"{STAGING}/"))

    def ages(self) -> dict[str, float]:
        """Return the ages in seconds of all files of rows, the staging area left out."""
        return {p: age for p, age in self._place.ages("").items() if not p.startswith(f"{STAGING}/")}

    def remove(self, path: str) -> None:
        """Delete one file of rows."""
        self._place.remove(path)

    def _opened(self, path: str) -> IO[bytes]:
        try:
            return self._place.open(path)
        except FileNotFoundError:
            raise WindowGone("these rows do not exist any more") from None


def _batches_folder(window: WindowId) -> str:
    return f"{window_folder(window)}/batches"


def _batch_path(window: WindowId, token: str) -> str:
    return f"{_batches_folder(window)}/{checked_token('batch token', token)}.parquet"


def _parts_folder(window: WindowId) -> str:
    return f"{window_folder(window)}/parts"


def _part_path(window: WindowId, part: int) -> str:
    if type(part) is not int or not 0 <= part < BLOCKS_MAX:
        raise InvalidRequest(f"a part's file is a whole number from 0 to {BLOCKS_MAX - 1}")
    return f"{_parts_folder(window)}/{part}.parquet"
