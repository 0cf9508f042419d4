"""Append events to Redis streams, each once."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ptkstore.domain.subscriptions import STREAM_LENGTH
from ptkstore.errors import Unavailable
from ptkstore.ports.messages import STREAM_UNAVAILABLE, Delivered, Message, NotDelivered

if TYPE_CHECKING:
    from redis import Redis

PATIENCE_SECONDS = 5.0
# KEYS: the stream, and what was appended to it. ARGV: field, number, length, then the entry's fields and values.
# Versions of a subscription come in order: the highest number says which are there. A dead letter that is sent again
# comes out of order, and has a field of its own.
_APPEND = """
local last = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
if tonumber(ARGV[2]) <= last then
    return 0
end
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, 4))
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
return 1
"""
# KEYS: what was appended. ARGV: field, and the number before the one that may come again.
_FORGET = """
if tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or '0') > tonumber(ARGV[2]) then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
"""


class RedisStreams:
    """Streams in the service's Redis; an entry has the fields `id`, `type` and `body`.

    The codes of `NotDelivered`: `stream-unavailable`, `stream-refused`.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def append(
        self, key: str, message: Message, number: int, *, redelivered: bool
    ) -> Delivered | NotDelivered:
        """Append a message unless it is there; appending and remembering are one step for Redis."""
        from redis.exceptions import ConnectionError, RedisError, TimeoutError

        field = message.id if redelivered else _subscription(message.id)
        entry = ["id", message.id, "type", json.loads(message.body)["type"], "body", message.body]
        try:
            self._append(keys=[key, _memory(key)], args=[field, number, STREAM_LENGTH, *entry])
        except (ConnectionError, TimeoutError):
            return NotDelivered(STREAM_UNAVAILABLE)
        except RedisError:  # out of memory, or the key is something else
            return NotDelivered("stream-refused")
        return Delivered()

    def forget(self, key: str, message_id: str, number: int) -> None:
        """Let a message be appended once more, if it was; `Unavailable` if Redis does not answer, or refuses it."""
        from redis.exceptions import RedisError

        try:
            self._forget(keys=[_memory(key)], args=[_subscription(message_id), number - 1])
        except RedisError:
            raise Unavailable("the streams of events cannot be written to; retry later") from None

    def close(self) -> None:
        """Give connections back."""
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> Redis:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        return redis.Redis.from_url(
            self._url,
            socket_timeout=PATIENCE_SECONDS,
            socket_connect_timeout=PATIENCE_SECONDS,
            retry=Retry(NoBackoff(), 1),  # a connection of before a restart; whoever calls tries again later
        )

    @cached_property
    def _append(self) -> Any:
        return self._client.register_script(_APPEND)

    @cached_property
    def _forget(self) -> Any:
        return self._client.register_script(_FORGET)


def _memory(key: str) -> str:
    """Return the key of what was appended to a stream."""
    return f"{key}:appended"


def _subscription(message_id: str) -> str:
    """Return the field whose value is the highest number that a subscription has appended."""
    return message_id.rpartition("_")[0]
