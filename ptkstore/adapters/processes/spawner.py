"""The one thread and the one guard process behind all children of this process."""

from __future__ import annotations

import atexit
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

Start = Callable[[], subprocess.Popen[bytes]]
_Answer = Future[subprocess.Popen[bytes]]

GUARD = str(Path(__file__).with_name("guard.py"))
ISOLATED = ("-I", "-S")  # neither environment nor site-packages: fast, and nothing of the child's reaches in


class Spawner:
    """One thread that starts everything, and one guard process that knows what was started.

    The kernel sends the parent-death signal when the *thread* that forked ends, so a thread that lives as
    long as the process must do it.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[tuple[_Answer, Start]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._guard: subprocess.Popen[bytes] | None = None
        threading.Thread(target=self._work, name="spawner", daemon=True).start()

    def start(self, order: Start) -> subprocess.Popen[bytes]:
        """Carry out an order in the spawner's thread."""
        answer: _Answer = Future()
        self._orders.put((answer, order))
        return answer.result()

    def remember(self, group: int) -> None:
        """Let the guard kill this group if we die."""
        with self._lock:
            self._groups.add(group)
            self._tell(f"+{group}\n")

    def forget(self, group: int) -> None:
        """Forget a group that has ended."""
        with self._lock:
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    def ensure_guard(self) -> None:
        """Replace the guard if someone killed it; cheap enough to ask every second."""
        with self._lock:
            self._tell("")

    def close(self) -> None:
        """At a normal exit: whatever still runs is ended before the process is gone."""
        with self._lock:
            if self._guard is not None and self._guard.stdin is not None:
                self._guard.stdin.close()
                self._guard.wait()
                self._guard = None

    def _work(self) -> None:
        while True:
            answer, order = self._orders.get()
            try:
                answer.set_result(order())
            except BaseException as error:  # noqa: BLE001 - it is the caller's; without this thread nothing starts
                answer.set_exception(error)

    def _tell(self, line: str) -> None:
        if self._guard is None or self._guard.poll() is not None:
            try:
                self._guard = self.start(_start_guard)
            except OSError:  # no memory or no processes left; the next look starts it and tells it everything
                return
            line = "".join(f"+{group}\n" for group in self._groups)
        assert self._guard.stdin is not None
        try:
            self._guard.stdin.write(line.encode())
            self._guard.stdin.flush()
        except BrokenPipeError:  # killed this moment; the next look replaces it and tells it everything
            return


def _start_guard() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, *ISOLATED, GUARD, str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )


_instances: list[Spawner] = []
_instances_lock = threading.Lock()
_inherited: list[Spawner] = []


def spawner() -> Spawner:
    """Return the spawner of this very process, made at its first use."""
    with _instances_lock:
        if not _instances:
            _instances.append(Spawner())
            atexit.register(_instances[0].close)
        return _instances[0]


def _after_fork_in_child() -> None:
    global _instances_lock
    _instances_lock = threading.Lock()
    while _instances:
        left = _instances.pop()
        atexit.unregister(left.close)
        _inherited.append(left)  # never collected: its processes are the parent's to wait for


os.register_at_fork(after_in_child=_after_fork_in_child)
