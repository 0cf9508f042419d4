"""Draws and puts over HTTP, with tickets, spam tests and a real Redis, beside the same pairs straight at that Redis."""

import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
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
CONNECTIONS = 16
SECONDS = 6.0
TICKETS = 24_000
STREAM, PTK = "phones", "mail.phishy"
SCHEMA = Schema((("at", ColumnType.TIMESTAMP), ("c", ColumnType.STRING), ("spam", ColumnType.BOOL)), "at")
LOAD = Path(__file__).with_name("draw_discard_load.py")


@contextmanager
def serving(n_weights: int, k: int) -> Iterator[tuple[Service, list[int]]]:
    """A home with a PTK of so many weights and instances, its Redis, and processes of the API on these ports."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = Settings(home=home / "home", device_reports_per_second=0.0)
        service = Service(settings)
        stack.callback(service.close)
        service.create_stream(Stream(STREAM, "mail", SCHEMA, device_policy()))
        features = {"c": {"hash_buckets": n_weights - 1}}
        service.register_ptk(
            team="mail",
            name="phishy",
            stream=STREAM,
            estimator=phishy(features=features, k=k),
            train_frequency="1d",
        )
        stack.enter_context(ForgetfulRedisServer(settings.root))
        ports = [free_port() for _ in range(API_PROCESSES)]
        for port in ports:
            command = [sys.executable, "-m", "ptkstore.api", "--port", str(port)]
            process = subprocess.Popen(command, env=environment(settings), stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        for port in ports:
            until(partial(answers, port), seconds=120)
        yield service, ports


def answers(port: int) -> bool:
    try:
        return status(port, "GET", "/healthz") == 200
    except OSError:
        return False


def status(port: int, method: str, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60.0)
    connection.request(method, path, headers=headers)
    return connection.getresponse().status


def straight(service: Service, epoch: str, k: int) -> float:
    """Pairs a second of one client that gets a random instance and writes it over another one."""
    key, places = instances_key(PTK, epoch), np.random.default_rng(0).integers(k, size=4096)
    with redis.Redis.from_url(service.devices_redis_url) as client:
        begun, pairs = time.perf_counter(), 0
        while time.perf_counter() - begun < SECONDS / 2:
            instance: Any = client.hget(key, str(places[pairs % 4096]))
            client.hset(key, str(places[(pairs + 1) % 4096]), instance)
            pairs += 1
        return pairs / (time.perf_counter() - begun)


def over_http(n_weights: int, k: int) -> tuple[float, float, float]:
    """Pairs a second over HTTP, their 99th percentile in milliseconds, and pairs a second straight at Redis."""
    with serving(n_weights, k) as (service, ports), tempfile.TemporaryDirectory() as folder:
        tickets = [
            one
            for _ in range(TICKETS // 1000)
            for one in service.devices.issue_tickets(STREAM, PTK, 1000, gateway="app").tickets
        ]
        for port in ports:  # the first request loads what later ones have
            assert status(port, "POST", "/v1/device/draw", Authorization=f"Ticket {tickets.pop()}") == 200
        plan = Path(folder) / "plan.json"
        plan.write_text(
            json.dumps(
                {
                    "ports": ports,
                    "connections": CONNECTIONS,
                    "tickets": tickets,
                    "n_bytes": 4 * n_weights,
                    "seconds": SECONDS,
                }
            )
        )
        done = subprocess.run([sys.executable, str(LOAD), str(plan)], capture_output=True, check=True)
        seen = json.loads(done.stdout)
        epoch = service.instances.epoch(PTK)
        assert epoch is not None
        at_redis = straight(service, epoch.id, k)
    latencies = np.array(seen["latencies"])
    return seen["pairs"] / seen["seconds"], float(np.quantile(latencies, 0.99)) * 1e3, at_redis


def rows() -> list[Row]:
    """Draws and puts of a small and a large model, and of few and many instances."""
    found: list[Row] = []
    by_k: dict[int, float] = {}
    for n_weights, k, rate, milliseconds, share in (
        (387, 20, 2000.0, 50.0, 0.2),
        (50_000, 20, 300.0, 100.0, 0.1),
    ):
        pairs, slowest, at_redis = over_http(n_weights, k)
        name = f"service-{n_weights}"
        found += [
            measured(
                f"{name}-pairs",
                f"draws and puts of {n_weights} weights over HTTP, {API_PROCESSES} processes of the API",
                unit="pairs/s",
                ours=pairs,
                goal=rate,
                direction="max",
            ),
            measured(
                f"{name}-p99",
                "99th percentile of a draw and its put",
                unit="ms",
                ours=slowest,
                goal=milliseconds,
                direction="min",
            ),
            measured(
                f"{name}-share",
                "share of the same pairs straight at Redis",
                unit="pairs/s",
                ours=pairs,
                theirs=at_redis,
                against="one client of Redis",
                judged=pairs / at_redis,
                goal=share,
                direction="max",
            ),
        ]
    for k in (5, 50):
        by_k[k] = over_http(387, k)[0]
    found.append(
        measured(
            "service-instances",
            "draws and puts with 5 instances, against 50",
            unit="pairs/s",
            ours=by_k[5],
            theirs=by_k[50],
            against="50 instances",
            judged=abs(by_k[5] / by_k[50] - 1),
            goal=0.15,
            direction="min",
        )
    )
    return found
