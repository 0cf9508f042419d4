"""Kill the process groups of a parent that has died (run as a script beside the parent's children).

The kernel's parent-death signal reaches only direct children. The guard also reaches theirs, and works where
that signal does not exist. Its standard input is a pipe from the parent: `+GROUP` and `-GROUP` lines.
"""

from __future__ import annotations

import os
import select
import signal
import sys

LOOK_EVERY_SECONDS = 0.2


def watch(parent: int, pipe: int) -> set[int]:
    """Wait for the end of `parent` and return the groups it left behind."""
    groups: set[int] = set()
    unfinished = b""
    while True:
        alive = os.getppid() == parent  # before the read: what a dead parent wrote is then read to its end
        ready, _, _ = select.select([pipe], [], [], LOOK_EVERY_SECONDS if alive else 0)
        if ready:
            received = os.read(pipe, 65536)
            if not received:
                return groups
            *lines, unfinished = (unfinished + received).split(b"\n")
            for line in lines:
                (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
        elif not alive:  # the pipe may be held open by a fork of the parent
            return groups


def main(arguments: list[str]) -> None:
    """Run as `guard.py PARENT`."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    for group in watch(int(arguments[0]), sys.stdin.fileno()):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main(sys.argv[1:])
