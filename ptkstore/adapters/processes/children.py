"""Start child processes that cannot outlive this process, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from ptkstore.adapters.processes.spawner import ISOLATED, spawner

LAUNCH = str(Path(__file__).with_name("launch.py"))


class Child:
    """A running command, the leader of a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._swept = False
        self._sweeping = threading.Lock()
        self.pid = process.pid

    def exit_code(self) -> int | None:
        """Return None while it runs; negative if a signal ended it.

        Processes that it left in its group are killed first.
        """
        code = self._process.poll()
        if code is not None:
            self._sweep()
        return code

    def terminate(self) -> None:
        """Ask the leader to end; what it started is its own to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End the whole group at once."""
        if self._process.poll() is None:
            _signal_group(self.pid)

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Wait for the exit code; None when the time is over."""
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None
        return self.exit_code()

    def _sweep(self) -> None:
        with self._sweeping:
            if not self._swept:
                self._swept = True
                _signal_group(self.pid)
                spawner().forget(self.pid)


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    output: int = subprocess.DEVNULL,
    keep_fds: Sequence[int] = (),
) -> Child:
    """Start a command in a session of its own; `env` is its whole environment, ours when None.

    Raises
    ------
    OSError
        When the machine cannot start a process. A command that does not exist exits with code 127 instead.
    """
    place = spawner()
    launcher = [sys.executable, *ISOLATED, LAUNCH, str(os.getpid()), *argv]
    child = Child(
        place.start(
            lambda: subprocess.Popen(
                launcher,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=tuple(keep_fds),
                start_new_session=True,
            )
        )
    )
    place.remember(child.pid)
    return child


def _signal_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # nobody left; macOS says EPERM when only zombies are
        return
