"""The API on a real PostgreSQL, and as the process that an operator starts."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ptkstore.cli.service.machine import running
from ptkstore.domain.identity import Role
from ptkstore.settings import Settings
from tests.support.api_server import Api, all_items, arrow, ingest, problem
from tests.support.waiting import until
from tests.support.world import STREAM, speed, trips

pytestmark = pytest.mark.long


def port_in(log: Path) -> int | None:
    """Where the server says that it serves."""
    lines = log.read_text().splitlines() if log.exists() else []
    found = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return next((one["port"] for one in found if one["event"] == "serving"), None)


@pytest.fixture
def on_postgres(tmp_path: Path, fresh_postgres_url: str) -> Iterator[Api]:
    with Api(tmp_path / "home", database_url=fresh_postgres_url) as api:
        api.world.stream()
        yield api


def test_a_day_over_http_on_postgresql(on_postgres: Api) -> None:
    api = on_postgres
    client, admin = api.acting(), api.acting(Role.ADMINISTRATOR, team="administrators")
    body = {"name": "speed", "stream": STREAM, "estimator": speed(), "target": 0.1}
    for _ in range(2):
        made = client.post("/v1/ptks", json=body, headers={"Idempotency-Key": "k"})
        assert made.json() == {"ptk_id": "taxi.speed"}
    assert ingest(client, arrow(trips([0.5])), **{"Idempotency-Key": "b"}).json()["accepted"] == 1
    closed = client.post(f"/v1/streams/{STREAM}/close", json={"until": "2026-01-06T00:00:00Z"})
    assert closed.json() == {"windows": [0]}
    api.world.work("prepare", "allocate", "train", "place", "flip")
    assert [v["version"] for v in all_items(client, "/v1/ptks/taxi.speed/versions")] == [1]
    assert client.get(f"/v1/streams/{STREAM}/ledger/verification").json()["faults"] == []
    assert problem(client.get("/v1/streams/%00")) == (404, "unknown-name")
    assert problem(client.post("/v1/ptks", json={**body, "description": "\x00"}))[1] == "invalid-request"
    actions = [e["action"] for e in all_items(admin, "/v1/audit-log", team="taxi")]
    assert actions[:2] == ["ptk.register", "ptk.register"]
    assert api.client().get("/readyz").json()["ready"] is True


def test_many_at_once_on_postgresql(on_postgres: Api) -> None:
    api = on_postgres
    client = api.acting()
    statuses: list[int] = []

    def ask(number: int) -> None:
        body = {"name": f"p{number}", "stream": STREAM, "estimator": speed(0.001), "target": 0.1}
        statuses.append(client.post("/v1/ptks", json=body).status_code)
        statuses.append(client.get("/v1/streams").status_code)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(set(statuses)) == [200, 201]
    assert len(all_items(client, "/v1/ptks", limit=5)) == 12


@pytest.mark.real
def test_features_are_looked_up_through_feast(tmp_path: Path) -> None:
    with Api(tmp_path / "home") as api:
        del api.world.service.__dict__["features"]  # Feast itself, in the place of what stands in for it
        api.world.stream(epsilon=10)
        api.world.register(epsilon=9)
        api.world.publish(0)
        client = api.acting(Role.CONSUMER)

        def ask(*features: str, **entity: int | str) -> httpx.Response:
            return client.post("/v1/lookups", json={"features": list(features), "entities": [entity]})

        newest = ask("taxi__speed:count", "taxi__speed:speed_mean", hour=1).json()["results"]
        assert set(newest[0]) == {"count", "speed_mean"}
        assert all(isinstance(value, int | float) for value in newest[0].values())
        assert ask("taxi__speed@v1:count", hour=1).json()["results"] == [{"count": newest[0]["count"]}]
        assert ask("taxi__speed:count", hour=99).json()["results"] == [{"count": None}]
        (state,) = ask("ptk_state:manifest", ptk="taxi.speed").json()["results"]
        assert "v00000001" in state["manifest"]
        for features, entity in (
            (["taxi__speed:nothing"], {"hour": 1}),
            (["taxi__speed@v9:count"], {"hour": 1}),
        ):
            assert problem(ask(*features, **entity)) == (404, "unknown-name")
        for entity in ({}, {"hour": "one"}, {"hour": 2**70}):
            assert problem(ask("taxi__speed:count", **entity))[1] == "invalid-request"


@pytest.mark.real
def test_the_process_serves_logs_in_json_and_stops_when_it_is_told_to(tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = {**os.environ, "PTK_HOME": str(home)}
    command = [str(Path(sys.executable).with_name("ptk"))]
    made = subprocess.run(
        [*command, "token", "create", "--admin", "--json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    token = json.loads(made.stdout)["text"]
    log = (tmp_path / "log").open("w+")
    process = subprocess.Popen([*command, "api", "--port", "0"], env=env, stdout=log, stderr=log)
    try:

        def serves() -> bool:
            assert process.poll() is None, (tmp_path / "log").read_text()
            return port_in(tmp_path / "log") is not None

        until(serves, seconds=300)
        url = f"http://127.0.0.1:{port_in(tmp_path / 'log')}"
        assert httpx.get(f"{url}/readyz", trust_env=False, timeout=60).status_code == 200
        headers = {"Authorization": f"Bearer {token}"}
        teams = httpx.get(f"{url}/v1/teams", headers=headers, trust_env=False, timeout=60).json()
        assert teams["items"] == [{"name": "administrators"}]
        assert "server" not in httpx.get(f"{url}/healthz", trust_env=False, timeout=60).headers
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
        log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    requests = [json.loads(line) for line in lines if line.startswith("{")]
    assert {"/readyz", "/v1/teams"} <= {one.get("route") for one in requests}
    assert not any(token[20:] in line for line in lines)
    assert all(re.fullmatch("[0-9a-f]{16}", one["request"]) for one in requests if "request" in one)


@pytest.mark.real
def test_all_processes_of_a_machine_serve_the_api_too(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    log = tmp_path / "home" / "log" / "api.log"
    with running(settings, api_port=0) as supervisor:
        until(lambda: port_in(log) is not None, seconds=300)
        url = f"http://127.0.0.1:{port_in(log)}/readyz"
        assert httpx.get(url, trust_env=False, timeout=60).status_code == 200
        names = [one.name for one in supervisor.status()]
        assert names == ["redis", "devices-redis", "worker", "relay", "schedule", "api"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False, timeout=60)
