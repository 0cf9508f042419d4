"""Files on a local file system: temporary name, sync, link, sync."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ptkstore.adapters.objects.names import UNFINISHED
from ptkstore.domain.versions.versions import PROBE_BYTES
from ptkstore.errors import InvalidRequest, OutcomeUnknown, Unavailable

_TRIES = 100


class LocalPlace:
    """A tree of files below a directory."""

    def __init__(self, root: Path, *, private: bool) -> None:
        self._root = root.absolute()
        self._private = private

    @property
    def url(self) -> str:
        """The absolute path of the root."""
        return str(self._root)

    def address(self, path: str) -> str:
        """Return the absolute path of a file."""
        return str(self._root / path)

    def relative(self, address: str) -> str:
        """Return the path of a file from its absolute path."""
        prefix = f"{self._root}/"
        if not address.startswith(prefix) or ".." in address.split("/"):
            raise InvalidRequest("that file is not in this tree")
        return address.removeprefix(prefix)

    def create(self, path: str, content: bytes) -> bool:
        """Link a synced temporary file to a name that must be free."""
        return self._place(path, content, _link)

    def replace(self, path: str, content: bytes) -> None:
        """Rename a synced temporary file over a name."""
        self._place(path, content, _rename)

    def probe(self, path: str) -> None:
        """Write and delete a temporary file of a size that a full disk does not take; its name never appears."""
        self.clean(path.rpartition("/")[0])
        self._place(path, secrets.token_bytes(PROBE_BYTES), _drop)

    def read(self, path: str) -> bytes:
        """Read all bytes of a file."""
        return (self._root / path).read_bytes()

    def open(self, path: str) -> IO[bytes]:
        """Open a file to read parts of it."""
        return (self._root / path).open("rb")

    def exists(self, path: str) -> bool:
        """Tell whether the file is there."""
        return (self._root / path).is_file()

    def find(self, folder: str) -> tuple[str, ...]:
        """List the paths of all files below a folder."""
        paths = []
        for directory, _, names in os.walk(self._root / folder):
            paths += [str((Path(directory) / name).relative_to(self._root)) for name in names]
        return tuple(sorted(paths))

    def folders(self, folder: str) -> tuple[str, ...]:
        """List the names of the directories right below a directory."""
        for _, names, _ in os.walk(self._root / folder):
            return tuple(sorted(names))
        return ()

    def delete(self, folder: str) -> None:
        """Delete a directory tree, also one that a writer still works in."""
        victim = self._root / folder
        with _deleting():
            for _ in range(_TRIES):
                try:
                    shutil.rmtree(victim)
                except FileNotFoundError:
                    if not victim.exists():
                        break
                except OSError as error:
                    if error.errno != errno.ENOTEMPTY:
                        raise
            else:
                raise Unavailable("a folder could not be emptied: others keep writing to it")
            if victim.parent.is_dir():
                _sync(victim.parent)

    def ages(self, folder: str) -> dict[str, float]:
        """Tell how many seconds ago each file below a directory was written."""
        ages = {}
        for path in self.find(folder):
            with suppress(FileNotFoundError):
                ages[path] = self.age(path)
        return ages

    def age(self, path: str) -> float:
        """Tell how many seconds ago a file was written."""
        return time.time() - (self._root / path).stat().st_mtime

    def remove(self, path: str) -> None:
        """Delete one file."""
        victim = self._root / path
        with _deleting():
            victim.unlink(missing_ok=True)
            if victim.parent.is_dir():
                _sync(victim.parent)

    def clean(self, folder: str) -> None:
        """Delete temporary files without a lock of their writer, which means that it is dead."""
        for leftover in (self._root / folder).glob(f"{UNFINISHED}*"):
            with suppress(FileNotFoundError, BlockingIOError), leftover.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()

    def _place(self, path: str, content: bytes, put: Callable[[Path, Path], bool]) -> bool:
        target = self._root / path
        for _ in range(_TRIES):
            done = False
            try:
                self._make(target.parent)
                with self._unfinished(target.parent, content) as temporary:
                    done = put(temporary, target)
                _sync(target.parent)
                return done
            except FileNotFoundError:  # the folder, or the temporary file before it was locked, was deleted
                continue
            except OSError as error:
                raise _told(error, may_be_done=done) from None
        raise Unavailable("a file could not be written: its folder keeps vanishing")

    def _make(self, directory: Path) -> None:
        """Make the directory and those above it up to the root; mend a mode that a crash left too narrow."""
        if directory == self._root:
            directory.parent.mkdir(parents=True, exist_ok=True)
        else:
            self._make(directory.parent)
        if not directory.is_dir():
            with suppress(FileExistsError):
                directory.mkdir(0o700)
            _sync(directory.parent)
        if not self._private and directory.stat().st_mode & 0o055 != 0o055:
            directory.chmod(0o755)

    @contextmanager
    def _unfinished(self, directory: Path, content: bytes) -> Iterator[Path]:
        temporary = directory / f"{UNFINISHED}{secrets.token_hex(8)}"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                file.write(content)
                file.flush()
                os.fchmod(descriptor, 0o600 if self._private else 0o644)
                os.fsync(descriptor)
                yield temporary
            except BlockingIOError:
                raise FileNotFoundError from None  # a cleaner was faster than our lock
            finally:
                temporary.unlink(missing_ok=True)


@contextmanager
def _deleting() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _told(error, may_be_done=True) from None


def _told(error: OSError, *, may_be_done: bool) -> Unavailable | OutcomeUnknown:
    why = errno.errorcode.get(error.errno or 0, "?")
    if may_be_done:  # the name is there, or gone; a crash may still undo it
        return OutcomeUnknown(f"the file system failed at its work ({why}); look before acting")
    return Unavailable(f"the file system refuses to write ({why})")


def _link(temporary: Path, target: Path) -> bool:
    """Whether the name is new; the others tell, too, whether anything that lasts was changed."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    return True


def _rename(temporary: Path, target: Path) -> bool:
    os.replace(temporary, target)
    return True


def _drop(temporary: Path, target: Path) -> bool:
    return False


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
