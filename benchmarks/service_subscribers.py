"""Ten thousand subscribers told of a version: the relay's own process, real HTTP, SQLite and PostgreSQL.

The receiver is a process of its own on this machine: it answers 204 and remembers each call. Processor time is that of
the relay and of the flip, the receiver's is shown apart.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from benchmarks.measuring import Row, measured
from ptklib.canonical_json import canonical_json
from ptkstore.adapters.processes import RedisServer
from ptkstore.application.delivery.subscribe import new_secret
from ptkstore.cli.service.machine import environment
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import Job, JobKind, JobState, cursor, job_id
from ptkstore.domain.streams.policies import Closing, Policy
from ptkstore.domain.streams.schemas import ColumnType, Schema
from ptkstore.domain.streams.streams import Stream
from ptkstore.domain.subscriptions import Subscription
from ptkstore.domain.versions.versions import Version
from ptkstore.settings import Settings
from ptkstore.wiring import Service

SUBSCRIBERS = 10_000
HANGING = 200
GOAL_SECONDS = 60.0
PATIENCE_SECONDS = 900.0
PTK, STREAM = "bench.counts", "bench"
START = datetime(2026, 1, 5, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[1]
RECEIVER = """
import asyncio, collections, json, os, sys
heard = collections.Counter()
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            lines = head.split(b"\\r\\n")
            path = lines[0].split(b" ")[1].decode()
            fields = dict(line.lower().split(b": ", 1) for line in lines[1:] if b": " in line)
            await reader.readexactly(int(fields.get(b"content-length", b"0")))
            if path == "/heard":
                body = json.dumps({"calls": sum(heard.values()), "endpoints": len(heard),
                                   "cpu": sum(os.times()[:2])}).encode()
                writer.write(b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(body) + body)
                continue
            if path.startswith("/hang"):
                await asyncio.sleep(3600)
            heard[path + fields[b"webhook-id"].decode()] += 1
            writer.write(b"HTTP/1.1 204 No Content\\r\\n\\r\\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


@contextmanager
def receiver() -> Iterator[int]:
    """The port of a receiver in a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE, text=True)
    if process.stdout is None:
        raise RuntimeError("the receiver has no output")
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def heard(port: int) -> dict[str, Any]:
    """What the receiver says of itself."""
    import httpx

    return dict(httpx.get(f"http://127.0.0.1:{port}/heard", timeout=60, trust_env=False).json())


def prepare(service: Service, endpoints: list[str]) -> None:
    """A PTK with one version in the lake that is not shown yet, and its subscribers."""
    schema = Schema((("at", ColumnType.TIMESTAMP), ("k", ColumnType.INT64)), "at")
    policy = Policy(Loss.capacity(1, 0), timedelta(days=1), START, closing=Closing.OPERATOR)
    service.create_stream(Stream(STREAM, "bench", schema, policy))
    estimator = {
        "family": "HistoricalStatistics",
        "params": {
            "keys": ["k"],
            "values": [],
            "domains": {"k": [0, 1]},
            "bounds": {},
            "statistics": ["count"],
        },
    }
    estimator["params"]["epsilon"] = 0.5
    service.register_ptk(
        team="bench", name="counts", stream=STREAM, estimator=estimator, target=0.5, train_frequency="1d"
    )
    window = {"index": 0, "start": START.isoformat(), "end": (START + timedelta(days=1)).isoformat()}
    manifest = {
        "ptk_id": PTK,
        "version": 1,
        "oldest_contributing_window": window,
        "newest_contributing_window": window,
        "guarantee": {"epsilon": 0.5, "delta": 0.0},
    }
    now = service.clock.now()
    with service.begin() as uow:
        made = Job("train/bench", JobKind.TRAIN, STREAM, JobState.ENDED, now, ptk_id=PTK)
        uow.jobs.add(made)
        uow.versions.add(Version(PTK, 1, made.id, "draft", 0, now, canonical_json(manifest)))
        for number, endpoint in enumerate(endpoints):
            one = Subscription(f"sub_{number:016x}", PTK, endpoint)
            uow.subscriptions.add(one)
            uow.jobs.add(cursor(JobKind.NOTIFY, STREAM, PTK, now, subscription_id=one.id))
        uow.commit()
    secret = new_secret()
    for number in range(len(endpoints)):
        service.keys.put_secret(f"sub_{number:016x}", secret)


def flip(service: Service) -> None:
    """What the flip's transaction does when the version is shown."""
    with service.begin() as uow:
        job = uow.jobs.lock(job_id(JobKind.FLIP, PTK))
        uow.jobs.save(replace(job, position=1))
        uow.deliveries.wake(PTK, service.clock.now())
        uow.commit()


def informed(database_url: str | None, *, hanging: int = 0) -> dict[str, float]:
    """Seconds until the last healthy subscriber has heard, and processor time."""
    with tempfile.TemporaryDirectory(prefix="ptk-bench-") as folder, receiver() as port:
        home = Path(folder) / "home"
        given = {} if database_url is None else {"database_url": database_url}
        settings = Settings(home=home, webhook_networks=("127.0.0.0/8",), **given)
        service = Service(settings)
        endpoints = [f"http://127.0.0.1:{port}/hook/{number}" for number in range(SUBSCRIBERS)]
        step = SUBSCRIBERS // hanging if hanging else 0
        for number in range(hanging):  # each a host of its own, among the others
            endpoints[number * step] = f"http://127.0.{1 + number // 250}.{1 + number % 250}:{port}/hang"
        prepare(service, endpoints)
        with RedisServer(home):
            relay = subprocess.Popen(
                [sys.executable, "-m", "workers.relay"],
                env={**environment(settings), "PYTHONPATH": str(ROOT)},
                stderr=subprocess.DEVNULL,
            )
            try:
                time.sleep(5.0)  # it is up; the clock runs from the flip on
                process = psutil.Process(relay.pid)
                before, own = sum(process.cpu_times()[:2]), _own_seconds()
                start = time.perf_counter()
                flip(service)
                while (found := heard(port))["endpoints"] < SUBSCRIBERS - hanging:
                    if time.perf_counter() - start > PATIENCE_SECONDS:
                        raise RuntimeError(f"only {found['endpoints']} subscribers were told")
                    time.sleep(0.25)
                seconds = time.perf_counter() - start
                flipping = _own_seconds() - own
                _settled(service, SUBSCRIBERS - hanging)
                spent = sum(process.cpu_times()[:2]) - before
            finally:
                relay.kill()
                relay.wait()
        found = heard(port)
        positions = _positions(service)
        service.close()
    return {
        "seconds": seconds,
        "cpu": spent + flipping,
        "receiver": found["cpu"],
        "lost": SUBSCRIBERS - hanging - found["endpoints"],
        "doubled": found["calls"] - found["endpoints"],
        "behind": SUBSCRIBERS - hanging - positions,
    }


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _settled(service: Service, subscribers: int) -> None:
    """Wait until the relay has written down the outcome of as many."""
    until = time.perf_counter() + PATIENCE_SECONDS
    while _positions(service) < subscribers and time.perf_counter() < until:
        time.sleep(0.25)


def _positions(service: Service) -> int:
    with service.read() as uow:
        return sum(job.position == 1 for job in uow.jobs.find(ptk_id=PTK) if job.kind is JobKind.NOTIFY)


def _rows(name: str, what: str, found: dict[str, float]) -> list[Row]:
    print(json.dumps({name: {key: round(value, 2) for key, value in found.items()}}), file=sys.stderr)
    return [
        measured(
            f"service-subscribers-{name}",
            f"10,000 subscribers told of a version, {what}",
            unit="s",
            ours=found["seconds"],
            goal=GOAL_SECONDS,
            direction="min",
        ),
        measured(
            f"service-subscribers-{name}-lost",
            f"of these lost, or not written down ({what})",
            unit="subscribers",
            ours=found["lost"] + max(found["behind"], 0),
            goal=0,
            direction="min",
        ),
        measured(
            f"service-subscribers-{name}-cpu",
            f"processor time of relay and flip ({what}); the receiver's beside it",
            unit="s",
            ours=found["cpu"],
            against="the receiver",
            theirs=found["receiver"],
            goal=80,
            direction="min",
        ),
    ]


def rows() -> list[Row]:
    """SQLite, SQLite beside 200 endpoints that hang, PostgreSQL where its package is installed."""
    found = _rows("sqlite", "SQLite", informed(None))
    found += _rows(
        "hanging", "SQLite, 200 of them never answer and do not count", informed(None, hanging=HANGING)
    )
    try:
        from tests.services.postgres import running_postgres
    except ImportError:
        return found
    with running_postgres() as server, server.fresh_database() as url:
        found += _rows("postgresql", "PostgreSQL", informed(url))
    return found


if __name__ == "__main__":
    from benchmarks.measuring import table

    print(table(rows()))
    print("load", os.getloadavg())
