"""Child processes of one machine: real servers and workers that never outlive their supervisor."""

from ptkstore.adapters.processes.listening import check_port, listen
from ptkstore.adapters.processes.one_time_links import OneTimeLinks
from ptkstore.adapters.processes.private_paths import make_home
from ptkstore.adapters.processes.redis_ping import answers_ping
from ptkstore.adapters.processes.redis_server import ForgetfulRedisServer, RedisServer
from ptkstore.adapters.processes.supervisor import ChildStatus, Command, Listener, Supervisor, kept_running

__all__ = [
    "ChildStatus",
    "Command",
    "ForgetfulRedisServer",
    "Listener",
    "OneTimeLinks",
    "RedisServer",
    "Supervisor",
    "answers_ping",
    "check_port",
    "kept_running",
    "listen",
    "make_home",
]
