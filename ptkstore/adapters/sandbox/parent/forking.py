"""Have a run forked by a process that has imported everything: the end of the process that has runs to do."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from ptkstore.adapters.sandbox.processes.fork_server import REFUSED, STARTED, STATUS
from ptkstore.adapters.sandbox.processes.process import Ended, Limits, Watch
from ptkstore.errors import NoProcess, Unavailable

_TRIES: Final = 2
_CLOSING_SECONDS: Final = 5.0


def run_fork(
    argv: Sequence[str],
    modules: Sequence[str],
    order: bytes,
    *,
    limits: Limits,
    directory: Path,
    environment: Mapping[str, str],
    keep_alive: Callable[[], None],
) -> Ended:
    """Run the program of a fork server once; nothing of its group outlives the call.

    If the server is gone, another one is started. Raises `NoProcess` where the machine has no room for another process
    and `Unavailable` where no server forks; nobody got the order then.

    Parameters
    ----------
    argv, environment, modules
        The server, which starts with this environment, and imports the modules before it forks.
    order, limits, directory
        The order that the fork gets after its limits are set, and the server never sees; the directory of the fork's
        work.
    keep_alive : callable
        Called about once a second; if it raises, the fork is killed first.
    """
    deadline = time.monotonic() + limits.timeout_seconds
    setup = {
        "modules": list(modules),
        "limits": [limits.timeout_seconds, limits.memory_bytes],
        "directory": str(directory),
    }
    refused = False
    for _ in range(_TRIES):
        with _used_server(tuple(argv), environment) as server, Watch(order) as watch, _Fork() as fork:
            if not fork.request(server, json.dumps(setup).encode(), watch):
                _drop(server)
                continue
            if watch.until(fork.fileno(), deadline, keep_alive, feeding=False):
                return Ended(b"", -signal.SIGKILL, timed_out=True)
            if (reply := fork.reply()) != STARTED:  # the order was not sent: no row was opened
                refused = reply == REFUSED
                if not refused:
                    _drop(server)
                continue
            timed_out = watch.until(fork.fileno(), deadline, keep_alive)
            return Ended(bytes(watch.answer), fork.end(), timed_out)
    if refused:
        raise NoProcess("the machine starts no process now")
    raise Unavailable("no process can be forked for a run")


class _Fork:
    """The channel on which the server tells of one fork; closing it ends the fork."""

    def __init__(self) -> None:
        self._started = False

    def __enter__(self) -> Self:
        self._channel, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._channel.close()

    def fileno(self) -> int:
        """Return what can be read once the server has sent something, or is gone."""
        return self._channel.fileno()

    def request(self, server: _Server, message: bytes, watch: Watch) -> bool:
        """Send the message with the ends of the run; False if nobody will read it."""
        with watch.theirs() as (order_fd, answer_fd), self._theirs:
            return server.send(message, (order_fd, answer_fd, self._theirs.fileno()))

    def reply(self) -> bytes:
        """The server's answer: `STARTED`, `REFUSED` by the machine, that it cannot, or nothing because it is gone."""
        reply = self._receive()
        self._started = reply == STARTED
        return reply

    def end(self) -> int:
        """End the fork, unless it has ended; its exit status, or minus the signal."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        reply = self._receive() if self._started else b""
        self._started = False
        # A server that is gone has taken its forks with it.
        return int(STATUS.unpack(reply)[0]) if len(reply) == STATUS.size else -signal.SIGKILL

    def _receive(self) -> bytes:
        try:
            return self._channel.recv(STATUS.size + len(STARTED))
        except OSError:
            return b""


class _Server:
    """A fork server that was started, with our end of its socket."""

    def __init__(self, argv: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.argv = argv
        self.users = 0
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*argv, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                cwd="/",
                env=dict(environment),
            )

    def send(self, message: bytes, fds: Sequence[int]) -> bool:
        """Ask for a fork; False if the server is gone."""
        try:
            socket.send_fds(self._socket, [message], list(fds))
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let it go, with all its forks."""
        self._socket.close()
        try:
            self._process.wait(_CLOSING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def abandon(self) -> None:
        """Forget it in a fork of its owner."""
        self._socket.close()
        self._process.returncode = 0  # it is no child of this process, which must not wait for it


_servers: dict[tuple[str, ...], _Server] = {}
_lock = threading.Lock()


@contextmanager
def _used_server(argv: tuple[str, ...], environment: Mapping[str, str]) -> Iterator[_Server]:
    """Lend a server to one run; one that was dropped is closed by its last user, since closing it ends all its runs."""
    with _lock:
        if argv not in _servers:
            try:
                _servers[argv] = _Server(argv, environment)
            except OSError:
                raise NoProcess("the machine starts no process now") from None
        server = _servers[argv]
        server.users += 1
    try:
        yield server
    finally:
        with _lock:
            server.users -= 1
            last = server.users == 0 and _servers.get(argv) is not server
        if last:
            server.close()


def _drop(server: _Server) -> None:
    """Have another one started next time."""
    with _lock:
        if _servers.get(server.argv) is server:
            del _servers[server.argv]


def _close_all() -> None:
    with _lock:
        servers = tuple(_servers.values())
        _servers.clear()
    for server in servers:
        server.close()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    for server in _servers.values():
        server.abandon()
    _servers.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
