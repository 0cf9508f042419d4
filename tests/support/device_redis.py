"""Fixtures of tests that look into the Redis of devices: a database that is empty as a test begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from ptkstore.adapters.devices import RedisInstances
from ptkstore.adapters.processes import ForgetfulRedisServer
from tests.support.device_streams import fresh_database

__all__ = ["client", "instances", "url"]


@pytest.fixture
def url(devices_redis: ForgetfulRedisServer) -> str:
    """Of the database."""
    return fresh_database(devices_redis, 3)


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    """Of the database."""
    with redis.Redis.from_url(url) as made:
        yield made


@pytest.fixture
def instances(url: str) -> Iterator[RedisInstances]:
    """Those of the database; none has begun."""
    made = RedisInstances(url)
    yield made
    made.close()
