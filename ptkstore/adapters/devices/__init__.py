"""Models that devices train, and their spent tickets, in a Redis that keeps nothing but what is newest."""

from ptkstore.adapters.devices.instances import RedisInstances
from ptkstore.adapters.devices.reports import RedisReports

__all__ = ["RedisInstances", "RedisReports"]
