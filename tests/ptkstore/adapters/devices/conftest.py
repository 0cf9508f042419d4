"""The Redis of devices, looked into."""

from tests.support.device_redis import client, instances, url

__all__ = ["client", "instances", "url"]
