"""`infra/setup` says what it does: fetching takes minutes, and nothing else is to be seen meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_setup_says_what_it_waits_for(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    for name in ("setup", "uv.txt"):
        shutil.copy(repository / "infra" / name, tmp_path / "infra")
    uv = next(
        line for line in (tmp_path / "infra/uv.txt").read_text().splitlines() if line.startswith("uv==")
    )
    _program(tmp_path / ".uv/bin/uv", f"echo uv {uv.removeprefix('uv==').split()[0]}")
    _program(tmp_path / ".venv/bin/python", "true")
    done = subprocess.run(
        [tmp_path / "infra/setup"],
        env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [line.split(",")[0] for line in done.stderr.splitlines()] == [
        "setup: the installer",
        "setup: the locked packages",
    ]
    assert (tmp_path / ".venv/.stamp").read_text() == f"{tmp_path}\n"


def test_the_setup_says_that_it_is_done_where_it_was_asked_for(repository: Path) -> None:
    def told(target: str) -> str:
        """What make would run."""
        environment = {"PATH": os.environ["PATH"]}
        asked = ["make", "-n", target]
        return subprocess.run(
            asked, cwd=repository, env=environment, capture_output=True, text=True, timeout=60, check=True
        ).stdout

    assert told("setup").splitlines()[-1] == 'echo "setup: done"'
    assert "setup: done" not in told("test")
