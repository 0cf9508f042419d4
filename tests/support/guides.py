"""What a guide shows, run as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def begun(guide: Path) -> str:
    """Return the commands with which a guide begins."""
    (commands,) = re.findall(r"<!-- tested: begin -->\n```bash\n(.*?)```", guide.read_text(), re.DOTALL)
    return str(commands)


def run(commands: str, folder: Path, home: Path) -> str:
    """As somebody who has nothing yet would, in a shell that stops at the first command that fails."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout
