"""The configuration file that consumers share."""

import os
from pathlib import Path

import pytest

from ptkstore.adapters.feast import RedisOnline, SqliteOnline, write_repo
from ptkstore.errors import InvalidRequest


def mode(path: Path) -> int:
    return os.stat(path).st_mode & 0o777


def parsed(folder: Path):
    from feast.repo_config import load_repo_config

    return load_repo_config(folder, folder / "feature_store.yaml")


def test_feast_reads_the_file_as_meant(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME_DIR", "expanded")
    url = "postgresql://me:p$HOME_DIR%40@db.example:5433/registry?sslmode=require"
    write_repo(tmp_path, url, RedisOnline.from_url("redis://svc:1e5@cache.example/3"), cache_ttl_seconds=7)
    config = parsed(tmp_path)
    assert config.project == "ptk"
    assert config.registry.path == url.replace("postgresql:", "postgresql+psycopg:")
    assert config.registry.cache_ttl_seconds == 7
    assert config.registry.enable_online_feature_view_versioning is True
    assert config.registry.schema_mode == "verify"
    assert config.online_store.type == "redis"
    assert config.offline_store.type == "dask"
    assert config.entity_key_serialization_version == 3


@pytest.mark.parametrize(
    ("url", "nodes", "options"),
    [
        ("redis://cache", ("cache", "6379"), {}),
        ("redis://:1e5@cache:7000/2", ("cache", "7000"), {"db": 2, "password": "1e5"}),
        ("rediss://u:p%3D$x@cache", ("cache", "6379"), {"ssl": True, "username": "u", "password": "p=$x"}),
        ("unix:///run/r.sock?db=1", ("localhost", "0"), {"unix_socket_path": "/run/r.sock", "db": 1}),
        (
            "redis+socket:///run/r.sock?virtual_host=4",
            ("localhost", "0"),
            {"unix_socket_path": "/run/r.sock", "db": 4},
        ),
    ],
)
def test_feast_gets_every_part_of_a_redis_url(tmp_path, url, nodes, options):
    from feast.infra.online_stores.redis import RedisOnlineStore

    write_repo(tmp_path, f"sqlite:///{tmp_path}/r.db", RedisOnline.from_url(url))
    startup, given = RedisOnlineStore._parse_connection_string(
        parsed(tmp_path).online_store.connection_string
    )
    assert [(node["host"], node["port"]) for node in startup] == [nodes]
    assert given == {**options, "socket_connect_timeout": 5, "socket_timeout": 30}


@pytest.mark.parametrize("url", ["http://cache", "redis://", "redis://:a%2Cb@cache", "redis://cache/one"])
def test_a_redis_url_that_feast_cannot_use_is_refused_without_its_secrets(url):
    with pytest.raises(InvalidRequest) as refused:
        RedisOnline.from_url(url)
    assert "a,b" not in str(refused.value)
    assert "a%2Cb" not in str(refused.value)


@pytest.mark.parametrize(
    ("registry", "online", "expected"),
    [
        ("sqlite:////r.db", SqliteOnline(), 0o644),
        ("sqlite:////r.db", RedisOnline.from_url("redis://cache"), 0o644),
        ("sqlite:////r.db", RedisOnline.from_url("redis://:secret@cache"), 0o600),
        ("postgresql://u:secret@db/x", SqliteOnline(), 0o600),
        ("postgresql://u@db/x?password=secret", SqliteOnline(), 0o600),
        ("postgresql://u@db/x?sslmode=require", SqliteOnline(), 0o644),
    ],
)
def test_a_file_with_a_password_is_for_its_owner_only(tmp_path, registry, online, expected):
    target = write_repo(tmp_path / "new" / "repo", registry, online)
    assert mode(target) == expected


def test_writing_again_changes_nothing_unless_something_differs(tmp_path):
    def write(ttl: int) -> tuple[int, int]:
        target = write_repo(
            tmp_path, "sqlite:////r.db", RedisOnline.from_url("redis://:s@c"), cache_ttl_seconds=ttl
        )
        return os.stat(target).st_ino, mode(target)

    first = write(2)
    assert write(2) == first
    os.chmod(tmp_path / "feature_store.yaml", 0o644)
    assert write(2)[1] == 0o600
    before = (tmp_path / "feature_store.yaml").read_text()
    write(3)
    assert (tmp_path / "feature_store.yaml").read_text() != before
    assert os.listdir(tmp_path) == ["feature_store.yaml"]


def test_a_file_registry_or_an_endless_cache_is_refused(tmp_path):
    with pytest.raises(InvalidRequest, match="file registries lose updates"):
        write_repo(tmp_path, "s3://bucket/registry.pb", SqliteOnline())
    with pytest.raises(InvalidRequest, match="at least 1"):
        write_repo(tmp_path, "sqlite:////r.db", SqliteOnline(), cache_ttl_seconds=0)
    assert os.listdir(tmp_path) == []
