"""A child process that is fed, limited, watched and always cleared away."""

from __future__ import annotations

import math
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_CHUNK = 1 << 16
LONGEST_ANSWER = 64 << 20
_KEEP_ALIVE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one training. Memory counts private writable pages, touched or not (RLIMIT_DATA)."""

    timeout_seconds: float
    memory_bytes: int

    @property
    def cpu_seconds(self) -> int:
        """The processor time of two threads, so that the wall clock comes first."""
        return math.ceil(2 * self.timeout_seconds) + 1


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
    longest_answer: int = LONGEST_ANSWER,
) -> Ended:
    """Run a program once; nothing of its group outlives the call, and what it prints goes nowhere.

    Parameters
    ----------
    argv, directory, environment
        The program, which gets the number of the descriptor to answer on as its last argument.
    order, limits
        The bytes for standard input after the limits are set.
    keep_alive : callable
        Called about once a second; if it raises, the child is killed first.
    longest_answer : int
        A child that answers with more bytes is stopped there.
    """
    with Watch(order, longest_answer) as watch:
        with watch.theirs() as (order_fd, answer_fd):
            child = subprocess.Popen(
                [*argv, str(answer_fd)],
                stdin=order_fd,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(answer_fd,),
                start_new_session=True,
                cwd=directory,
                env=dict(environment),
            )
        exit_fd = os.pidfd_open(child.pid)
        try:
            limit(child.pid, limits)
            timed_out = watch.until(exit_fd, time.monotonic() + limits.timeout_seconds, keep_alive)
        finally:
            # Not yet waited for, the child keeps its number: the group cannot be a stranger's.
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            status = child.wait()
            os.close(exit_fd)
        return Ended(bytes(watch.answer), status, timed_out)


def limit(pid: int, limits: Limits) -> None:
    """Limit a process that may be gone by now; no limit is raised."""
    maxima = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, limits.memory_bytes),
        (resource.RLIMIT_CPU, limits.cpu_seconds),
    )
    with suppress(ProcessLookupError):
        for kind, most in maxima:
            _, hard = resource.prlimit(pid, kind)
            allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(pid, kind, (allowed, allowed))


class Watch:
    """Feeds a process its order and listens to its answer until something says that it has ended.

    Attributes
    ----------
    answer : bytearray
        The output so far. A process that answers with more than `longest` bytes is not listened to any more.
    """

    def __init__(self, order: bytes, longest: int = LONGEST_ANSWER) -> None:
        self.answer = bytearray()
        self._order = memoryview(order)
        self._longest: Final = longest

    def __enter__(self) -> Self:
        self._their_order, self._order_fd = os.pipe()
        try:
            self._answer_fd, self._their_answer = os.pipe()
        except OSError:
            os.close(self._their_order)
            os.close(self._order_fd)
            raise
        os.set_blocking(self._order_fd, False)
        os.set_blocking(self._answer_fd, False)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_feeding()
        os.close(self._answer_fd)

    @contextmanager
    def theirs(self) -> Iterator[tuple[int, int]]:
        """Lend the ends that the process gets, to read its order and to answer; closed here once it has them."""
        try:
            yield self._their_order, self._their_answer
        finally:
            os.close(self._their_order)
            os.close(self._their_answer)

    def until(
        self, exit_fd: int, deadline: float, keep_alive: Callable[[], None], *, feeding: bool = True
    ) -> bool:
        """Wait until `exit_fd` can be read, calling `keep_alive` about once a second; True if the deadline came first.

        The order is given meanwhile, if `feeding`.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(exit_fd, selectors.EVENT_READ)
            selector.register(self._answer_fd, selectors.EVENT_READ, self._listen)
            if feeding:
                selector.register(self._order_fd, selectors.EVENT_WRITE, self._feed)
            return self._loop(selector, deadline, keep_alive)

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
                    if key.data == self._feed:
                        self._stop_feeding()  # the end of the order
                if len(self.answer) > self._longest:
                    return False

    def _feed(self) -> bool:
        """Give the process more of the order; False once all is said or nobody listens."""
        try:
            written = os.write(self._order_fd, self._order[:_CHUNK])
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        self._order = self._order[written:]
        return bool(self._order)

    def _stop_feeding(self) -> None:
        if self._order_fd >= 0:
            os.close(self._order_fd)
            self._order_fd = -1

    def _listen(self) -> bool:
        """Take all there is to read; False at its end."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._answer_fd, _CHUNK):
                self.answer += chunk
                if len(self.answer) > self._longest:
                    return False
            return False
        return True
