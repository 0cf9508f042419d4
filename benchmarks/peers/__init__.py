"""Peers that cannot live beside the project: each in a virtual environment of its own, spoken to in JSON.

`benchmarks/peers/<name>.txt` pins what the environment holds.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
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
    name: str,
    script: Path,
    arrays: Mapping[str, npt.NDArray[Any]],
    *,
    timeout_seconds: float = 900.0,
    **parameters: Any,
) -> dict[str, Any]:
    """Run `script <arrays.npz> <parameters as JSON>` in a peer's environment; it prints one JSON object.

    The peer is killed with all it started when it takes longer than `timeout_seconds`, when this function is left
    by an exception, and when the benchmark itself dies.

    Raises
    ------
    subprocess.TimeoutExpired
        When the peer takes too long.
    subprocess.CalledProcessError
        When it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "arrays.npz"
        np.savez(data, **arrays)  # type: ignore[arg-type]  # names are ours, none is `file`
        command = [str(part) for part in (peer_python(name), script, data, json.dumps(parameters))]
        answered = run_and_kill(command, timeout_seconds)
    answer: dict[str, Any] = json.loads(answered.splitlines()[-1])
    return answer


def run_and_kill(command: Sequence[str], timeout_seconds: float) -> str:
    """Return what a command prints; neither it nor its children outlive this call."""
    with tempfile.TemporaryFile("w+") as printed:
        peer = subprocess.Popen(
            [sys.executable, "-c", _GUARDED, *command],
            stdin=subprocess.PIPE,  # never written to: it closes with this process, however it ends
            stdout=printed,
            start_new_session=True,
        )
        try:
            peer.wait(timeout_seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(peer.pid, signal.SIGKILL)
            peer.wait()
            raise
        if peer.returncode:
            raise subprocess.CalledProcessError(peer.returncode, list(command))
        printed.seek(0)
        return printed.read()


_GUARDED = """
import os, signal, subprocess, sys, threading

def end_with_the_benchmark():
    os.read(0, 1)  # returns when the benchmark's end of the pipe is closed
    os.killpg(0, signal.SIGKILL)

peer = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=end_with_the_benchmark, daemon=True).start()
os._exit(1 if peer.wait() else 0)
"""
