"""Inside the sandbox: everything that must fail is tried."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from ptkstore.adapters.sandbox.confinement.bubblewrap import (
    LIBRARIES,
    PACKAGES,
    TEMPORARY,
    TEMPORARY_BYTES,
    TEMPORARY_FILES,
)
from ptkstore.adapters.sandbox.confinement.rights import capabilities
from ptkstore.adapters.sandbox.confinement.seal import Seal

_NEW_USER_NAMESPACE = 0x10000000
_ANYWHERE: Final = ("/proc/self/environ", "/proc/1/status", "/sys", "/etc/passwd")
_FIRST_PIDS: Final = 9
_UNWRITABLE: Final = ("/", LIBRARIES, PACKAGES, "/dev", "/usr/lib")


def breaches(header: Mapping[str, Any], ours: Collection[int]) -> Iterator[str]:
    """Yield the names of what succeeded or failed and should not have; the descriptors `ours` are open on purpose."""
    libc = ctypes.CDLL(None, use_errno=True)
    forbidden: dict[str, Callable[[], object]] = {
        "network": lambda: closing(socket.socket()),
        "local sockets": lambda: closing(socket.socket(socket.AF_UNIX)),
        "another process": _forks,
        "another program": lambda: os.execv("/usr/bin/true", ["true"]),
        "root": lambda: os.setuid(0),
        "namespaces": lambda: _called(libc.unshare(_NEW_USER_NAMESPACE)),
        "mounting": lambda: _called(libc.mount(b"none", b"/tmp", b"tmpfs", 0, None)),
        "locks without a limit": _locks,
        "watches of files": lambda: _called(min(0, libc.inotify_init1(0))),
        "attributes of files": lambda: os.setxattr(TEMPORARY, b"user.x", b"x"),
        "memory without a limit": lambda: os.memfd_create("x"),
        "a larger limit": lambda: resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2),
    }
    for name, attempt in forbidden.items():
        if _succeeds(attempt):
            yield name
    for place in (*header["hidden"], *_ANYWHERE):
        if os.path.lexists(place):
            yield f"the path {place}" if place in _ANYWHERE else "the store's files"
    for folder in _UNWRITABLE:
        if _succeeds(lambda folder=folder: Path(folder, "x").touch()):  # type: ignore[misc]
            yield f"writing in {folder}"
    room = os.statvfs(TEMPORARY)
    if not 0 < room.f_files <= TEMPORARY_FILES or _succeeds(_many_folders):
        yield "files without a limit"
    if any(capabilities()):
        yield "rights"
    if room.f_frsize * room.f_blocks > TEMPORARY_BYTES:
        yield "room for files"
    if 0 in (*os.getresuid(), *os.getresgid(), *os.getgroups()):
        yield "the user root"
    limits = dict(Seal(**header["seal"]).limits)
    if any(resource.getrlimit(kind)[1] > most for kind, most in limits.items()):
        yield "resources"
    if {name for name in os.environ if name.startswith(("PTK", "AWS", "PG"))}:
        yield "the service's environment"
    if set(_open_files()) - set(ours):
        yield "open files"
    if os.getpid() > _FIRST_PIDS:
        yield "other processes"
    if not _succeeds(lambda: Path(TEMPORARY, "x").write_text("x")):
        yield "no temporary file"
    if not _succeeds(lambda: os.urandom(1)) or not _succeeds(_threads):
        yield "no entropy, or no thread"


def _forks() -> None:
    if os.fork() == 0:
        os._exit(0)


def _locks() -> None:
    with Path(TEMPORARY, "locked").open("wb") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)


def _many_folders() -> None:
    folders: list[str] = []
    try:
        for number in range(TEMPORARY_FILES):
            os.mkdir(f"{TEMPORARY}/many-{number}")
            folders.append(f"{TEMPORARY}/many-{number}")
    finally:
        for folder in folders:
            os.rmdir(folder)


def _threads() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()


def _called(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")


def _succeeds(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, ValueError, RuntimeError):
        return False
    return True


def _open_files() -> Iterator[int]:
    for number in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
        try:
            os.fstat(number)
        except OSError:
            continue
        yield number
