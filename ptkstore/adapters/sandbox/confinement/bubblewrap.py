"""The command line of bubblewrap: what a sandboxed process finds around it, which is next to nothing."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from ptklib import exceptions
from ptkstore import errors
from ptkstore.errors import NoSandbox

LIBRARIES: Final = "/ptk/lib"
PACKAGES: Final = "/ptk/site"
TEMPORARY: Final = "/tmp"
TEMPORARY_BYTES: Final = 64 * 2**20
TEMPORARY_FILES: Final = 4096
"""Files and folders there; each takes about a kilobyte of the kernel's memory, which no limit of a process counts."""
_PROGRAM: Final = (
    f"import runpy, sys; rights = runpy.run_path({LIBRARIES + '/ptkstore/adapters/sandbox/confinement/rights.py'!r}); "
    f"rights['limit_files']({TEMPORARY!r}, {TEMPORARY_FILES}); "
    f"sys.path[:0] = [{LIBRARIES!r}, {PACKAGES!r}]; sys.dont_write_bytecode = True; "
    "from ptkstore.adapters.sandbox.inside import runner; "
    "from ptkstore.adapters.sandbox.processes import hardening; "
    "hardening.run_to_its_end(lambda: runner.main(int(sys.argv[1])))"
)
_SYSTEM: Final = ("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom")
_ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    "HOME": TEMPORARY,
    "TMPDIR": TEMPORARY,
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "ARROW_IO_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "MALLOC_ARENA_MAX": "1",
    "JOBLIB_MULTIPROCESSING": "0",
}
_REMOUNTS: Final = (
    "CAP_SYS_ADMIN"  # our program limits the files there, which bubblewrap cannot, and gives it up
)
# Users that no machine has: two runs share none, and limits per user count one run alone.
_FIRST_UID, _UIDS, _NOBODY = 1_600_000_000, 400_000_000, 65_534


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """Starts the program that runs team code.

    Parameters
    ----------
    command, python : str
        Name or path of bubblewrap, and the interpreter.
    hidden : tuple of str
        Directories and files of the store that must be in nothing the sandbox is given.
    """

    command: str = "bwrap"
    hidden: tuple[str, ...] = ()
    python: str = sys.executable

    def argv(self) -> tuple[str, ...]:
        """Return the command, but for the number of the descriptor to answer on.

        Raises
        ------
        NoSandbox
            Bubblewrap is not there, or what the sandbox needs would show it the store.
        """
        program = shutil.which(self.command, path=f"{os.environ.get('PATH', '')}:{os.defpath}")
        if program is None:
            raise NoSandbox(
                f"team code needs {self.command!r} (bubblewrap), which is not installed here; it is never run without"
            )
        shown = tuple(self._shown())
        for place in map(os.path.realpath, self.hidden):
            for source, _ in shown:
                if _is_within(place, os.path.realpath(source)):
                    raise NoSandbox(
                        "team code is not run here: the store's home, keys, rows, lake or catalog lie in a directory "
                        "that the sandbox needs"
                    )
        return (
            program,
            *self._namespaces(),
            "--die-with-parent",
            "--clearenv",
            *(word for name, value in _ENVIRONMENT.items() for word in ("--setenv", name, value)),
            *(word for source, place in shown for word in (*_folders(place), "--ro-bind", source, place)),
            *self._links(),
            *_folders("/dev/null"),
            *(word for device in _DEVICES for word in ("--dev-bind", device, device)),
            *("--perms", "1777", "--size", str(TEMPORARY_BYTES), "--tmpfs", TEMPORARY),
            *("--chdir", TEMPORARY, "--remount-ro", "/"),
            *(os.path.realpath(self.python), "-I", "-S", "-B", "-c", _PROGRAM),
        )

    def _namespaces(self) -> tuple[str, ...]:
        apart = tuple(f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup"))
        if os.getuid() == 0:  # sets all up as root, who may read everything, and then becomes nobody
            kept = ("CAP_SETUID", "CAP_SETGID", _REMOUNTS)
            return (*apart, "--cap-drop", "ALL", *(word for cap in kept for word in ("--cap-add", cap)))
        user = ("--unshare-user", "--uid", "65534", "--gid", "65534")
        return (*user, *apart, "--cap-drop", "ALL", "--cap-add", _REMOUNTS)

    def _shown(self) -> Iterator[tuple[str, str]]:
        base = os.path.realpath(sys.base_prefix)
        system = [place for place in _SYSTEM if os.path.exists(place) and not os.path.islink(place)]
        # the machine's own interpreter, of which the libraries are enough
        if base in ("/", "/usr", "/usr/local"):
            system += [
                place for place in ("/usr/bin", "/usr/local/lib", "/usr/local/bin") if os.path.isdir(place)
            ]
        else:
            yield base, base
        for place in system:
            yield place, place
        yield sysconfig.get_path("platlib"), PACKAGES
        for module in (exceptions, errors):  # of ptklib and ptkstore
            folder = Path(str(module.__file__)).resolve().parent
            yield str(folder), f"{LIBRARIES}/{folder.name}"

    def _links(self) -> Iterator[str]:
        for place in _SYSTEM:
            if os.path.islink(place) and os.path.isdir(place):
                yield from ("--symlink", os.readlink(place), place)


def a_new_uid() -> int:
    """Return a user for one run; one for all where so few exist, as in a container without root's rights outside."""
    return _FIRST_UID + secrets.randbelow(_UIDS) if _all_uids_exist() else _NOBODY


@cache
def _all_uids_exist() -> bool:
    try:
        ranges = [
            list(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()
        ]
    except (OSError, ValueError):
        return False
    return any(first <= _FIRST_UID and first + count >= _FIRST_UID + _UIDS for first, _, count in ranges)


def _folders(place: str) -> Iterator[str]:
    """Yield the options that make the folders above a place, open to everyone inside."""
    for folder in reversed(Path(place).parents):
        if str(folder) != "/":
            yield from ("--perms", "0755", "--dir", str(folder))


def _is_within(place: str, folder: str) -> bool:
    return place == folder or folder == "/" or place.startswith(f"{folder}/")
