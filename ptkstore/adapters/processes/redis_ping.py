"""Whether a Redis answers."""

from __future__ import annotations

WAIT_SECONDS = 1.0


def answers_ping(url: str) -> bool:
    """Ask once, and wait a second at most."""
    import redis

    try:
        client = redis.Redis.from_url(
            url, socket_timeout=WAIT_SECONDS, socket_connect_timeout=WAIT_SECONDS, retry=None
        )
        with client:
            return bool(client.ping())
    except (redis.RedisError, OSError, ValueError):
        return False
