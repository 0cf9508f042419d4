"""A Redis that may keep what devices send is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ptkstore.adapters.devices import RedisInstances
from ptkstore.adapters.processes import ForgetfulRedisServer, RedisServer
from ptkstore.errors import Refused, Unavailable

KEEPS = {
    "save": "3600 1",
    "appendonly": "yes",
    "slowlog-log-slower-than": "10000",
    "crash-log-enabled": "yes",
    "maxmemory-policy": "allkeys-lru",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ForgetfulRedisServer]:
    with ForgetfulRedisServer(tmp_path / "home") as server:
        yield server


def client_of(server: RedisServer) -> Any:
    return redis.Redis.from_url(server.client_url)


def check(server: RedisServer) -> None:
    instances = RedisInstances(server.client_url)
    try:
        instances.check()
    finally:
        instances.close()


def test_the_server_of_a_home_is_taken_and_leaves_no_file(
    server: ForgetfulRedisServer, tmp_path: Path
) -> None:
    check(server)
    client = client_of(server)
    client.hset("ptkd:team.model:e:instances", "0", b"weights")
    server.stop()
    assert [path.name for path in (tmp_path / "home" / "devices-redis").iterdir()] == ["server.lock"]
    assert b"weights" not in (tmp_path / "home" / "log" / "devices-redis.log").read_bytes()


@pytest.mark.parametrize("option", KEEPS)
def test_a_server_that_keeps_anything_is_refused_with_the_reason(
    server: ForgetfulRedisServer, option: str
) -> None:
    client_of(server).config_set(option, KEEPS[option])
    with pytest.raises(Refused, match=f"its {option} is '{KEEPS[option]}'.*redis-server --save ''"):
        check(server)


@pytest.mark.parametrize(
    "command", ["SAVE", "BGSAVE", "BGREWRITEAOF", "MONITOR", "SYNC", "PSYNC", "DEBUG", "REPLICAOF"]
)
def test_nobody_can_have_the_server_of_a_home_write_copy_or_show(
    server: ForgetfulRedisServer, command: str
) -> None:
    with pytest.raises(redis.ResponseError, match="unknown command"):
        client_of(server).execute_command(command)


def test_the_ordinary_server_of_a_home_is_refused(redis_server: RedisServer) -> None:
    with pytest.raises(Refused, match="keeps what devices send"):
        check(redis_server)


def test_a_replica_and_a_server_with_replicas_are_refused(tmp_path: Path) -> None:
    class Copied(ForgetfulRedisServer):
        disabled = ()

    with Copied(tmp_path / "first") as first, Copied(tmp_path / "second") as second:
        client_of(first).config_set("repl-diskless-sync-delay", 0)
        client_of(second).execute_command("REPLICAOF", "127.0.0.1", "1")
        with pytest.raises(Refused, match="has a copy elsewhere"):
            check(second)
        check(first)


def test_a_server_that_does_not_say_is_refused(tmp_path: Path) -> None:
    class Silent(ForgetfulRedisServer):
        disabled = ("CONFIG",)

    with Silent(tmp_path / "home") as server, pytest.raises(Refused, match="does not let CONFIG GET"):
        check(server)


def test_a_server_that_is_away_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not answer"):
        check(ForgetfulRedisServer(tmp_path / "home"))
