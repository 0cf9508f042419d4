"""A file system of its own that can be filled to the last byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

FULL_DISK = "/dev/full"  # every write fails as on a full disk
_FILLER = "filler"


@contextmanager
def mounted(place: Path, *, mib: int = 4) -> Iterator[Path]:
    """So much memory mounted there, for this user alone; skips the test for whoever may not mount."""
    place.mkdir(parents=True)
    options = f"size={mib}m,mode=0700,uid={os.geteuid()}"
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a disk to fill is a tmpfs, and only root with CAP_SYS_ADMIN may mount one")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(place: Path) -> None:
    """Leave no room for another byte; names are still taken."""
    with suppress(OSError), (place / _FILLER).open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def free(place: Path) -> None:
    """Give the room back."""
    (place / _FILLER).unlink()
