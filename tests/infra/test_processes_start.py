"""Every process starts with the very command and environment of the compose file, and together they do the job.

There is no container engine here: names of hosts become addresses of real servers on loopback, and paths of the image
become directories of the test.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest

from ptkstore.adapters.processes.redis_server import redis_binary
from tests.infra.rendering import PROCESSES, SECRETS, compose
from tests.support.api_server import all_items, arrow, ingest
from tests.support.s3 import serving
from tests.support.waiting import free_port
from tests.support.world import STREAM, speed, trips

pytestmark = [pytest.mark.real, pytest.mark.long]

PATIENCE_SECONDS = 300.0


class Here:
    """What stands for the names and paths of the compose file on this machine."""

    def __init__(self, place: Path, database: str, redis_ports: Mapping[str, int], s3: str) -> None:
        self.place, self.api_port = place, free_port()
        self._texts = {
            "postgresql://ptk:pg-4711@postgres:5432/ptk": database,
            **{f"@{name}:6379": f"@127.0.0.1:{port}" for name, port in redis_ports.items()},
            "http://s3:9000": s3,
            "/var/lib/ptk": str(place / "home"),
            "0.0.0.0": "127.0.0.1",
        }
        self._port = str(self.api_port)

    def said(self, text: str) -> str:
        for theirs, ours in self._texts.items():
            text = text.replace(theirs, ours)
        return self._port if text == "8000" else text

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        own = {name: self.said(value) for name, value in service["environment"].items()}
        alive = self.place / f"alive-{time.monotonic_ns()}"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return {
            "PATH": path,
            "HOME": "/nonexistent",
            "PTK_PUBLISH_TICK_SECONDS": "0.5",
            **own,
            "PTK_ALIVE_FILE": str(alive),
        }


@contextmanager
def started(command: list[str], env: Mapping[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process group that ends with the block, asked at first."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=dict(env), stdout=output, stderr=output, cwd=log.parent, start_new_session=True
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def redis_command(service: str, port: int) -> list[str]:
    """The command of a service of the compose file, on this machine."""
    words = compose()["services"][service]["command"][-1].removeprefix("exec redis-server ")
    for name, value in SECRETS.items():
        words = words.replace(f'"${name}"', value)
    return [str(redis_binary()), *shlex.split(words), "--bind", "127.0.0.1", "--port", str(port)]


@pytest.fixture
def here(tmp_path: Path, fresh_postgres_url: str) -> Iterator[Here]:
    """Both Redis as the compose file starts them, PostgreSQL, and S3 with the buckets."""
    redis_ports = {"redis": free_port(), "devices": free_port()}
    (tmp_path / "home").mkdir()
    with ExitStack() as stack:
        for name, port in redis_ports.items():
            stack.enter_context(started(redis_command(name, port), {}, tmp_path / f"{name}.log"))
        endpoint = stack.enter_context(serving())
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=SECRETS["S3_USER"],
            aws_secret_access_key=SECRETS["S3_PASSWORD"],
        )
        for url in ("PTK_LAKE_URL", "PTK_RAW_URL"):
            bucket = compose()["services"]["api"]["environment"][url].removeprefix("s3://").partition("/")[0]
            client.create_bucket(Bucket=bucket)
        database = fresh_postgres_url.replace("postgresql+psycopg:", "postgresql:")
        yield Here(tmp_path, database, redis_ports, endpoint)


def test_the_processes_of_the_compose_file_do_the_job_together(here: Here) -> None:
    services = compose()["services"]

    def run(*words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            words,
            env=here.environment(services["catalog"]),
            cwd=here.place,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
            **more,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done

    assert "needs" in run(*services["catalog"]["command"]).stdout
    token = json.loads(run("ptk", "token", "create", "--admin", "--json").stdout)["text"]
    with ExitStack() as stack:
        alive, processes = [], {}
        for name in PROCESSES:
            for copy in range(services[name].get("deploy", {}).get("replicas", 1)):
                env = here.environment(services[name])
                log = here.place / f"{name}-{copy}.log"
                command = [here.said(word) for word in services[name]["command"]]
                processes[name, copy] = stack.enter_context(started(command, env, log))
                if name != "api":
                    alive.append(Path(env["PTK_ALIVE_FILE"]))
        client = stack.enter_context(
            httpx.Client(
                base_url=f"http://127.0.0.1:{here.api_port}",
                headers={"Authorization": f"Bearer {token}"},
                timeout=60.0,
                trust_env=False,
            )
        )

        def wait_for(condition: Any, what: str) -> None:
            until = time.monotonic() + PATIENCE_SECONDS
            while not condition():
                ended = {name: one.poll() for name, one in processes.items() if one.poll() is not None}
                words = {p.name: p.read_text()[-2000:] for p in here.place.glob("*.log")}
                assert not ended, (what, ended, words)
                assert time.monotonic() < until, (what, words)
                time.sleep(0.2)

        def parts() -> dict[str, str]:
            try:
                found: dict[str, str] = client.get("/readyz").json()["parts"]
            except httpx.TransportError:
                return {}
            return found

        wait_for(lambda: set(parts().values()) == {"ok"}, "every part to be well")
        assert set(parts()) == {
            "catalog",
            "keys",
            "lake",
            "raw",
            "redis",
            "devices",
            "online",
            "worker",
            "relay",
            "schedule",
        }
        wait_for(lambda: all(path.exists() for path in alive), "every process to touch its file")
        assert services["schedule"]["deploy"]["replicas"] == 2
        collector = {"Authorization": f"Bearer {SECRETS['PTK_METRICS_TOKEN']}"}
        assert 'ptk_processes{role="schedule"} 2.0' in client.get("/metrics", headers=collector).text

        client.post("/v1/teams", json={"name": "taxi"}).raise_for_status()
        body = {"team": "taxi", "scopes": ["producer", "developer", "consumer"]}
        own = client.post("/v1/tokens", json=body).json()["token"]
        stream = {
            "name": STREAM,
            "team": "taxi",
            "columns": {
                "at": "timestamp",
                "hour": "int64",
                "speed": "float64",
                "zone": "string",
                "long": "bool",
            },
            "time_column": "at",
            "epsilon": "1",
            "closing": "operator",
            "origin": "2026-01-05T00:00:00Z",
        }
        client.post("/v1/streams", json=stream).raise_for_status()
        client.headers["Authorization"] = f"Bearer {own}"
        ptk = {"name": "speed", "stream": STREAM, "estimator": speed(0.5), "target": 0.1}
        client.post("/v1/ptks", json=ptk).raise_for_status()
        rows = trips([hour / 24 for hour in range(24)])
        ingest(client, arrow(rows)).raise_for_status()
        until = {"until": "2026-01-06T00:00:00Z"}
        client.post(f"/v1/streams/{STREAM}/close", json=until).raise_for_status()
        wait_for(lambda: all_items(client, "/v1/ptks/taxi.speed/versions"), "the training to be published")
        asked = {"features": ["taxi__speed:speed_mean"], "entities": [{"hour": 8}]}
        wait_for(
            lambda: client.post("/v1/lookups", json=asked).status_code == 200, "the version to be online"
        )
        (row,) = client.post("/v1/lookups", json=asked).json()["results"]
        assert isinstance(row["speed_mean"], float)
    for name, process in processes.items():
        assert process.returncode in (0, -signal.SIGTERM), (name, process.returncode)
    for log in here.place.glob("*.log"):
        text = log.read_text()
        assert not [
            secret for secret in (*SECRETS.values(), token, own) if len(secret) > 6 and secret in text
        ], log.name
