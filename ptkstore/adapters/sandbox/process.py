"""A child process that is fed, limited, watched and always cleared away."""

from __future__ import annotations

import math
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CHUNK = 1 << 16
_LONGEST_ANSWER = 64 << 20
_KEEP_ALIVE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What one training may use. Memory counts private writable pages, touched or not (RLIMIT_DATA)."""

    timeout_seconds: float
    memory_bytes: int


USUAL_LIMITS: Final = Limits(600.0, 4 << 30)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: what it wrote, its exit status or minus the signal, and whether time was up."""

    answer: bytes
    status: int
    timed_out: bool


def run_child(
    argv: Sequence[str],
    order: bytes,
    *,
    limits: Limits,
    directory: Path,
    environment: Mapping[str, str],
    keep_alive: Callable[[], None],
    longest_answer: int = _LONGEST_ANSWER,
) -> Ended:
    """Run `argv` plus the number of the descriptor to answer on; nothing of its group outlives the call.

    The order goes to standard input after the limits are set. What the child prints goes nowhere. One that answers with
    more than `longest_answer` bytes is stopped there.
    """
    answer_fd, child_fd = os.pipe()
    try:
        child = subprocess.Popen(
            [*argv, str(child_fd)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            pass_fds=(child_fd,),
            start_new_session=True,
            cwd=directory,
            env=dict(environment),
        )
    except BaseException:
        os.close(answer_fd)
        raise
    finally:
        os.close(child_fd)
    try:
        _limit(child.pid, limits)
        watch = _Watch(child, answer_fd, order, longest_answer)
        timed_out = watch.until_exit(time.monotonic() + limits.timeout_seconds, keep_alive)
    finally:
        # Not yet waited for, the child keeps its number: the group cannot be a stranger's.
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        status = child.wait()
        if child.stdin is not None:
            with suppress(BrokenPipeError):
                child.stdin.close()
        os.close(answer_fd)
    return Ended(bytes(watch.answer), status, timed_out)


def _limit(pid: int, limits: Limits) -> None:
    seconds = math.ceil(2 * limits.timeout_seconds) + 1  # of two threads; the wall clock comes first
    wanted = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_CPU, seconds),
    )
    with suppress(ProcessLookupError):
        for kind, most in wanted:
            _, hard = resource.prlimit(pid, kind)
            allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, kind, (allowed, allowed))


class _Watch:
    """Feeds the child and listens to it until it has exited."""

    def __init__(
        self, child: subprocess.Popen[bytes], answer_fd: int, order: bytes, longest_answer: int
    ) -> None:
        self.answer = bytearray()
        self._longest: Final = longest_answer
        self._child = child
        self._answer_fd: Final = answer_fd
        self._order = memoryview(order)
        os.set_blocking(answer_fd, False)

    def until_exit(self, deadline: float, keep_alive: Callable[[], None]) -> bool:
        """Wait, calling `keep_alive` about once a second; True if the deadline came first."""
        exit_fd = os.pidfd_open(self._child.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(exit_fd, selectors.EVENT_READ)
                selector.register(self._answer_fd, selectors.EVENT_READ, self._listen)
                if self._child.stdin is not None:
                    os.set_blocking(self._child.stdin.fileno(), False)
                    selector.register(self._child.stdin, selectors.EVENT_WRITE, self._feed)
                return self._loop(selector, deadline, keep_alive)
        finally:
            os.close(exit_fd)

    def _loop(
        self, selector: selectors.BaseSelector, deadline: float, keep_alive: Callable[[], None]
    ) -> bool:
        alive_at = time.monotonic() + _KEEP_ALIVE_SECONDS
        while True:
            now = time.monotonic()
            if now >= deadline:
                return True
            if now >= alive_at:
                keep_alive()
                alive_at = time.monotonic() + _KEEP_ALIVE_SECONDS
            for key, _ in selector.select(max(0.0, min(deadline, alive_at) - now)):
                if key.data is None:
                    self._listen()
                    return False
                if not key.data():
                    selector.unregister(key.fileobj)
                if len(self.answer) > self._longest:
                    return False

    def _feed(self) -> bool:
        """Give the child more of the order; False once all is said or nobody listens."""
        assert self._child.stdin is not None
        try:
            written = os.write(self._child.stdin.fileno(), self._order[:_CHUNK])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        self._order = self._order[written:]
        if not self._order:
            self._child.stdin.close()
        return bool(self._order)

    def _listen(self) -> bool:
        """Take all there is to read; False at its end."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._answer_fd, _CHUNK):
                self.answer += chunk
                if len(self.answer) > self._longest:
                    return False
            return False
        return True
