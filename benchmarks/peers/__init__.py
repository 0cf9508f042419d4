"""Peers that cannot live beside the project: each in a virtual environment of its own, spoken to in JSON.

`benchmarks/peers/<name>.txt` pins what the environment holds.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parents[1] / ".bench-venvs"


@cache
def peer_python(name: str) -> Path:
    """Return the interpreter of a peer's environment, made on first use from its pinned requirements."""
    wanted = (HERE / f"{name}.txt").read_text()
    home = ENVIRONMENTS / name
    python, stamp = home / "bin" / "python", home / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {name} into {home.relative_to(HERE.parents[1])}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        subprocess.run([*pip, "--only-binary=:all:", "--requirement", HERE / f"{name}.txt"], check=True)
        stamp.write_text(wanted)
    return python


def ask_peer(
    name: str, script: Path, arrays: Mapping[str, npt.NDArray[Any]], **parameters: Any
) -> dict[str, Any]:
    """Run `script <arrays.npz> <parameters as JSON>` in a peer's environment; it prints one JSON object."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "arrays.npz"
        np.savez(data, **arrays)  # type: ignore[arg-type]  # names are ours, none is `file`
        command = [peer_python(name), script, data, json.dumps(parameters)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
