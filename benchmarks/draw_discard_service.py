"""Draws and puts over HTTP, with tickets, spam tests and a real Redis, beside the same pairs straight at that Redis."""

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import redis

from benchmarks.measuring import Row, measured
from ptkstore.adapters.devices.keys import instances_key
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.cli.service.machine import environment
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.support.device_streams import device_policy, phishy
from tests.support.waiting import free_port, until

API_PROCESSES = 2
DEVICES = 8
"""At each process at once; as many as have an answer within the goal's time at the goal's rate, and a few."""

TURNS, SECONDS, REDIS_SECONDS, WARM_WITHIN_SECONDS = 5, 2.0, 1.0, 120.0
BATCH, BATCHES_PER_SECOND = 500, 20
IDLE_SHARE, IDLE_SECONDS = 0.05, 0.5
STREAM, TEAM = "phones", "mail"
SCHEMA = Schema((("at", ColumnType.TIMESTAMP), ("c", ColumnType.STRING), ("spam", ColumnType.BOOL)), "at")
LOAD = Path(__file__).with_name("draw_discard_load.py")


@dataclass(frozen=True)
class Model:
    """A PTK of so many weights and instances."""

    n_weights: int
    k: int = 20

    @property
    def name(self) -> str:
        return f"w{self.n_weights}k{self.k}"

    @property
    def ptk_id(self) -> str:
        return f"{TEAM}.{self.name}"


SMALL, LARGE, FEW, MANY = Model(387), Model(50_000), Model(387, 5), Model(387, 50)


@dataclass(frozen=True)
class Seen:
    """Pairs a second, and the sorted seconds of each."""

    rate: float
    latencies: list[float]


@dataclass(frozen=True)
class Served:
    """A home whose models are served by processes on these ports, which are idle."""

    service: Service
    ports: list[int]

    def warm_up(self, model: Model) -> None:
        """Have each process load what it needs, and read the model."""
        self.over_http(model, WARM_WITHIN_SECONDS, batches=1)

    def over_http(
        self, model: Model, seconds: float = SECONDS, *, batches: int = round(SECONDS * BATCHES_PER_SECOND)
    ) -> Seen:
        """Have devices draw and put over HTTP, as long as there are tickets."""
        issue = partial(self.service.devices.issue_tickets, STREAM, model.ptk_id, BATCH, gateway="app")
        tickets = [one for _ in range(batches) for one in issue().tickets]
        addresses = [("127.0.0.1", port) for port in self.ports]
        return seen(model, seconds, addresses=addresses, devices=DEVICES, tickets=tickets)

    def by_client(self, model: Model) -> float:
        """Return how many times a second redis-py gets an instance and writes it over the next one."""
        key = self._key(model)
        with redis.Redis(unix_socket_path=self._socket) as client:
            begun, pairs = time.perf_counter(), 0
            while (seconds := time.perf_counter() - begun) < REDIS_SECONDS:
                instance = client.hget(key, str(pairs % model.k))
                client.hset(key, str((pairs + 1) % model.k), instance)
                pairs += 1
            return pairs / seconds

    def by_sockets(self, model: Model, clients: int) -> float:
        """Return the rate of hand-written clients, which read no answer but its length."""
        return seen(
            model,
            REDIS_SECONDS,
            addresses=[self._socket],
            devices=clients,
            key=self._key(model),
            k=model.k,
        ).rate

    @property
    def _socket(self) -> str:
        return self.service.devices_redis_url.removeprefix("unix://")

    def _key(self, model: Model) -> str:
        epoch = self.service.instances.epoch(model.ptk_id)
        assert epoch is not None
        return instances_key(model.ptk_id, epoch.id)


def seen(model: Model, seconds: float, **plan: Any) -> Seen:
    """Return what a process of devices has seen."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        path.write_text(json.dumps({"n_bytes": 4 * model.n_weights, "seconds": seconds, **plan}))
        done = subprocess.run([sys.executable, str(LOAD), str(path)], capture_output=True, check=True)
    answer = json.loads(done.stdout)
    return Seen(len(answer["latencies"]) / answer["seconds"], answer["latencies"])


@contextmanager
def serving(*models: Model) -> Iterator[Served]:
    """Serve models, each of a PTK, from a home with a Redis for them."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = Settings(home=home / "home", device_reports_per_second=1e6)
        service = Service(settings)
        stack.callback(service.close)
        service.create_stream(Stream(STREAM, TEAM, SCHEMA, device_policy()))
        for model in models:
            features = {"c": {"hash_buckets": model.n_weights - 1}}
            estimator = phishy(features=features, k=model.k)
            service.register_ptk(
                team=TEAM, name=model.name, stream=STREAM, estimator=estimator, train_frequency="1d"
            )
        stack.enter_context(ForgetfulRedisServer(settings.root))
        ports = [free_port() for _ in range(API_PROCESSES)]
        processes = []
        for port in ports:
            command = [sys.executable, "-m", "ptkstore.api", "--port", str(port)]
            process = subprocess.Popen(command, env=environment(settings), stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            processes.append(psutil.Process(process.pid))
        for port in ports:
            until(partial(answers, port), seconds=120)
        for process in processes:  # Feast is opened beside: seconds of a core
            until(partial(is_idle, process), seconds=120)
        yield Served(service, ports)


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60.0)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False


def is_idle(process: psutil.Process) -> bool:
    return process.cpu_percent(IDLE_SECONDS) < 100 * IDLE_SHARE


def rows() -> list[Row]:
    """Draws and puts of a small and a large model, and of few and many instances."""
    with serving(SMALL, LARGE, FEW, MANY) as served:
        return [
            *_beside_redis(served, SMALL, rate=2_000, milliseconds=50, share=0.2),
            _by_instances(served),
            *_beside_redis(served, LARGE, rate=300, milliseconds=100, share=0.1),
        ]


def _beside_redis(
    served: Served, model: Model, *, rate: float, milliseconds: float, share: float
) -> list[Row]:
    """Measure by turns over HTTP and at Redis, after a turn that does not count."""
    served.warm_up(model)
    together = API_PROCESSES * DEVICES
    turns = [(served.over_http(model), served.by_client(model)) for _ in range(TURNS)]
    bare = [median(served.by_sockets(model, n) for _ in range(TURNS)) for n in (1, together)]
    name, pairs = f"service-{model.n_weights}", median(seen.rate for seen, _ in turns)
    latencies = np.concatenate([seen.latencies for seen, _ in turns])
    return [
        measured(
            f"{name}-pairs",
            f"draws and puts of {model.n_weights:,} weights over HTTP, {API_PROCESSES} processes of the API, "
            f"{together} devices at once",
            unit="pairs/s",
            ours=pairs,
            goal=rate,
            direction="max",
        ),
        measured(
            f"{name}-p99",
            f"99th percentile of a draw and its put, {model.n_weights:,} weights",
            unit="ms",
            ours=float(np.quantile(latencies, 0.99)) * 1e3,
            goal=milliseconds,
            direction="min",
        ),
        measured(
            f"{name}-share",
            f"share of the same pairs straight at Redis, {model.n_weights:,} weights",
            unit="pairs/s",
            ours=pairs,
            theirs=median(direct for _, direct in turns),
            against=f"redis-py; hand-written clients: one {bare[0]:,.0f}, {together} at once {bare[1]:,.0f}",
            judged=median(seen.rate / direct for seen, direct in turns),
            goal=share,
            direction="max",
        ),
    ]


def _by_instances(served: Served) -> Row:
    """Measure few and many instances by turns."""
    for model in (FEW, MANY):
        served.warm_up(model)
    turns = [(served.over_http(FEW).rate, served.over_http(MANY).rate) for _ in range(TURNS)]
    return measured(
        "service-instances",
        f"draws and puts with {FEW.k} instances, against {MANY.k}; judged: how far from equal",
        unit="pairs/s",
        ours=median(few for few, _ in turns),
        theirs=median(many for _, many in turns),
        against=f"{MANY.k} instances",
        judged=abs(median(few / many for few, many in turns) - 1),
        goal=0.15,
        direction="min",
    )
