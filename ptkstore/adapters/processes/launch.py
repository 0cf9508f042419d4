"""Become a given command that dies with its parent (run as a script, in the child, before exec).

It is a script of its own because code between fork and exec (`preexec_fn`) may deadlock in a process that
has threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
NO_PARENT = 125  # exit codes as of env(1) and timeout(1): 125 the launcher itself failed, 127 nothing to run
CANNOT_RUN = 127


def die_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process, and what it becomes by exec, when `parent` ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the request was in place
        os._exit(NO_PARENT)


def main(arguments: list[str]) -> None:
    """Run as `launch.py PARENT COMMAND...`."""
    parent, command = int(arguments[0]), arguments[1:]
    die_with_parent(parent)
    # Python ignores the first two, a shell without job control the others for what it starts in the background, and
    # exec would pass that on.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(sys.stderr.fileno(), f"cannot run {command[0]}: {error.strerror}\n".encode())
        os._exit(CANNOT_RUN)


if __name__ == "__main__":
    main(sys.argv[1:])
