"""Whether a Redis forgets what is overwritten."""

from __future__ import annotations

from typing import Any

from ptkstore.errors import Refused

# What would keep what devices send, and the value with which it keeps nothing.
_FORGETS = {"save": "", "appendonly": "no", "slowlog-log-slower-than": "-1", "crash-log-enabled": "no"}
_NEVER_EVICTS = {"maxmemory-policy": "noeviction"}
_ADVICE = (
    "start one with: redis-server --save '' --appendonly no --slowlog-log-slower-than -1 "
    "--crash-log-enabled no --maxmemory-policy noeviction"
)


def check_forgets(client: Any) -> None:
    """Raise `Refused` unless the server keeps no file, log or copy of what it is sent, and evicts no spent ticket.

    An append-only file keeps each device's model before and after. A slow log keeps commands, with what they wrote, and
    a log of a crash the command that was at work. A replica may keep any of these.
    """
    from redis.exceptions import ResponseError

    try:
        found = {name: client.config_get(name).get(name) for name in _FORGETS | _NEVER_EVICTS}
        copied = client.info("replication")
    except ResponseError:
        raise Refused(
            "the devices' Redis does not let CONFIG GET and INFO tell whether it keeps what devices send; "
            + _ADVICE
        ) from None
    for name, value in (_FORGETS | _NEVER_EVICTS).items():
        if found[name] != value:
            why = "evicts spent tickets" if name in _NEVER_EVICTS else "keeps what devices send"
            raise Refused(f"the devices' Redis {why}: its {name} is {found[name]!r}; {_ADVICE}")
    if copied.get("role") != "master" or int(copied.get("connected_slaves", 0)):
        raise Refused(f"the devices' Redis has a copy elsewhere, which may keep what devices send; {_ADVICE}")
