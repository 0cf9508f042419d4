"""The embedded Redis: real, private, durable, one per home."""

from __future__ import annotations

import os
import signal
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis
from kombu.connection import Connection

from ptkstore.adapters.feast.repo import RedisOnline
from ptkstore.adapters.processes import Command, RedisServer, Supervisor
from ptkstore.adapters.processes.private_paths import Lock, private_directory, socket_directory
from ptkstore.errors import Conflict, Refused, Unavailable
from tests.support.processes import other_process, wait_until
from tests.support.waiting import lives

RUNS_REDIS = """
    import signal, sys
    from pathlib import Path
    from ptkstore.adapters.processes import RedisServer
    RedisServer(Path(sys.argv[1])).start()
    print("ready", flush=True)
    signal.pause()
"""

HOLDS_A_LOCK = """
    import signal, sys
    from pathlib import Path
    from ptkstore.adapters.processes.private_paths import Lock
    lock = Lock(Path(sys.argv[1]), 0.0, "")
    print("held", flush=True)
    signal.pause()
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    yield home
    sockets = socket_directory(home)
    if sockets.is_dir() and not sockets.is_symlink():
        for left in sockets.iterdir():
            left.unlink()
        sockets.rmdir()
    elif sockets.is_symlink():
        sockets.unlink()


def client_of(server: RedisServer) -> Any:
    return redis.Redis.from_url(server.client_url)


def pid_of(server: RedisServer) -> int:
    return int(client_of(server).info("server")["process_id"])


def test_one_server_is_reached_by_the_urls_for_clients_celery_and_feast(home: Path) -> None:
    with RedisServer(home) as server:
        client_of(server).set("greeting", "hello")
        with Connection(server.celery_url) as connection:
            assert connection.default_channel.client.get("greeting") == b"hello"
        from feast.infra.online_stores.redis import RedisOnlineStore, RedisOnlineStoreConfig

        config = RedisOnlineStoreConfig(
            connection_string=RedisOnline.from_url(server.celery_url).connection_string
        )
        assert RedisOnlineStore()._get_client(config).get("greeting") == b"hello"


def test_it_writes_everything_down_evicts_nothing_and_listens_on_no_port(home: Path) -> None:
    with RedisServer(home) as server:
        client = client_of(server)
        wanted = {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
            "port": "0",
            "save": "",
            "dir": str(home / "redis"),
        }
        assert {name: client.config_get(name)[name] for name in wanted} == wanted
        assert psutil.Process(pid_of(server)).net_connections("inet") == []


def test_only_its_owner_reaches_the_socket_and_the_data(home: Path) -> None:
    with RedisServer(home) as server:
        path = Path(server.client_url.removeprefix("unix://"))
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "redis").stat().st_mode) == 0o700
    assert not path.parent.exists()


def test_the_socket_is_short_and_the_same_for_every_spelling_of_a_home(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("é" * 60)
    assert len(os.fsencode(RedisServer(deep).client_url.removeprefix("unix://"))) < 100
    assert RedisServer(deep).client_url == RedisServer(deep / ".." / deep.name).client_url
    assert RedisServer(deep).client_url != RedisServer(tmp_path).client_url


def test_acknowledged_writes_survive_a_kill_9_and_it_comes_back(home: Path) -> None:
    with RedisServer(home) as server:
        client = client_of(server)
        for number in range(500):
            client.rpush("numbers", number)
        killed = pid_of(server)
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not lives(killed))
        wait_until(server.answers)
        assert [int(value) for value in client_of(server).lrange("numbers", 0, -1)] == list(range(500))
        assert pid_of(server) != killed


def test_data_outlive_a_stop(home: Path) -> None:
    with RedisServer(home) as server:
        client_of(server).set("kept", "yes")
    assert not server.answers()
    with RedisServer(home) as server:
        assert client_of(server).get("kept") == b"yes"
    server.stop()


def test_after_a_kill_9_of_its_supervisor_the_next_start_finds_the_data(home: Path) -> None:
    with other_process(RUNS_REDIS, home) as supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == "ready\n"
        server = RedisServer(home)
        client_of(server).set("kept", "yes")
        orphan = pid_of(server)
        supervisor.kill()
        with server:  # at once: the orphan may still be dying
            assert client_of(server).get("kept") == b"yes"
            assert not lives(orphan)


def test_a_start_waits_for_an_orphan_to_end(home: Path) -> None:
    (home / "redis").mkdir(parents=True)
    with other_process(HOLDS_A_LOCK, home / "redis" / "server.lock") as orphan:
        assert orphan.stdout is not None
        orphan.stdout.readline()
        ends = threading.Timer(0.3, orphan.kill)
        ends.start()
        with RedisServer(home) as server:
            assert server.answers()
        ends.join()


@pytest.mark.long
def test_two_servers_never_run_in_one_home(home: Path) -> None:
    with RedisServer(home) as first:
        client_of(first).set("kept", "yes")
        running = pid_of(first)
        with pytest.raises(Conflict, match=rf"already running; stop it first.*\(process {os.getpid()}\)"):
            RedisServer(home).start()
        assert pid_of(first) == running
        assert client_of(first).get("kept") == b"yes"


def test_the_server_itself_holds_the_lock_of_its_data(home: Path) -> None:
    with other_process(RUNS_REDIS, home) as supervisor:
        assert supervisor.stdout is not None
        supervisor.stdout.readline()
        server = pid_of(RedisServer(home))
        inode = (home / "redis" / "server.lock").stat().st_ino
        assert inode in [os.stat(f"/proc/{server}/fd/{fd}").st_ino for fd in os.listdir(f"/proc/{server}/fd")]


def test_it_can_be_one_command_of_a_supervisor_that_runs_more(home: Path) -> None:
    with Supervisor(home) as supervisor:
        server = RedisServer(home, supervisor=supervisor).start()
        supervisor.run(Command("worker", ("sleep", "600")))
        assert [one.name for one in supervisor.status()] == ["redis", "worker"]
        server.stop()
        assert [one.name for one in supervisor.status()] == ["worker"]
        server.start()
        assert server.answers()
        server.stop()


def test_a_supervisor_that_stops_ends_the_server_after_everything_else(home: Path) -> None:
    ended: list[str] = []

    def listen(name: str, _: int, code: int | None) -> None:
        if code is not None:
            ended.append(f"{name} {code}")

    with Supervisor(home, listener=listen) as supervisor:
        RedisServer(home, supervisor=supervisor).start()
        supervisor.run(Command("worker", ("sleep", "600")))
    assert ended == ["worker -15", "redis 0"]


@pytest.mark.long
def test_a_server_that_cannot_start_says_where_to_look_and_frees_the_home(home: Path) -> None:
    (home / "redis").mkdir(parents=True)
    (home / "redis" / "appendonly.aof").write_bytes(b"this is no append-only file\r\n")
    with pytest.raises(Unavailable, match=r"does not answer; see .*log/redis\.log"):
        RedisServer(home).start()
    assert "Bad file format" in (home / "log" / "redis.log").read_text()
    (home / "redis" / "appendonly.aof").unlink()
    with RedisServer(home) as server:
        assert server.answers()


@pytest.mark.parametrize(("mode", "shown"), [(0o755, "0755"), (0o770, "0770"), (0o500, "0500")])
def test_a_socket_directory_with_another_mode_is_refused(home: Path, mode: int, shown: str) -> None:
    socket_directory(home).mkdir()
    socket_directory(home).chmod(mode)
    with pytest.raises(Refused, match=f"has mode {shown} where 0700 is needed"):
        RedisServer(home).start()


def test_a_link_in_the_place_of_the_socket_directory_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    socket_directory(home).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="is not a directory"):
        RedisServer(home).start()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.raises(Refused, match=f"belongs to user {me}, not to user {me + 1}"):
        private_directory(tmp_path / "theirs", tighten=True)


def test_a_directory_within_the_home_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    private_directory(tmp_path / "open", tighten=True)
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700
    old = os.umask(0o277)
    try:
        assert stat.S_IMODE(private_directory(tmp_path / "new").stat().st_mode) == 0o700
    finally:
        os.umask(old)


def test_a_lock_waits_for_a_holder_that_lets_go(tmp_path: Path) -> None:
    with other_process(HOLDS_A_LOCK, tmp_path / "lock") as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Conflict, match=rf"^taken \(process {holder.pid}\)\n"):
            Lock(tmp_path / "lock", 0.0, "taken")
        holder.kill()
        Lock(tmp_path / "lock", 20.0, "taken").release()
    Lock(tmp_path / "lock", 0.0, "taken").release()
