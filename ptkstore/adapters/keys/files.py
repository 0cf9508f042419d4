"""Durable files of secrets: created once, destroyed for ever, one writer at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ptkstore.errors import InvalidRequest, OutcomeUnknown, Unavailable

_NEW = ".new"
_POLL_SECONDS = 0.05


class Held(Unavailable):
    """Somebody else has held a lock for too long."""


@contextmanager
def storage_errors(*, may_be_done: bool = False) -> Iterator[None]:
    """Raise `Unavailable` where the file system fails, and `OutcomeUnknown` where the step may be done."""
    try:
        yield
    except OSError as error:
        why = errno.errorcode.get(error.errno or 0, "?")
        if may_be_done:
            raise OutcomeUnknown(
                f"the file system of the key store failed at its work ({why}); look before acting"
            ) from None
        raise Unavailable(f"the file system of the key store refuses to work ({why})") from None


@storage_errors()
def make_private(directory: Path) -> None:
    """Make a directory for this user alone, durable; refuse one that others may enter."""
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.mkdir(directory, 0o700)
        sync(directory.parent)
    status = directory.stat()
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise InvalidRequest("the key directory must belong to the service's user and have mode 0700")


@contextmanager
def locked(path: Path, *, shared: bool = False, at_most_seconds: float | None = None) -> Iterator[None]:
    """Lock the file `path` against other threads and processes; the lock ends with its holder.

    Those who share it hold it together. Waits for ever, or raises `Held` after `at_most_seconds`.
    """
    with storage_errors():
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        with storage_errors():
            if at_most_seconds is None:
                fcntl.flock(descriptor, kind)
            else:
                _lock_within(descriptor, kind, at_most_seconds)
        yield
    finally:
        os.close(descriptor)


def _lock_within(descriptor: int, kind: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise Held("somebody else has held this for too long; wait and retry") from None
            time.sleep(_POLL_SECONDS)


def create(path: Path, content: bytes) -> None:
    """Create a file whole and synced, under the lock of its place; `FileExistsError` if it is there.

    The name appears only after the content is on disk. A crash may leave a twin of the file behind: the next
    `create`, `replace` or `destroy` of this name removes it.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "a key is made once")
    twin = _written(path, content)
    with storage_errors(), _gone_if_refused(twin):
        os.link(twin, path)
    with storage_errors(may_be_done=True):
        twin.unlink()
        sync(path.parent)


def replace(path: Path, content: bytes) -> None:
    """Put new content in the place of a file, all of it or nothing, synced."""
    twin = _written(path, content)
    with storage_errors(), _gone_if_refused(twin):
        os.replace(twin, path)
    with storage_errors(may_be_done=True):
        sync(path.parent)


def append(path: Path, content: bytes) -> None:
    """Write content behind that of a file, synced; a crash may leave a part of it."""
    with storage_errors():
        is_new = not path.exists()
        _write(path, content, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if is_new:
            sync(path.parent)


def probe(path: Path, content: bytes) -> None:
    """Write and delete a file that nobody reads, under a lock of its own."""
    twin = _written(path, content)
    with storage_errors():
        twin.unlink()


def destroy(path: Path) -> None:
    """Overwrite, unlink and sync a file and its twin; repeatable.

    Overwriting reaches the old bytes on storage that writes in place; elsewhere unlinking is what counts.
    """
    with storage_errors(may_be_done=True):
        for victim in (path, _twin(path)):
            with suppress(FileNotFoundError):
                _overwrite(victim)
                victim.unlink()
        sync(path.parent)


def sync(directory: Path) -> None:
    """Make the names of a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _twin(path: Path) -> Path:
    return path.with_name(path.name + _NEW)


def _written(path: Path, content: bytes) -> Path:
    """Write and sync the twin with this content; leave none if that fails."""
    twin = _twin(path)
    with storage_errors(), _gone_if_refused(twin):
        twin.unlink(missing_ok=True)
        _write(twin, content, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    return twin


@contextmanager
def _gone_if_refused(twin: Path) -> Iterator[None]:
    """Leave no half-written key behind."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            twin.unlink()
        raise


def _overwrite(path: Path) -> None:
    _write(path, bytes(path.stat().st_size), os.O_WRONLY)


def _write(path: Path, content: bytes, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
