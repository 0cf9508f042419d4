"""What the guide of simulations shows runs as it is written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def test_the_example_of_the_guide_runs(repository: Path) -> None:
    page = (repository / "docs/guide/simulating.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True, timeout=300)
    said = re.fullmatch(r"(\d+\.\d) hours to release, (\d+)% released\n", done.stdout)
    assert said is not None
    assert float(said[1]) < 5
    assert int(said[2]) == 100
