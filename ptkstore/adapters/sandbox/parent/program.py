"""Have a run of the program that opens rows: one order in, one answer out, nothing of ours around it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ptkstore.adapters.sandbox.messages.codes import KILLED, TIMEOUT, TRAINER_ERROR
from ptkstore.adapters.sandbox.messages.orders import Order, encode_order
from ptkstore.adapters.sandbox.parent.forking import run_fork
from ptkstore.adapters.sandbox.parent.preloading import modules_for
from ptkstore.adapters.sandbox.processes.process import Ended, Limits
from ptkstore.ports.row_processes import Request

MODULE: Final = "ptkstore.training_process"  # named, not imported: it puts adapters together as `wiring` does
_STORAGE: Final = ("AWS_", "FSSPEC_S3")
_THREADS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "ARROW_IO_THREADS",
)
ENVIRONMENT: Final = {
    "PATH": os.defpath,
    "LANG": "C.UTF-8",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # a fork server has one thread
    "MIMALLOC_ARENA_RESERVE": "0",  # a gigabyte otherwise, before a fork has its limit, which counts it
    **dict.fromkeys(_THREADS, "1"),
}
"""Nothing of ours: neither credentials nor settings."""


@dataclass(frozen=True, slots=True)
class Program:
    """The places of rows and staging for the program, and the limits of one run.

    Parameters
    ----------
    raw_url, staging_url : str
        The trees that the child opens: paths or URLs.
    timeout_seconds : float
        Wall-clock limit of one run, start of the process included.
    memory_bytes : int
        Limit of the child's private memory. Below about 256 MB a run may end before it can say why.
    python, bubblewrap : str
        The interpreter, and the command that team code is run in.
    """

    raw_url: str
    staging_url: str
    timeout_seconds: float = 600.0
    memory_bytes: int = 4 << 30
    python: str = sys.executable
    bubblewrap: str = "bwrap"

    def run(self, request: Request, keep_alive: Callable[[], None]) -> Ended:
        """Run it once on `request`; the process is gone when this returns or raises."""
        raw_url, staging_url = _absolute(self.raw_url), _absolute(self.staging_url)
        storage = storage_environment(os.environ, raw_url, staging_url)
        limits = Limits(self.timeout_seconds, self.memory_bytes)
        order = Order(request, raw_url, staging_url, storage, limits, self.bubblewrap)
        with TemporaryDirectory(prefix="ptk-run-") as directory:
            return run_fork(
                (self.python, "-I", "-m", MODULE),
                modules_for(request, raw_url, staging_url),
                encode_order(order),
                limits=limits,
                directory=Path(directory),
                environment=ENVIRONMENT,
                keep_alive=keep_alive,
            )


def storage_environment(environment: Mapping[str, str], *urls: str) -> dict[str, str]:
    """Return what a child needs of our environment to reach these trees: nothing for local ones.

    Credentials, region and endpoint of S3 and nothing else. They travel inside the order, since whoever may list
    processes may read the environment that one was started with.
    """
    if all("://" not in url or url.startswith("file://") for url in urls):
        return {}
    return {name: value for name, value in environment.items() if name.startswith(_STORAGE)}


def failure_of(ended: Ended) -> str | None:
    """Return the code of a run that did not end by itself and well."""
    if ended.timed_out or ended.status == -signal.SIGXCPU:
        return TIMEOUT
    if ended.status < 0:
        return KILLED
    return TRAINER_ERROR if ended.status > 0 else None


def _absolute(url: str) -> str:
    """Return a URL that means the same in the working directory of the child."""
    return url if "://" in url else os.path.abspath(url)
