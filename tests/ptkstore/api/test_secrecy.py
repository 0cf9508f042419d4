"""Nothing that was sent comes back in a problem, or stands in a log (differences.md F9)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from ptkstore.api.rows.bodies import ARROW_STREAM, NDJSON, PARQUET
from ptkstore.domain.identity import Role
from tests.support.api_server import Api, ingest, problem
from tests.support.world import STREAM, speed

CANARY = "canary4711"


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Everything that is logged anywhere, as text."""
    # the test's own client; and what no server has a handler for
    for ours in ("httpx", "httpcore", "uvicorn.access"):
        caplog.set_level(logging.CRITICAL, logger=ours)
    caplog.set_level(logging.DEBUG)  # last, as it is the level of what is captured, too
    with capture_logs() as lines:
        yield lambda: "\n".join([json.dumps(lines, default=str), caplog.text, *capfd.readouterr()])


@pytest.fixture
def client(api: Api) -> httpx.Client:
    api.world.register()
    return api.acting(*Role)


def row(**changes: Any) -> bytes:
    plain = {"at": "2026-01-05T12:00:00Z", "hour": 1, "speed": 1.5, "zone": "z", "long": True}
    return json.dumps({**plain, **changes}).encode() + b"\n"


def requests(client: httpx.Client) -> Iterator[httpx.Response]:
    """Requests that are refused, with the canary wherever a value may stand."""
    for body in (
        row(hour=CANARY),
        row(at=CANARY),
        row(**{CANARY: 1}),
        CANARY.encode(),
        row()[:-5] + CANARY.encode(),
    ):
        yield ingest(client, body, **{"Content-Type": NDJSON})
    for media_type in (ARROW_STREAM, PARQUET, CANARY):
        yield ingest(client, CANARY.encode() * 9, **{"Content-Type": media_type})
    yield client.post(f"/v1/streams/{STREAM}/forget", json={"unit": CANARY})
    yield client.post(f"/v1/streams/{STREAM}/forget", json={"unit": [CANARY]})
    yield client.post(f"/v1/streams/{STREAM}/forget", json={CANARY: CANARY})
    yield client.post("/v1/lookups", json={"features": [CANARY], "entities": [{"hour": CANARY}]})
    yield client.post("/v1/lookups", json={"features": ["a__b:c"], "entities": [{"hour": [CANARY]}]})
    yield client.post("/v1/lookups", json={"features": ["ptk_state:v"], "entities": [{"ptk": CANARY}]})
    yield client.post("/v1/teams", json={"name": CANARY.upper() + CANARY})
    yield client.post("/v1/teams", json={"name": {CANARY: CANARY}})
    yield client.post("/v1/teams", content=f'{{"name": "{CANARY}'.encode())
    yield client.post("/v1/teams", json={"name": "x"}, headers={"Idempotency-Key": f"{CANARY} x"})
    yield client.post("/v1/grants", json={"team": "a", "stream": "b", "role": CANARY})
    yield client.get("/v1/streams", params={"cursor": f"{CANARY}!"})
    yield client.get("/v1/streams", params={"limit": CANARY})
    yield client.get("/v1/streams", headers={"Authorization": f"Bearer {CANARY}"})
    yield client.get(f"/{CANARY}/{CANARY}?{CANARY}={CANARY}", headers={CANARY: CANARY})
    estimator = {**speed(), "params": {**speed()["params"], "keys": CANARY}}
    body = {"name": "x", "stream": STREAM, "estimator": estimator, "target": CANARY}
    yield client.post("/v1/ptks", json=body)
    hook = {"ptk_id": "taxi.speed", "endpoint": f"http://user:{CANARY}@10.0.0.1/{CANARY}"}
    yield client.post("/v1/subscriptions", json=hook)


def test_no_value_comes_back_in_a_problem_and_none_is_logged(client: httpx.Client, logs: Any) -> None:
    for reply in requests(client):
        problem(reply)
        assert CANARY not in reply.text.lower(), reply.text
        assert CANARY not in str(reply.headers).lower()
    told = logs()
    assert '"route": "/v1/streams/{stream}/ingest"' in told  # something was logged at all
    assert CANARY not in told.lower()


def test_names_in_paths_are_told_to_who_asks_and_not_logged(client: httpx.Client, logs: Any) -> None:
    reply = client.get(f"/v1/streams/{CANARY}")
    assert reply.json()["name"] == CANARY
    assert CANARY not in logs()


def test_an_error_that_nobody_foresaw_tells_nothing_but_where_it_came_from(
    api: Api, client: httpx.Client, logs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError(f"the row {CANARY} cannot be divided")

    monkeypatch.setattr(api.world.service, "ingest", broken)
    reply = ingest(client, row(zone=CANARY), **{"Content-Type": NDJSON})
    assert problem(reply) == (500, "internal-error")
    told = logs()
    assert CANARY not in reply.text + told
    assert "ZeroDivisionError" in told
    assert "test_secrecy.py" in told
    assert reply.json()["request_id"] in told
    entries = [e for e in api.identity.audit_log(limit=1000) if e.action == "stream.ingest"]
    assert [e.outcome for e in entries] == ["failed"]


def test_tokens_are_in_no_log(api: Api, logs: Any) -> None:
    text = api.token(Role.ADMINISTRATOR)
    client = api.client(text)
    issued = client.post("/v1/tokens", json={"team": "taxi", "scopes": ["producer"]}).json()
    assert client.get("/v1/identity").status_code == 200
    told = logs()
    for token in (text, issued["token"]):
        assert token.split("_", 2)[-1] not in told


def test_a_tracer_of_the_whole_process_is_told_nothing(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The framework would trace each request for it, with addresses and times, and texts of errors."""
    seen, tracer = InMemorySpanExporter(), TracerProvider()
    tracer.add_span_processor(SimpleSpanProcessor(seen))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: tracer)
    assert ingest(client, row(), **{"Content-Type": NDJSON}).is_success
    client.post("/v1/device/draw")
    assert [span.name for span in seen.get_finished_spans()] == []
