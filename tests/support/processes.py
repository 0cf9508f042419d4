"""What the tests of child processes share: looking at processes, waiting, and a supervisor to kill."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PYTHON = (sys.executable, "-I", "-S", "-c")
PATIENCE_SECONDS = 20.0


def wait_until(condition: Callable[[], object]) -> None:
    """Come back when the condition holds; a test that waits in vain fails here."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def number_in(path: Path) -> int | None:
    """The pid that a child wrote, once it is there."""
    return int(path.read_text()) if path.exists() else None


def parent_of_a_child(directory: Path) -> tuple[str, ...]:
    """A command that starts a process of its own, writes both pids as `parent` and `child`, and sleeps."""
    code = """
        import os, subprocess, sys
        child = subprocess.Popen(["sleep", "600"])
        for name, pid in (("child", child.pid), ("parent", os.getpid())):
            path = os.path.join(sys.argv[1], name)
            with open(path + ".new", "w") as file:
                file.write(str(pid))
            os.rename(path + ".new", path)
        child.wait()
    """
    return (*PYTHON, textwrap.dedent(code), str(directory))


def both_pids(directory: Path) -> tuple[int, int]:
    """The two pids, once the command above has written them."""
    wait_until(lambda: number_in(directory / "parent") is not None)
    parent, child = number_in(directory / "parent"), number_in(directory / "child")
    assert parent is not None
    assert child is not None
    return parent, child


@contextmanager
def other_process(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs this code, to be killed; it is gone afterwards in any case."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
