"""Folders that become a version whole, in one step, whoever else writes it or is killed on the way."""

from __future__ import annotations

import errno
import filecmp
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ptkstore.adapters.feast.files import exchange, sync_folder
from ptkstore.errors import Unavailable

_ABANDONED_SECONDS = 3_600.0  # of a process that was killed
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)
"""How a file system refuses a folder's new name where something lies already."""


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Raise `Unavailable` where the file system fails."""
    try:
        yield
    except OSError as error:
        raise unavailable(target, "written", error) from None


def unavailable(path: Path, done: str, error: OSError) -> Unavailable:
    """Describe a failing file system; the error's own text would show a path of this machine."""
    why = errno.errorcode.get(error.errno or 0, "?")
    return Unavailable(f"the history of {name_of(path)} cannot be {done} ({why})")


def name_of(path: Path) -> str:
    """View and version of a version's path, or of a part in it."""
    version = path if path.name.startswith("v") else path.parent
    return f"{version.parent.name} v{number_of(version)}"


def number_of(path: Path) -> int:
    """Return the version that a path is of."""
    return int(path.stem[1:])


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Make an empty hidden folder beside the target; whatever still has its name at the end is deleted."""
    made = _hidden(target)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        made.mkdir()
    try:
        yield made
    finally:
        _discard(made)


def place(made: Path, target: Path) -> None:
    """Give a folder the target's name; durable on return, and repeatable by others at the same time.

    If the same folder is there already, it stays. Else the two swap their names, so that the place is never empty. On
    file systems that cannot do that, the old one goes before the new one comes.
    """
    with writing(target):
        sync_folder(made)
        while not _placed(made, target):
            _take_away(target)
        for folder in (target.parent, *target.parent.parents[:2]):
            sync_folder(folder)


def remove(target: Path) -> None:
    """Take a version away in one step; repeatable."""
    with writing(target):
        _take_away(target)


def _placed(made: Path, target: Path) -> bool:
    while True:
        try:
            made.rename(target)
            return True
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        with suppress(FileNotFoundError):  # somebody took the target away: it is free now
            if _same(made, target):
                os.utime(target)  # as young as if it were written now
                return True
            return exchange(made, target)


def _same(made: Path, target: Path) -> bool:
    if not target.is_dir():
        return False
    names = sorted(os.listdir(made))
    return names == sorted(os.listdir(target)) and all(
        os.path.samefile(made / name, target / name) or filecmp.cmp(made / name, target / name, shallow=False)
        for name in names
    )


def _take_away(target: Path) -> None:
    gone = _hidden(target)
    with suppress(FileNotFoundError):
        target.rename(gone)
        _discard(gone)


def _sweep(target: Path) -> None:
    """Throw away what killed processes left; under a new name, so that whoever is merely slow finds nothing half."""
    for left in target.parent.glob(".v*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                gone = _hidden(target)
                left.rename(gone)
                _discard(gone)


def _discard(path: Path) -> None:
    with suppress(OSError):
        if path.is_file():
            path.unlink()
        else:
            shutil.rmtree(path, ignore_errors=True)


def _hidden(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}")
