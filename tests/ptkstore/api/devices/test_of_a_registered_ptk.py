"""A registered PTK from tickets to a version, and nothing of its devices in logs, traces, metrics, SQL or Redis."""

from __future__ import annotations

import json
import logging
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import numpy as np
import pytest
import redis
from structlog.testing import capture_logs

from ptklib.draw_discard import Specification, make_report
from ptkstore.adapters.devices import RedisInstances
from ptkstore.adapters.processes import ForgetfulRedisServer
from ptkstore.domain.identity import Role
from ptkstore.domain.streams.streams import Stream
from tests.services.collector import Collector
from tests.support.api_server import Api, problem
from tests.support.device_streams import (
    AVERAGING,
    PHONES,
    PTK,
    SCHEMA,
    device_policy,
    device_table,
    fresh_database,
    phishy,
)
from tests.support.world import DAY, ORIGIN
from workers.checkpoints import Checkpoints

ADDRESS = "127.0.4.71"
"""Of a device, and of nothing else."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture
def api(tmp_path: Path, devices_redis: ForgetfulRedisServer, collector: Collector) -> Iterator[Api]:
    url = fresh_database(devices_redis, 9)
    with Api(tmp_path / "home", devices_redis_url=url, otlp_endpoint=collector.endpoint) as api:
        api.world.service.create_stream(Stream(PHONES, "taxi", SCHEMA, device_policy()))
        api.world.service.register_ptk(
            team="taxi", name="phishy", stream=PHONES, estimator=phishy(), train_frequency="1d"
        )
        yield api


def tickets(api: Api, count: int) -> list[str]:
    gateway = api.acting(Role.DEVICE_GATEWAY)
    reply = gateway.post(f"/v1/device-streams/{PHONES}/tickets", json={"ptk": PTK, "count": count})
    assert reply.status_code == 201, reply.text
    found: list[str] = reply.json()["tickets"]
    return found


def reported(device: httpx.Client, ticket: str) -> tuple[bytes, bytes]:
    """Do what a device does; return what was drawn and what was put."""
    headers = {"Authorization": f"Ticket {ticket}", "Content-Type": "application/octet-stream"}
    told = device.get("/v1/device/specification", headers=headers).json()
    specification = Specification.from_text(told["specification"])
    assert specification.digest == told["digest"]
    drawn = device.post("/v1/device/draw", headers=headers).content
    instance = np.frombuffer(drawn, "<i4").astype(np.int32)
    report = make_report(specification, instance, device_table()).astype("<i4").tobytes()
    assert device.post("/v1/device/put", headers=headers, content=report).status_code == 204
    return drawn, report


def test_what_devices_put_is_in_the_version_of_their_window(api: Api) -> None:
    device, world = api.client(), api.world
    for ticket in tickets(api, 30):
        reported(device, ticket)
    epoch = world.service.instances.epoch(PTK)
    assert epoch is not None
    instances = world.service.instances.all(PTK, epoch.id)
    world.service.close_windows(PHONES, ORIGIN + DAY)
    world.work(*AVERAGING)
    ptk = world.service.device_ptk(PTK)
    average = instances.mean(axis=0) / 2.0**ptk.specification.grid_bits
    assert ptk.window == 1
    assert ptk.start().weights == pytest.approx(average)


def test_a_ptk_of_another_stream_or_none_has_no_tickets(api: Api) -> None:
    api.world.stream("cabs")
    api.world.register("speed", stream="cabs")
    gateway = api.acting(Role.DEVICE_GATEWAY)
    api.world.service.create_stream(Stream("tablets", "taxi", SCHEMA, device_policy()))
    told = set()
    for stream, ptk in (
        ("tablets", PTK),
        ("tablets", "taxi.speed"),
        ("tablets", "taxi.none"),
        ("tablets", "taxi.phish"),
    ):
        reply = gateway.post(f"/v1/device-streams/{stream}/tickets", json={"ptk": ptk, "count": 1})
        assert problem(reply) == (404, "unknown-name"), (stream, ptk)
        document = reply.json()
        del document["request_id"]
        told.add(json.dumps(document).replace(ptk, "-"))
    assert len(told) == 1, told  # not which there are elsewhere
    assert api.world.service.instances.epoch(PTK) is None  # begun by nobody who may not
    for stream, ptk in ((PHONES, "taxi.speed"), ("cabs", PTK), ("cabs", "taxi.speed")):
        reply = gateway.post(f"/v1/device-streams/{stream}/tickets", json={"ptk": ptk, "count": 1})
        assert problem(reply) == (404, "unknown-name"), (stream, ptk)


def test_a_ptk_that_is_deregistered_is_forgotten(api: Api) -> None:
    world, device = api.world, api.client()
    reported(device, tickets(api, 1)[0])
    written = Checkpoints(world.service, Event())
    written.pass_once()
    assert {ptk_id for ptk_id, _ in world.service.keys.checkpoints()} == {PTK}
    world.service.deregister_ptk(PTK)
    written.pass_once()
    assert world.service.keys.checkpoints() == frozenset()
    assert world.service.instances.epoch(PTK) is None


def test_one_that_is_deregistered_before_its_first_checkpoint_is_forgotten_too(api: Api) -> None:
    tickets(api, 1)
    api.world.service.deregister_ptk(PTK)
    Checkpoints(api.world.service, Event()).pass_once()
    with redis.Redis.from_url(api.world.service.settings.devices_redis_url or "") as client:
        assert client.keys("*") == []


def test_without_device_streams_no_server_of_instances_is_asked(tmp_path: Path) -> None:
    with Api(tmp_path / "other", devices_redis_url="unix:///nowhere/redis.sock") as api:
        api.world.stream()
        assert api.world.service.devices.left_over() == frozenset()


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[Any]:
    # the test's own client; and what no server has a handler for
    for ours in ("httpx", "httpcore", "uvicorn.access"):
        caplog.set_level(logging.CRITICAL, logger=ours)
    caplog.set_level(logging.DEBUG)  # last, as it is the level of what is captured, too
    with capture_logs() as lines:
        yield lambda: "\n".join([json.dumps(lines, default=str), caplog.text, *capfd.readouterr()]).encode()


def test_no_ticket_address_or_instance_is_kept_anywhere(
    api: Api, collector: Collector, logs: Any, tmp_path: Path
) -> None:
    given = tickets(api, 3)
    device = api.client(transport=httpx.HTTPTransport(local_address=ADDRESS))
    device.headers["User-Agent"] = "canary-4711"
    passed = [one for ticket in given for one in reported(device, ticket)]
    headers = {"Authorization": f"Ticket {given[0]}", "Content-Type": "application/octet-stream"}
    for _ in range(2):  # refusals too
        device.post("/v1/device/draw", headers=headers)
        device.post("/v1/device/put", headers=headers, content=passed[0][:-1])
        device.post("/v1/device/put", headers=headers, content=passed[1])
    world = api.world
    world.service.close_windows(PHONES, ORIGIN + DAY)
    world.work(*AVERAGING)
    Checkpoints(world.service, Event()).pass_once()
    instances: RedisInstances = world.service.instances
    epoch = instances.epoch(PTK)
    assert epoch is not None
    now = {row.astype("<i4").tobytes() for row in instances.all(PTK, epoch.id)}
    octets = [urlsafe_b64decode(ticket + "=" * (-len(ticket) % 4)) for ticket in given]
    secret = [
        *(ticket.encode() for ticket in given),
        *octets,
        *(one[1:17] for one in octets),
        *(one[-16:] for one in octets),
        b"canary-4711",
        ADDRESS.encode(),
    ]
    models = {*passed, *now}
    log = logs()
    assert b"/v1/device-streams/{stream}/tickets" in log  # something was logged at all
    assert b"/v1/device/" not in log
    metrics = api.app.state.metrics.text()
    world.service.traces.close()
    spans = {span.name for span in collector.spans}
    assert {"POST /v1/device-streams/{stream}/tickets", "job average"} <= spans
    assert not any("/v1/device/" in name for name in spans)
    files: dict[object, bytes] = {
        path: path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()
    }
    assert any(str(path).endswith("catalog.db") for path in files)
    with redis.Redis.from_url(world.service.settings.devices_redis_url or "") as client:
        kept = {key: client.dump(key) or b"" for key in client.keys("*")}
        raw = b"".join([*kept, *kept.values()])
    searched: dict[object, bytes] = {
        "log": log,
        "metrics": metrics,
        "redis": raw,
        "traces": collector.everything,
        **files,
    }
    for name, text in searched.items():
        for one in secret:
            assert one not in text, name
        for model in models:
            if name != "redis":
                assert model not in text, name
    in_redis = {model for key in client.keys("*:instances") for model in client.hvals(key)}
    assert in_redis == now  # nothing of before
