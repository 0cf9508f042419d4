"""Directories and locks of this user alone."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from pathlib import Path

from ptkstore.errors import Conflict, Refused, Unavailable

PRIVATE = 0o700
SOCKET_ROOT = Path("/tmp")  # fixed and short: a path that followed TMPDIR would differ between two shells
LOOK_EVERY_SECONDS = 0.05


def make_home(path: Path) -> None:
    """Make the home for this user alone, or raise `Unavailable`; one that is there keeps its owner's mode."""
    try:
        path.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"the home {path} cannot be made: {error.strerror}") from error


def private_directory(path: Path, *, tighten: bool = False) -> Path:
    """Make the directory if need be; refuse it unless it is ours and open to nobody else.

    `tighten` closes one of ours that was open to others, which is right where nobody else can have put files.

    Raises
    ------
    Refused
        When the path is a link or no directory, belongs to another user, or has a mode other than 0700.
    """
    try:
        path.mkdir(mode=PRIVATE, parents=True)
        path.chmod(PRIVATE)  # a umask may have taken more away
    except FileExistsError:
        pass
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise Refused(f"{path} is not a directory; remove it, it will be made anew")
    if status.st_uid != os.getuid():
        raise Refused(f"{path} belongs to user {status.st_uid}, not to user {os.getuid()} who runs this")
    mode = stat.S_IMODE(status.st_mode)
    if mode != PRIVATE and tighten:
        path.chmod(PRIVATE)
    elif mode != PRIVATE:
        raise Refused(f"{path} has mode {mode:04o} where 0700 is needed; remove it, it will be made anew")
    return path


def socket_directory(home: Path) -> Path:
    """Return the place of the sockets of a home: private, the same at every start, and short (not made here).

    Redis silently cuts a socket's path after about 107 bytes, so the socket is elsewhere.
    """
    name = hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:16]
    return SOCKET_ROOT / f"ptk-{os.getuid()}-{name}"


class Lock:
    """An exclusive lock on a file, held until it is released or until no process has it open any more.

    A child that keeps `fd` has the lock too: then it is free only when both processes are gone.
    """

    def __init__(self, path: Path, wait_seconds: float, held: str) -> None:
        """Take the lock, or raise `Conflict` with the words of `held` when the time is over."""
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        until = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(LOOK_EVERY_SECONDS)
                    continue
                holder = os.pread(self.fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
                os.close(self.fd)
                raise Conflict(f"{held} (process {holder})") from None
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, f"{os.getpid()}\n".encode(), 0)
            return

    def release(self) -> None:
        """Let go of it in this process."""
        os.close(self.fd)


def is_locked(path: Path) -> bool:
    """Tell whether somebody has the exclusive lock on this file; it is not made."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
