"""Files in an object store behind fsspec: conditional puts instead of links."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, cast

from ptkstore.adapters.objects.connecting import connected, fault_code, http_status
from ptkstore.errors import InvalidRequest, OutcomeUnknown, Unavailable

_TAKEN = 412  # a conditional put that lost
_BUSY = 409  # another conditional put to the same name is under way; who wins is open
# an answer that says: nothing was written
_NOT_DONE = frozenset({400, 401, 403, 404, 405, 411, 413, 416, 501})
_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8)


class RemotePlace:
    """A tree of objects below a URL. Objects appear whole: the store sees to it.

    Every change may be repeated: the client library asks again when an answer does not come, and then meets its own
    first put. So a writer that finds a name taken compares the object there with the one to be put. A sealed object
    contains a random nonce, and a published file its hash: equal bytes are the same write.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._fs, self._root, self._faults = connected(self._url)

    @property
    def url(self) -> str:
        """The address of the root."""
        return self._url

    def address(self, path: str) -> str:
        """Return the address of an object."""
        return f"{self._url}/{path}"

    def relative(self, address: str) -> str:
        """Return the path of an object from its address."""
        if not address.startswith(f"{self._url}/"):
            raise InvalidRequest("that file is not in this tree")
        return address.removeprefix(f"{self._url}/")

    def create(self, path: str, content: bytes) -> bool:
        """Put with If-None-Match, so that one of many writers wins; an ambiguous answer is settled by a look."""
        for wait_seconds in _WAITS:
            try:
                with self._errors(writing=True):
                    self._fs.pipe_file(self._full(path), content, mode="create")
                    return True
            except FileExistsError:
                return self._holds(path, content) is True
            except _Busy:
                time.sleep(wait_seconds)
            except OutcomeUnknown:
                with suppress(Unavailable):
                    held = self._holds(path, content)
                    if held is not None:
                        return held
                raise
        raise Unavailable("the object store kept refusing a conditional write")

    def replace(self, path: str, content: bytes) -> None:
        """Put over whatever was there."""
        with self._errors(writing=True):
            self._fs.pipe_file(self._full(path), content)

    def probe(self, path: str) -> None:
        """Put a small object: a store counts requests, and says itself that it is full."""
        self.replace(path, b"probe")

    def read(self, path: str) -> bytes:
        """Read all bytes of an object."""
        with self._errors():
            return cast(bytes, self._fs.cat_file(self._full(path)))

    def open(self, path: str) -> IO[bytes]:
        """Fetch the object whole, so that a failing connection is not taken for a damaged file."""
        return io.BytesIO(self.read(path))

    def exists(self, path: str) -> bool:
        """Tell whether the object is there."""
        with self._errors():
            return bool(self._fs.isfile(self._full(path)))

    def find(self, folder: str) -> tuple[str, ...]:
        """List the paths of all objects below a folder."""
        with self._errors():
            names = self._fs.find(self._full(folder))
        return tuple(sorted(name.removeprefix(f"{self._root}/") for name in names))

    def ages(self, folder: str) -> dict[str, float]:
        """Tell how many seconds ago each object was written, by the store's clock for it and ours for now."""
        with self._errors():
            entries = self._fs.find(self._full(folder), detail=True)
        now = time.time()
        return {
            name.removeprefix(f"{self._root}/"): now - written_at(entry) for name, entry in entries.items()
        }

    def age(self, path: str) -> float:
        """Tell how many seconds ago an object was written, by the same clocks."""
        with self._errors():
            entry = self._fs.info(self._full(path))
        return time.time() - written_at(entry)

    def folders(self, folder: str) -> tuple[str, ...]:
        """First parts of the paths of all objects below a folder."""
        try:
            with self._errors():
                entries = self._fs.ls(self._full(folder), detail=True)
        except FileNotFoundError:
            return ()
        prefix = f"{self._full(folder)}/"
        names = (e["name"].rstrip("/").removeprefix(prefix) for e in entries if e["type"] == "directory")
        return tuple(sorted(name for name in names if name and "/" not in name))

    def delete(self, folder: str) -> None:
        """Delete every object below a folder; an object whose deletion is refused remains."""
        for wait_seconds in _WAITS:
            with self._errors(writing=True):
                names = self._fs.find(self._full(folder))
                if not names:
                    return
                self._fs.rm(names)
                if not self._fs.find(self._full(folder)):
                    return
            time.sleep(wait_seconds)
        raise Unavailable("the object store keeps objects that were to be deleted")

    def remove(self, path: str) -> None:
        """Delete one object; repeatable."""
        with self._errors(writing=True), suppress(FileNotFoundError):
            self._fs.rm_file(self._full(path))

    def clean(self, folder: str) -> None:
        """Do nothing: an unfinished put leaves no object."""

    def _holds(self, path: str, content: bytes) -> bool | None:
        """Whether the object has this content; None if there is none."""
        try:
            return self.read(path) == content
        except FileNotFoundError:
            return None

    @contextmanager
    def _errors(self, *, writing: bool = False) -> Iterator[None]:
        """Vendors' texts name hosts and keys; ours name a code."""
        try:
            yield
        except self._faults as error:
            raised = _translated(error, writing)
        else:
            return
        raise raised from None

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/")


class _Busy(OutcomeUnknown):
    """Another conditional put to the same name is under way."""


def _translated(error: BaseException, writing: bool) -> Exception:
    status, code = http_status(error), fault_code(error)
    if code == "NoSuchBucket":  # not a missing object: rows and versions may well exist
        return Unavailable("the object store does not know the bucket (NoSuchBucket)")
    if isinstance(error, FileExistsError) or (writing and status == _TAKEN):
        return FileExistsError()
    if isinstance(error, FileNotFoundError) and not writing:
        return FileNotFoundError()
    if not writing or status in _NOT_DONE:
        return Unavailable(f"the object store does not answer as it should ({code}); wait and retry")
    kind = _Busy if status == _BUSY else OutcomeUnknown
    return kind(f"the object store failed while something was written ({code}); look before acting")


def written_at(entry: dict[str, object]) -> float:
    """Read when a listed object was written, as a POSIX time; now if the listing does not say."""
    for name in ("LastModified", "mtime", "created"):
        moment = entry.get(name)
        if isinstance(moment, int | float):
            return float(moment)
        if hasattr(moment, "timestamp"):
            return float(moment.timestamp())
    return time.time()
