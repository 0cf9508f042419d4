"""What a guide shows, run as it is written."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def begun(guide: Path) -> str:
    """Return the commands with which a guide begins."""
    (commands,) = re.findall(r"<!-- tested: begin -->\n```bash\n(.*?)```", guide.read_text(), re.DOTALL)
    return str(commands)


def run(commands: str, folder: Path, home: Path, *, timeout_seconds: float = 300.0) -> str:
    """As somebody who has nothing yet would, in a shell that stops at the first command that fails.

    What the shell left running in the background ends with it.
    """
    with subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}"],
        cwd=folder,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            out, err = shell.communicate(timeout=timeout_seconds)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
    assert shell.returncode == 0, (out, err)
    return out
