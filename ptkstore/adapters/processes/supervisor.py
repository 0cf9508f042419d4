"""Keep named commands running until told to stop."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ptkstore.adapters.processes.children import Child, spawn
from ptkstore.adapters.processes.logs import LARGEST_BYTES, open_log, rotate
from ptkstore.adapters.processes.private_paths import Lock, is_locked, make_home, private_directory
from ptkstore.adapters.processes.spawner import spawner
from ptkstore.application.operations.essential_thread import EssentialThread
from ptkstore.errors import InvalidRequest

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
LOOK_EVERY_SECONDS = 0.05
TEND_EVERY_SECONDS = 1.0
LOCK = "supervisor.lock"
LOOKED_AT_SECONDS = 0.2
"""How long to wait for the lock: somebody who looks whether it is held has it for a moment."""

Listener = Callable[[str, int, int | None], None]
"""Told the name, the pid, and the exit code (None at a start, negative after a signal).

It is called in the supervisor's thread: it must neither raise nor stop the supervisor."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command to keep running. Commands of a higher tier are stopped before those of a lower one."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] | None = None
    tier: int = 1
    keep_fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildStatus:
    """How a command fares; `pid` is None while it waits for its next start."""

    name: str
    pid: int | None
    starts: int
    failures: int  # deaths in a row, none of them after a healthy while
    last_exit_code: int | None


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits in seconds: before restarts (doubling from first to longest), and before TERM becomes KILL."""

    first: float = 0.2
    longest: float = 10.0
    healthy: float = 10.0  # who ran that long starts again after the first wait
    grace: float = 10.0

    def before_restart(self, failures: int) -> float:
        """Return the wait after so many deaths in a row, the last one not counted."""
        return min(self.first * 2.0 ** min(failures, 30), self.longest)


@dataclass(slots=True)
class _Kept:
    command: Command
    child: Child | None = None
    started_at: float = 0.0
    next_start: float = 0.0
    failures: int = 0
    starts: int = 0
    last_exit_code: int | None = None
    news: list[tuple[int, int | None]] = field(default_factory=list)


class Supervisor:
    """Runs commands, restarts them when they die, and takes them all with it when it dies itself.

    Output of a command goes to `<home>/log/<name>.log`. A command's whole process group ends with its leader.

    Parameters
    ----------
    home, largest_log_bytes : Path, int
        The folder of locks and logs, and the size at which a log is rotated.
    listener, waits : Listener or None, Waits or None
        The observer of starts and ends, and the waits before restarts and for ends.
    exclusive : bool
        Refuse to start while another supervisor runs in this home.
    """

    def __init__(
        self,
        home: Path,
        *,
        listener: Listener | None = None,
        waits: Waits | None = None,
        exclusive: bool = True,
        largest_log_bytes: int = LARGEST_BYTES,
    ) -> None:
        self._home = home.absolute()
        self._log_directory = self._home / "log"
        self._listener = listener
        self._waits = waits if waits is not None else Waits()
        self._exclusive = exclusive
        self._largest_log_bytes = largest_log_bytes
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._home_lock: Lock | None = None

    def start(self) -> Self:
        """Begin to watch.

        Raises
        ------
        Conflict
            When another supervisor runs in this home.
        Refused
            When its logs would be among somebody else's files; nothing was written then.
        """
        if self._thread is not None:
            raise InvalidRequest("this supervisor has been started before; make a new one")
        make_home(self._home)
        # First: in a home that is refused no lock is left.
        private_directory(self._log_directory, tighten=True)
        if self._exclusive:
            held = f"the service runs in {self._home} already (ptk up or ptk demo); stop it first, or use another home"
            self._home_lock = Lock(self._home / LOCK, wait_seconds=LOOKED_AT_SECONDS, held=held)
        self._thread = EssentialThread(self._watch, "supervisor")
        self._thread.start()
        return self

    def run(self, command: Command) -> None:
        """Start a command now and keep it running."""
        if not NAME.fullmatch(command.name):
            raise InvalidRequest(f"{command.name!r} cannot name a command; it must match {NAME.pattern}")
        if not command.argv:
            raise InvalidRequest(f"command {command.name!r} has nothing to run")
        with self._lock:
            if self._thread is None or self._stopping.is_set():
                raise InvalidRequest(f"the supervisor does not run, so it cannot run {command.name!r}")
            if command.name in self._kept:
                raise InvalidRequest(f"a command {command.name!r} is already kept running")
            self._kept[command.name] = _Kept(command)
            self._start(self._kept[command.name])
        self._tell_news()

    def remove(self, name: str) -> None:
        """Stop one command for good; nothing happens if there is none of this name."""
        with self._lock:
            kept = self._kept.pop(name, None)
        if kept is not None:
            self._end([kept])

    def status(self) -> tuple[ChildStatus, ...]:
        """Tell how all commands fare, in the order in which they were given."""
        with self._lock:
            return tuple(_status(kept) for kept in self._kept.values())

    def stop(self) -> None:
        """End all commands, highest tier first: TERM, then KILL after the grace. Twice is harmless."""
        with self._lock:
            self._stopping.set()
            kept = list(self._kept.values())
            self._kept.clear()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        for tier in sorted({one.command.tier for one in kept}, reverse=True):
            self._end([one for one in kept if one.command.tier == tier])
        if self._home_lock is not None:
            self._home_lock.release()
            self._home_lock = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _watch(self) -> None:
        next_tending = 0.0
        while not self._stopping.wait(LOOK_EVERY_SECONDS):
            with self._lock:
                for kept in self._kept.values():
                    self._look_at(kept)
            self._tell_news()
            if time.monotonic() >= next_tending:
                next_tending = time.monotonic() + TEND_EVERY_SECONDS
                self._tend()

    def _look_at(self, kept: _Kept) -> None:
        now = time.monotonic()
        if kept.child is None:
            if now >= kept.next_start:
                self._start(kept)
            return
        code = kept.child.exit_code()
        if code is not None:
            if now - kept.started_at >= self._waits.healthy:
                kept.failures = 0
            self._ended(kept, kept.child.pid, code)

    def _start(self, kept: _Kept) -> None:
        command = kept.command
        kept.started_at = time.monotonic()
        try:
            log = open_log(self._log_directory / f"{command.name}.log")
            try:
                kept.child = spawn(command.argv, env=command.env, output=log, keep_fds=command.keep_fds)
            finally:
                os.close(log)
        except OSError:  # no memory, no processes, no files left: as if it had died at once
            self._wait_longer(kept)
            return
        kept.starts += 1
        kept.news.append((kept.child.pid, None))

    def _ended(self, kept: _Kept, pid: int, code: int) -> None:
        kept.child = None
        kept.last_exit_code = code
        kept.news.append((pid, code))
        self._wait_longer(kept)

    def _wait_longer(self, kept: _Kept) -> None:
        kept.next_start = time.monotonic() + self._waits.before_restart(kept.failures)
        kept.failures += 1

    def _end(self, ending: list[_Kept]) -> None:
        """End these; they are no longer kept, so nobody else starts or watches them."""
        until = time.monotonic() + self._waits.grace
        running = [(kept, kept.child) for kept in ending if kept.child is not None]
        for _, child in running:
            child.terminate()
        for kept, child in running:
            code = child.wait(max(0.0, until - time.monotonic()))
            if code is None:
                child.kill()
                code = child.wait()
            if code is not None:
                self._ended(kept, child.pid, code)
        for kept in ending:
            self._tell(kept)

    def _tend(self) -> None:
        spawner().ensure_guard()
        with self._lock:
            names = list(self._kept)
        for name in names:
            with suppress(OSError):  # a full disk; a second later it may have room
                rotate(self._log_directory / f"{name}.log", self._largest_log_bytes)

    def _tell_news(self) -> None:
        with self._lock:
            everyone = list(self._kept.values())
        for kept in everyone:
            self._tell(kept)

    def _tell(self, kept: _Kept) -> None:
        with self._lock:
            news, kept.news = kept.news, []
        if self._listener is not None:
            for pid, code in news:
                self._listener(kept.command.name, pid, code)


def kept_running(home: Path) -> bool:
    """Tell whether a supervisor keeps the processes of this home running."""
    return is_locked(home / LOCK)


def _status(kept: _Kept) -> ChildStatus:
    pid = None if kept.child is None else kept.child.pid
    return ChildStatus(kept.command.name, pid, kept.starts, kept.failures, kept.last_exit_code)
