"""Events in Redis streams, for consumers that read at their own pace."""

from ptkstore.adapters.streams.appending import RedisStreams

__all__ = ["RedisStreams"]
