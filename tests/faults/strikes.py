"""Faults that lie ready as files: the process that reaches the step takes its fault, and no other does.

`<kind>.<step>.<mode>.<n>` strikes at the n-th time that the point is reached by any process of the machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.faults.steps import Point, kind_of

FAULTS = "FAULTS_DIRECTORY"  # the variable of the environment that names where they lie
STALL_SECONDS = 4.0  # longer than the lease of a machine under test


class Armed:
    """The faults that wait below a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._taken = directory.with_name(f"{directory.name}.taken")
        for place in (self._directory, self._taken):
            place.mkdir(parents=True, exist_ok=True)

    def arm(self, point: Point, mode: str = "kill", n: int = 1) -> None:
        """Lay a fault ready, unless one waits there already."""
        if not any(self._directory.glob(f"{point}.{mode}.*")):
            (self._directory / f"{point}.{mode}.{n}").touch()

    def waiting(self) -> list[str]:
        """Faults that nobody took yet."""
        return sorted(path.name for path in self._directory.iterdir())

    def kills(self) -> int:
        """How many processes have died of a fault."""
        return len(list(self._taken.glob("*.kill.*")))

    def take(self, point: Point, mode: str) -> bool:
        """Whether the caller is the one to be struck now; a renaming succeeds for one process only."""
        for path in self._directory.glob(f"{point}.{mode}.*"):
            n = int(path.suffix[1:])
            with suppress(FileNotFoundError):
                if n > 1:
                    path.rename(path.with_suffix(f".{n - 1}"))
                else:
                    path.rename(self._taken / f"{point}.{mode}.{os.getpid()}.{time.monotonic_ns()}")
                    return True
        return False


class StrikingSteps:
    """`Steps` of a worker that dies or stalls where a fault waits for it."""

    def __init__(self, directory: Path) -> None:
        self._armed = Armed(directory)

    def reached(self, step: str, job_id: str) -> None:
        """Strike."""
        point = Point(kind_of(job_id), step)
        if self._armed.take(point, "kill"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._armed.take(point, "stall"):
            # frozen whole, heartbeat included, as a process is whose machine is
            thaw = f"import os, time; time.sleep({STALL_SECONDS}); os.kill({os.getpid()}, {signal.SIGCONT})"
            subprocess.Popen([sys.executable, "-S", "-c", thaw], start_new_session=True)
            os.kill(os.getpid(), signal.SIGSTOP)
