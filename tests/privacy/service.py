"""A running service seen from outside: what its processes, its Redis and its files show."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import psutil
import redis


def process_texts() -> Iterator[tuple[str, bytes]]:
    """Command lines and environments of all descendants of this process, with their names."""
    for child in psutil.Process(os.getpid()).children(recursive=True):
        for name in ("cmdline", "environ"):
            with suppress(OSError), open(f"/proc/{child.pid}/{name}", "rb") as file:
                yield f"{name} of {child.pid}", file.read()


def redis_values(url: str) -> Iterator[tuple[str, bytes]]:
    """Every key of every database of a Redis, with its content as the server dumps it and as commands read it."""
    for database in range(16):
        with suppress(redis.exceptions.ConnectionError), redis.Redis.from_url(url, db=database) as client:
            for key in client.scan_iter():
                yield f"redis {key!r}", b"\n".join([key, client.dump(key) or b"", _content(client, key)])


def _content(client: redis.Redis, key: bytes) -> bytes:
    read = {
        b"string": lambda: client.get(key),
        b"hash": lambda: client.hgetall(key),
        b"list": lambda: client.lrange(key, 0, -1),
        b"set": lambda: client.smembers(key),
        b"zset": lambda: client.zrange(key, 0, -1, withscores=True),
        b"stream": lambda: client.xrange(key),
    }
    kind = client.type(key)
    found = read[kind]() if kind in read else None  # b"none": it expired meanwhile
    return b"\n".join(_leaves(found))


def _leaves(found: object) -> Iterator[bytes]:
    if isinstance(found, bytes):
        yield found
    elif isinstance(found, dict):
        for key, value in found.items():
            yield from (*_leaves(key), *_leaves(value))
    elif isinstance(found, list | tuple | set):
        for one in found:
            yield from _leaves(one)
    elif found is not None:
        yield str(found).encode()
