"""Where the tests keep their files: in memory if there is room, on the disk if not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.full_disk import mounted
from tests.support.plugins.in_memory import MEMORY, has_room


def test_a_place_that_is_small_or_missing_has_no_room(tmp_path: Path) -> None:
    assert not has_room(tmp_path / "nowhere")
    with mounted(tmp_path / "small") as small:
        assert not has_room(small)


def test_a_place_that_runs_no_programs_is_not_taken(tmp_path: Path) -> None:
    with mounted(tmp_path / "large", mib=8 << 10) as large:
        assert has_room(large)
        subprocess.run(["mount", "-o", "remount,noexec", str(large)], check=True)
        assert not has_room(large)


@pytest.mark.skipif(not has_room(MEMORY), reason="there is no room in memory")
@pytest.mark.parametrize("given", [None, "/var/tmp"])
def test_files_are_in_memory_unless_the_caller_said_where(repository: Path, given: str | None) -> None:
    command = (
        "import tempfile; from tests.support.plugins.in_memory import *; "
        "pytest_configure(None); print(tempfile.gettempdir())"
    )
    kept = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    told = {} if given is None else {"TMPDIR": given}
    done = subprocess.run(
        [sys.executable, "-c", command],
        env=kept | told,
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == (given or str(MEMORY))
