"""Files in an object store behind fsspec: conditional puts instead of links."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

import fsspec
from fsspec.core import url_to_fs

from ptkstore.errors import InvalidRequest, OutcomeUnknown, Unavailable

_TAKEN = 412  # a conditional put that lost
_BUSY = 409  # another conditional put to the same name is under way; who wins is open
_WAITS = (0.05, 0.1, 0.2, 0.4, 0.8)


class RemotePlace:
    """A tree of objects below a URL. Objects appear whole: the store sees to it."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._fs: fsspec.AbstractFileSystem
        self._fs, self._root = url_to_fs(self._url, use_listings_cache=False)
        self._faults: tuple[type[BaseException], ...] = (OSError, *_client_errors(self._fs))

    @property
    def url(self) -> str:
        """The address of the root."""
        return self._url

    def address(self, path: str) -> str:
        """The address of an object."""
        return f"{self._url}/{path}"

    def relative(self, address: str) -> str:
        """The path of an object from its address."""
        if not address.startswith(f"{self._url}/"):
            raise InvalidRequest("that file does not lie in this tree")
        return address.removeprefix(f"{self._url}/")

    def create(self, path: str, content: bytes) -> bool:
        """Put with If-None-Match, so that one of many writers wins."""
        for wait_seconds in _WAITS:
            with self._errors(writing=True):
                try:
                    self._fs.pipe_file(self._full(path), content, mode="create")
                    return True
                except OSError as error:
                    if isinstance(error, FileExistsError) or _status(error) == _TAKEN:
                        return False
                    if _status(error) != _BUSY:
                        raise
            time.sleep(wait_seconds)
        raise Unavailable("the object store kept refusing a conditional write")

    def replace(self, path: str, content: bytes) -> None:
        """Put over whatever was there."""
        with self._errors(writing=True):
            self._fs.pipe_file(self._full(path), content)

    def read(self, path: str) -> bytes:
        """All bytes of an object."""
        with self._errors():
            return cast(bytes, self._fs.cat_file(self._full(path)))

    def open(self, path: str) -> IO[bytes]:
        """The object, fetched whole, so that a failing connection is not taken for a damaged file."""
        return io.BytesIO(self.read(path))

    def exists(self, path: str) -> bool:
        """Whether the object is there."""
        with self._errors():
            return bool(self._fs.isfile(self._full(path)))

    def find(self, folder: str) -> tuple[str, ...]:
        """Paths of all objects below a folder."""
        with self._errors():
            found = self._fs.find(self._full(folder))
        return tuple(sorted(name.removeprefix(f"{self._root}/") for name in found))

    def folders(self, folder: str) -> tuple[str, ...]:
        """First parts of the paths of all objects below a folder."""
        paths = (path.removeprefix(f"{folder}/") for path in self.find(folder))
        return tuple(sorted({path.partition("/")[0] for path in paths if "/" in path}))

    def delete(self, folder: str) -> None:
        """Delete every object below a folder."""
        with self._errors(writing=True):
            if found := self._fs.find(self._full(folder)):
                self._fs.rm(found)

    def clean(self, folder: str) -> None:
        """Nothing to do: an unfinished put leaves no object."""

    @contextmanager
    def _errors(self, *, writing: bool = False) -> Iterator[None]:
        """Vendors' texts name hosts and keys; ours do not."""
        try:
            yield
        except (FileNotFoundError, FileExistsError):
            raise
        except self._faults:
            if writing:
                raise OutcomeUnknown(
                    "the object store failed while something was written; look before acting"
                ) from None
            raise Unavailable("the object store does not answer as it should; wait and retry") from None

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/")


def _client_errors(filesystem: fsspec.AbstractFileSystem) -> tuple[type[BaseException], ...]:
    """What the client library raises beside `OSError`: connection and credential faults."""
    if "s3" not in filesystem.protocol:
        return ()
    from botocore.exceptions import BotoCoreError, ClientError

    return (BotoCoreError, ClientError)


def _status(error: BaseException) -> int | None:
    """The HTTP status behind an error of s3fs, which wraps the client's own one."""
    response = getattr(error.__cause__ or error, "response", None)
    return response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
