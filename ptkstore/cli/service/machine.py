"""All processes of the service on one machine, kept running."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from ptkstore.adapters.processes import (
    Command,
    ForgetfulRedisServer,
    Listener,
    RedisServer,
    Supervisor,
    check_port,
)
from ptkstore.errors import Unavailable
from ptkstore.settings import Settings
from ptkstore.wiring.adapters import Adapters

PROCESSES = ("worker", "relay", "schedule")


@contextmanager
def running(
    settings: Settings, *, api_port: int | None = None, listener: Listener | None = None
) -> Iterator[Supervisor]:
    """Run workers, relay and schedule, and what Redis they need, as long as this block.

    That is a redis-server unless `PTK_REDIS_URL` names one, and another for models that devices train unless
    `PTK_DEVICES_REDIS_URL` does. With `api_port` also the HTTP API and the console, on loopback. The `listener` is told
    of each start and end.
    """
    modules: dict[str, tuple[str, ...]] = {name: (f"workers.{name}",) for name in PROCESSES}
    if api_port is not None:
        modules["api"] = ("ptkstore.serving", "--port", str(api_port))
    with Supervisor(settings.root, listener=listener) as supervisor:
        if api_port is not None:  # a server that cannot listen would be started again for ever
            check_port("127.0.0.1", api_port, option="--api-port")
        if settings.devices_redis_url is not None:
            _check_forgets(settings)
        servers = [
            kind(settings.root, supervisor=supervisor).start()
            for kind, elsewhere in (
                (RedisServer, settings.redis_url),
                (ForgetfulRedisServer, settings.devices_redis_url),
            )
            if elsewhere is None
        ]
        for name, module in modules.items():
            supervisor.run(Command(name, (sys.executable, "-m", *module), env=environment(settings), tier=2))
        try:
            yield supervisor
        finally:
            for name in modules:
                supervisor.remove(name)
            for server in servers:
                server.stop()


def _check_forgets(settings: Settings) -> None:
    """Raise `Refused` if the Redis that is named for devices keeps what they send; one that is away may come."""
    with closing(Adapters(settings)) as adapters, suppress(Unavailable):
        adapters.instances.check()


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment in which a child process finds the same settings."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PTK_")}
    for name in settings.model_fields_set:
        value = getattr(settings, name)
        if value is None:
            continue
        env[f"PTK_{name.upper()}"] = ",".join(value) if isinstance(value, tuple) else str(value)
    env["PTK_HOME"] = str(settings.root)
    return env
