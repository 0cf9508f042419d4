"""Spans of a whole journey as a collector gets them: who asked for what, by ids, and nothing of the rows."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ptkstore.adapters.tracing.allowed import fits, is_step, span_name
from ptkstore.domain.identity import STREAM_ROLES
from ptkstore.domain.jobs import JobKind
from tests.privacy import canary
from tests.services.collector import Collector, attributes
from tests.support.api_server import Api, arrow, ingest
from tests.support.receiver import WebhookReceiver
from tests.support.world import DAY, NOW, ORIGIN, STREAM, trips

TICK = timedelta(seconds=1)
OPENS_ROWS = {"prepare", "train", "partial", "profile", "drift", "evaluate", "expire"}


@dataclass
class Journey:
    collector: Collector
    secrets: list[bytes]
    rows: pa.Table


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journey]:
    """Rows with canaries, sent, trained on, published, told to a subscriber and expired, over HTTP where it is."""
    home = tmp_path_factory.mktemp("journey")
    with (
        Collector() as collector,
        WebhookReceiver(home / "hooks.jsonl") as receiver,
        Api(home / "home", otlp_endpoint=collector.endpoint) as api,
    ):
        world = api.world
        started = time.monotonic()
        world.clock.now = lambda: NOW + timedelta(seconds=0.123457 + time.monotonic() - started)  # type: ignore[method-assign]
        world.stream(retention_windows=1)
        token = api.token(*STREAM_ROLES)
        client = api.client(token)
        world.register()
        made = client.post(
            "/v1/subscriptions", json={"ptk_id": "taxi.speed", "endpoint": receiver.endpoint("here")}
        ).json()
        receiver.trust(made["secret"])
        rows = trips(tuple(np.linspace(0.01, 0.99, 50)))
        zones = pa.array([canary.TEXT] * 50)
        rows = rows.set_column(rows.schema.get_field_index("zone"), "zone", zones)
        rows = rows.set_column(
            rows.schema.get_field_index("hour"), "hour", pa.array([canary.WHOLE] + [8] * 49)
        )
        rows = rows.set_column(
            rows.schema.get_field_index("speed"), "speed", pa.array([canary.FRACTION] + [17.328125] * 49)
        )
        ingest(client, arrow(rows)).raise_for_status()
        client.post(
            f"/v1/streams/{STREAM}/ingest", content=canary.TEXT.encode(), headers={"Content-Type": "text/x"}
        )
        client.get(f"/v1/streams/{canary.TEXT}", params={"who": canary.TEXT})
        client.post("/v1/lookups", json={"features": [canary.TEXT], "entities": [{"hour": canary.WHOLE}]})
        until = (ORIGIN + DAY).isoformat()
        client.post(f"/v1/streams/{STREAM}/close", json={"until": until}).raise_for_status()
        world.work("prepare", "allocate", "train", "place", "flip")
        deliveries = world.service.due_deliveries()
        while not receiver.accepted:
            deliveries.pass_once(0.05)
        while deliveries.pass_once(0.05):
            pass
        for day in (2, 3):
            until = (ORIGIN + day * DAY).isoformat()
            client.post(f"/v1/streams/{STREAM}/close", json={"until": until}).raise_for_status()
            world.work("prepare", "allocate", "train", "place", "flip", "expire")
        world.service.traces.close()
        yield Journey(collector, [token.encode(), made["secret"].encode()], rows)


def told(journey: Journey, name: str) -> list[Span]:
    return [span for span in journey.collector.spans if span.name == name]


@pytest.mark.long
def test_the_collector_hears_of_the_whole_chain(journey: Journey) -> None:
    kinds = {span.name for span in journey.collector.spans if span.name.startswith("job ")}
    assert {
        f"job {k}" for k in ("prepare", "allocate", "train", "place", "flip", "notify", "expire")
    } <= kinds
    assert set(journey.collector.paths) == {"/v1/traces"}
    train = told(journey, "job train")[0]
    steps = [event.name for event in train.events]
    assert [step for step in steps if step in ("claimed", "spent", "opened", "trained")] == [
        "claimed",
        "spent",
        "opened",
        "trained",
    ]
    assert attributes(train)["ptk.job"] == "train/taxi.speed/0"


def test_one_trace_leads_from_the_request_to_the_delivery(journey: Journey) -> None:
    by_trace = defaultdict(list)
    for span in journey.collector.spans:
        by_trace[span.trace_id].append(span)
    (begun, *_) = told(journey, "POST /v1/streams/{stream}/close")
    chain = by_trace[begun.trace_id]
    assert not begun.parent_span_id
    names = {span.name for span in chain}
    assert {f"job {k}" for k in ("prepare", "allocate", "train", "place", "flip", "notify")} <= names
    ids = {span.span_id for span in chain}
    assert len(ids) == len(chain)
    assert all(span.parent_span_id in ids for span in chain if span is not begun)


def test_no_row_no_secret_and_no_text_of_a_caller_leaves(journey: Journey) -> None:
    sent = journey.collector.everything
    assert canary.find(sent) == set()
    for secret in journey.secrets:
        assert secret not in sent
        assert secret.split(b"_", 2)[-1] not in sent
    numbers = {
        value for span in journey.collector.spans for value in attributes(span).values() if type(value) is int
    }
    assert numbers <= {0, 1, 2} | set(range(200, 504))  # windows and statuses: not 50, the number of rows
    assert len(journey.rows) == 50


def test_everything_that_is_told_stands_in_the_list(journey: Journey) -> None:
    for span in journey.collector.spans:
        assert span_name(span.name) == span.name
        assert all(fits(name, value) for name, value in attributes(span).items()), attributes(span)
        assert all(is_step(event.name) and not event.attributes for event in span.events)
        assert not span.status.message
        assert not span.links
        assert not span.trace_state
    (resource,) = {
        r.resource.SerializeToString() for q in journey.collector.requests for r in q.resource_spans
    }
    assert b"ptkstore" in resource
    assert len(resource) < 64  # no host, process or command line


def test_work_that_opens_rows_ends_on_ticks(journey: Journey) -> None:
    tick = TICK // timedelta(microseconds=1) * 1000
    seen = set()
    for span in journey.collector.spans:
        kind = str(attributes(span).get("ptk.job.kind"))
        if kind in OPENS_ROWS:
            seen.add(kind)
            times = [span.start_time_unix_nano, span.end_time_unix_nano]
            times += [event.time_unix_nano for event in span.events]
            assert {time % tick for time in times} == {0}
    assert seen >= {"prepare", "train", "expire"}
    assert {kind.value for kind in JobKind} >= OPENS_ROWS


def test_requests_with_rows_have_no_duration(journey: Journey) -> None:
    spans = told(journey, "POST /v1/streams/{stream}/ingest")
    assert sorted(attributes(span)["http.response.status_code"] for span in spans) == [200, 415]
    assert {span.end_time_unix_nano - span.start_time_unix_nano for span in spans} == {0}
    others = told(journey, "POST /v1/streams/{stream}/close")
    assert all(span.end_time_unix_nano > span.start_time_unix_nano for span in others)


@pytest.mark.long
def test_a_collector_that_is_away_disturbs_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Api(tmp_path / "home", otlp_endpoint="http://127.0.0.1:9") as api:
        api.world.stream()
        assert api.acting().get("/v1/streams").status_code == 200
        provider = api.world.service.traces._provider  # type: ignore[attr-defined]
        provider.force_flush()
        assert api.acting().get("/v1/streams").status_code == 200
    assert "127.0.0.1:9" not in caplog.text
