"""Log files of children: private, appended to, kept small."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

LARGEST_BYTES = 8 * 1024 * 1024
FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def open_log(path: Path) -> int:
    """Open a file descriptor that appends; the caller closes it."""
    fd = os.open(path, FLAGS, 0o600)
    os.fchmod(fd, 0o600)
    return fd


def rotate(path: Path, largest_bytes: int = LARGEST_BYTES) -> bool:
    """Move what was written to `<name>.1` once it is too much; writers go on in the emptied file.

    A child keeps the file open, so it is copied and emptied in place; a line written in between is lost. `OSError`,
    and the log as it was, if the disk has no room for the copy.
    """
    if not path.exists() or path.stat().st_size <= largest_bytes:
        return False
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    try:
        with path.open("rb") as source, os.fdopen(open_log(fresh), "wb") as target:
            shutil.copyfileobj(source, target)
    except OSError:  # half of a copy would take room on a full disk
        fresh.unlink(missing_ok=True)
        raise
    os.replace(fresh, path.with_name(f"{path.name}.1"))
    os.truncate(path, 0)
    return True
