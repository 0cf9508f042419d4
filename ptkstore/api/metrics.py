"""Metrics for Prometheus: ids and public numbers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ptkstore.api.device_counts import DeviceCounts
from ptkstore.application.operations.liveness import Liveness, ProcessRole
from ptkstore.application.operations.read_numbers import StoreNumbers
from ptkstore.ports.operations import Numbers

if TYPE_CHECKING:
    from ptkstore.api.online_check import OnlineRows
    from ptkstore.wiring import Service

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# How long these take tells of rows (differences.md F6).
UNTIMED = frozenset({"/v1/streams/{stream}/ingest", "/v1/streams/{stream}/forget"})
KEPT_SECONDS = 5.0
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def method_of(text: str) -> str:
    """Return a method as it may be told: what is none of HTTP's is a caller's own text."""
    return text if text in _METHODS else "other"


class Metrics:
    """The numbers of one process, and those of the catalog when asked."""

    def __init__(self, service: Service, online: OnlineRows, devices: DeviceCounts) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "ptk_http_requests",
            "Requests by method, route and status.",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "ptk_http_request_seconds",
            "Time to the end of the answer, but for routes that handle rows.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.event_streams = Gauge(
            "ptk_http_event_streams", "Event streams that are open.", registry=self._registry
        )
        self._registry.register(_Catalog(service, online))
        self._registry.register(_Devices(devices))

    def saw(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        if route not in UNTIMED:
            self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)


class _Devices(Collector):
    """How often devices asked, which changes on multiples of a minute."""

    def __init__(self, counts: DeviceCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Return the counts until the last full minute."""
        meaning = "Requests of devices by PTK and outcome, counted until the last full minute."
        family = CounterMetricFamily("ptk_device_requests", meaning, labels=("ptk", "outcome"))
        for names, count in sorted(self._counts.shown().items()):
            family.add_metric(names, count)
        yield family


class _Catalog(Collector):
    """Public numbers of the catalog, read when they are asked for.

    How many samples there are grows with streams and PTKs, never with subscriptions, tokens, rows or requests.
    """

    def __init__(self, service: Service, online: OnlineRows) -> None:
        self._service, self._online = service, online
        self._lock = threading.Lock()
        self._metrics: tuple[Metric, ...] = ()
        self._read_at = float("-inf")

    def describe(self) -> list[Metric]:
        """Nothing: the catalog is not read before it is asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Work that waits or is late, and budget that is left. It is read anew after some seconds at the earliest."""
        with self._lock:
            if time.monotonic() - self._read_at > KEPT_SECONDS:
                self._metrics = (
                    *_of_store(self._service.numbers()),
                    *_of_liveness(self._service.liveness(), self._service.clock.now()),
                    _of_online(self._online.lost()),
                )
                self._read_at = time.monotonic()
            metrics = self._metrics
        yield from metrics


def _of_store(read: StoreNumbers) -> Iterator[Metric]:
    yield from _of_work(read.work, read.now)
    yield _gauge("ptk_streams", "Streams.", (), [((), len(read.streams))])
    in_store = [stream for stream in read.streams if not stream.policy.on_devices]
    streams = {stream.name: stream.policy.capacity.epsilon for stream in in_store}
    yield _each(streams, "stream", "ptk_policy_epsilon", "What a block of a stream may lose.", float)
    of_stream = partial(_each, read.by_stream, "stream")
    yield of_stream("ptk_blocks_active", "Blocks that may still be charged.", lambda one: one.active_blocks)
    yield of_stream(
        "ptk_budget_left_epsilon",
        "The least that any line of an active block may still lose.",
        lambda one: one.least_left_epsilon,
    )
    yield of_stream(
        "ptk_close_late_seconds",
        "How long ago the next window should have closed; 0 while it is not due, or an operator closes it.",
        lambda one: one.close_late.total_seconds(),
    )
    meanings = {
        "ptk_training_epsilon": "What one training of a PTK loses at most.",
        "ptk_report_epsilon": "What one report of a device to a PTK loses at most; no block pays for it.",
    }
    for name, meaning in meanings.items():
        averaged = name == "ptk_report_epsilon"
        losses = [((s.ptk_id, s.stream), s.loss.epsilon) for s in read.ptks if s.is_averaged == averaged]
        yield _gauge(name, meaning, ("ptk", "stream"), losses)


def _of_work(work: Numbers, now: datetime) -> Iterator[Metric]:
    of_kind, of_ptk = partial(_each, work.jobs, "kind"), partial(_each, work.outbox, "ptk")
    yield of_kind(
        "ptk_jobs_waiting", "Jobs that could be worked on now, and are not.", lambda one: one.waiting
    )
    yield of_kind(
        "ptk_jobs_oldest_seconds", "Since when the oldest of them waits.", lambda one: _since(one.oldest, now)
    )
    yield of_kind("ptk_jobs_running", "Jobs that a worker holds.", lambda one: one.running)
    yield _gauge("ptk_jobs_ended", "Jobs by how they ended.", ("kind", "outcome"), work.ended.items())
    online = "The newest version of a PTK, in the lake and online."
    yield _gauge("ptk_version", online, ("ptk", "place"), work.versions.items())
    yield of_ptk(
        "ptk_deliveries_behind",
        "Versions that are online and that subscribers are yet to hear of.",
        lambda one: one.behind,
    )
    yield of_ptk(
        "ptk_outbox_oldest_seconds",
        "How old the oldest of these versions is.",
        lambda one: _since(one.oldest, now),
    )
    yield of_ptk("ptk_dead_letters", "Versions that endpoints missed.", lambda one: one.dead_letters)
    yield of_ptk("ptk_endpoints_failing", "Endpoints whose last delivery failed.", lambda one: one.failing)
    yield of_ptk(
        "ptk_endpoints_disabled", "Endpoints that are sent nothing any more.", lambda one: one.disabled
    )


def _of_liveness(liveness: Mapping[ProcessRole, Liveness], now: datetime) -> Iterator[Metric]:
    of_role = partial(_each, {role.value: one for role, one in liveness.items()}, "role")
    yield of_role(
        "ptk_processes", "Processes that said within a minute that they live.", lambda one: one.alive
    )
    yield of_role(
        "ptk_process_silent_seconds",
        "Since when nothing was heard of any process of a role.",
        lambda one: _since(one.last, now) if one.last else None,
    )


def _of_online(lost: Collection[str]) -> Metric:
    meaning = "1 for a PTK whose newest version has no rows online any more."
    return _each(dict.fromkeys(sorted(lost), 1), "ptk", "ptk_online_rows_lost", meaning, float)


def _since(then: datetime | None, now: datetime) -> float:
    return 0.0 if then is None else max(0.0, (now - then).total_seconds())


def _each(
    items: Mapping[str, Any], label: str, name: str, meaning: str, value_of: Callable[[Any], float | None]
) -> Metric:
    """Return a gauge with one number of each item that has one."""
    values = [((key,), value_of(item)) for key, item in items.items()]
    return _gauge(name, meaning, (label,), [(names, value) for names, value in values if value is not None])


def _gauge(
    name: str, meaning: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for names, value in values:
        family.add_metric(names, value)
    return family
