"""What Prometheus may know: ids and public numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ptkstore.domain.jobs import JobKind

if TYPE_CHECKING:
    from ptkstore.wiring import Service

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
# How long these take tells of rows (PAPERS F6).
UNTIMED = frozenset({"/v1/streams/{stream}/ingest", "/v1/streams/{stream}/forget"})
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


def method_of(text: str) -> str:
    """A method as it may be told: what is none of HTTP's is a caller's own text."""
    return text if text in _METHODS else "other"


class Metrics:
    """The numbers of one process, and those of the catalog when asked."""

    def __init__(self, service: Service) -> None:
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
        self._registry.register(_Catalog(service))

    def saw(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        if route not in UNTIMED:
            self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)


class _Catalog(Collector):
    """Public numbers of the catalog, read when they are asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> list[Metric]:
        """Nothing: the catalog is not read before it is asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Versions, budgets and how far subscribers have heard."""
        with self._service.begin() as uow:
            streams = uow.streams.all()
            ptks = uow.ptks.find()
            positions = [
                (spec.ptk_id, job.kind, job.position)
                for spec in ptks
                for job in uow.jobs.find(ptk_id=spec.ptk_id)
                if job.kind in (JobKind.PLACE, JobKind.FLIP)
            ]
            letters = [(s.id, len(uow.subscriptions.dead_letters(s.id))) for s in uow.subscriptions.of()]
        yield _gauge("ptk_streams", "Streams.", (), [((), len(streams))])
        yield _gauge(
            "ptk_version",
            "The newest version of a PTK, in the lake and online.",
            ("ptk", "place"),
            [
                ((ptk_id, "lake" if kind is JobKind.PLACE else "online"), number)
                for ptk_id, kind, number in positions
            ],
        )
        yield _gauge(
            "ptk_dead_letters",
            "Versions that an endpoint missed.",
            ("subscription",),
            [((name,), n) for name, n in letters],
        )
        yield _gauge(
            "ptk_policy_epsilon",
            "What a block of a stream may lose.",
            ("stream",),
            [((stream.name,), stream.policy.capacity.epsilon) for stream in streams],
        )
        yield _gauge(
            "ptk_training_epsilon",
            "What one training of a PTK loses at most.",
            ("ptk", "stream"),
            [((spec.ptk_id, spec.stream), spec.loss.epsilon) for spec in ptks],
        )


def _gauge(
    name: str, meaning: str, labels: tuple[str, ...], values: list[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for names, value in values:
        family.add_metric(names, value)
    return family
