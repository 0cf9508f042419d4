"""The process that forks runs: it has imported what they need, and has no key, no row and no connection.

One process that has runs to do starts it; it belongs to that process alone and ends with it. Each run is a fork: a
process of its own, with its own limits, session and directory. Its order comes through a pipe that only the fork reads.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from ptkstore.adapters.sandbox.processes import hardening
from ptkstore.adapters.sandbox.processes.process import Limits, limit

STARTED: Final = b"started"
REFUSED: Final = b"refused"
"""By the machine, which has no room for another process now."""
UNFIT: Final = b"unfit"
"""The server itself cannot fork."""
STATUS: Final = struct.Struct("<i")
NAME: Final = "ptk-forks"
RUN_NAME: Final = "ptk-run"
_MESSAGE_BYTES_MAX: Final = 1 << 16
_FDS: Final = 3  # of a message: order, answer, channel
_ANSWER_FD: Final = 3  # of a run: the first after input, output and errors
_LOOK_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 120.0


def serve(fd: int, parent: int, program: Callable[[int], None]) -> None:
    """Fork a process that runs `program` for each message on the socket `fd`, until nobody can send one any more.

    `program` gets the number of the descriptor to answer on. All runs end with the server. It also ends when nothing
    was asked of it for a while.
    """
    hardening.keep_secrets()
    hardening.name_process(NAME)
    # OpenDP imports polars where it is installed, and that starts a thread.
    sys.modules["polars"] = None  # type: ignore[assignment]
    _Server(socket.socket(fileno=fd), parent, program).serve()


class _Run:
    """A fork and its channel: whoever closes the other end of that ends the fork."""

    def __init__(self, pid: int, channel: int) -> None:
        self.pid = pid
        self.channel = channel
        self.exit_fd = os.pidfd_open(pid)

    def kill(self) -> None:
        """End it with its group. Not yet waited for, it keeps its number: neither can be a stranger's."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):  # it may not have a group of its own yet
            os.killpg(self.pid, signal.SIGKILL)

    def finish(self) -> None:
        """Tell how it ended, after killing its group."""
        self.kill()
        _, status = os.waitpid(self.pid, 0)
        with suppress(OSError):
            os.write(self.channel, STATUS.pack(os.waitstatus_to_exitcode(status)))
        os.close(self.channel)
        os.close(self.exit_fd)


class _Server:
    def __init__(self, messages: socket.socket, parent: int, program: Callable[[int], None]) -> None:
        self._messages, self._parent, self._program = messages, parent, program
        self._pid = os.getpid()
        self._runs: set[_Run] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(messages, selectors.EVENT_READ, self._receive)

    def serve(self) -> None:
        used_at = time.monotonic()
        try:
            # A fork of the parent may hold a copy of its end of the socket, so the parent itself is looked at too.
            while os.getppid() == self._parent and time.monotonic() - used_at < _IDLE_SECONDS:
                for key, _ in self._selector.select(_LOOK_SECONDS):
                    if not key.data():
                        return
                if self._runs:
                    used_at = time.monotonic()
        finally:
            for run in self._runs:
                run.kill()

    def _receive(self) -> bool:
        """Fork as a message asks; False once nobody can send one any more."""
        try:
            content, fds, _, _ = socket.recv_fds(self._messages, _MESSAGE_BYTES_MAX, _FDS)
        except ConnectionError:
            return False
        if not content:
            return False
        setup = json.loads(content)
        order, answer, channel = fds
        try:
            _load(setup["modules"])
            pid = _fork()
        except (OSError, RuntimeError) as error:
            with suppress(OSError):
                os.write(channel, REFUSED if isinstance(error, OSError) else UNFIT)
            for number in fds:
                os.close(number)
            return True
        if pid == 0:
            hardening.run_to_its_end(lambda: self._be_a_run(order, answer, setup))
        os.close(order)
        os.close(answer)
        self._watch(_Run(pid, channel))
        return True

    def _watch(self, run: _Run) -> None:
        def give_up() -> bool:
            if run not in self._runs:  # it has ended since the descriptors were looked at
                return True
            self._selector.unregister(run.channel)
            run.kill()
            return True

        def end() -> bool:
            self._selector.unregister(run.exit_fd)
            with suppress(KeyError):
                self._selector.unregister(run.channel)
            self._runs.remove(run)
            run.finish()
            return True

        self._runs.add(run)
        self._selector.register(run.channel, selectors.EVENT_READ, give_up)
        self._selector.register(run.exit_fd, selectors.EVENT_READ, end)
        with suppress(OSError):
            os.write(run.channel, STARTED)

    def _be_a_run(self, order: int, answer: int, setup: Mapping[str, Any]) -> None:
        """Give up what the server has open, be guarded and limited, and run the program."""
        os.setsid()
        hardening.die_with_parent()
        if not hardening.parent_is(self._pid):
            return
        hardening.name_process(RUN_NAME)
        _keep_only(order, answer)
        limit(os.getpid(), Limits(*setup["limits"]))
        os.chdir(setup["directory"])
        os.environ["TMPDIR"], tempfile.tempdir = setup["directory"], None
        _share_no_randomness()
        self._program(_ANSWER_FD)


def _load(modules: Iterable[str]) -> None:
    """Import what the run needs, once for all later ones; what fails here fails in the run, which has a code for it."""
    missing = [name for name in modules if name not in sys.modules]
    for name in missing:
        with suppress(Exception):
            import_module(name)
    if missing:
        gc.collect()
        gc.freeze()  # so that collections in runs copy no page of it


def _fork() -> int:
    """Fork a process with one thread; `RuntimeError` if there are more, of which a fork would have half."""
    if len(os.listdir("/proc/self/task")) > 1:
        raise RuntimeError("a library has started a thread while it was imported")
    return os.fork()


def _keep_only(order: int, answer: int) -> None:
    """Read the order as input, answer on `_ANSWER_FD`, close all else."""
    kept = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 1 + _ANSWER_FD) for number in (order, answer)]
    os.dup2(kept[0], 0)
    os.dup2(kept[1], _ANSWER_FD, inheritable=False)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > _ANSWER_FD:
            with suppress(OSError):  # the list itself was open
                os.close(int(name))


def _share_no_randomness() -> None:
    """Python seeds `random` anew in a fork; numpy does not. No noise is drawn from either."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
