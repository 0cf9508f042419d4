"""Spans by OpenTelemetry, made when their work is over."""

from __future__ import annotations

import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from ptkstore.adapters.tracing.allowed import Value, attributes, is_step, span_name
from ptkstore.domain.jobs import Job, JobKind, next_tick
from ptkstore.errors import PtkStoreError
from ptkstore.ports.tracing import JobSeen, RequestSeen, carried, carrying

SEND_EVERY_SECONDS = 5.0
SEND_WITHIN_SECONDS = 10.0
MOST_WAITING = 4096  # spans beyond these are dropped, never waited for
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-01")
# These neither open rows nor delete their files. All others end on ticks here, as they do in the log (ADR 4).
_TIMED = frozenset(
    {
        JobKind.ALLOCATE,
        JobKind.SCHEDULE,
        JobKind.PLACE,
        JobKind.FLIP,
        JobKind.NOTIFY,
        JobKind.REDELIVER,
        JobKind.ROLLBACK,
    }
)


@dataclass(frozen=True, slots=True)
class _Ids:
    """A span before it is made: what its children need to know of it."""

    trace: int
    span: int
    parent: SpanContext | None

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace:032x}-{self.span:016x}-01"


_NEXT: ContextVar[_Ids | None] = ContextVar("span", default=None)


class OtlpTraces:
    """Sends spans to a collector, in the background.

    A span of a request begins a trace: what a caller sends of its own is not taken over. Times of work that opens rows
    are whole ticks, and requests whose time tells of rows have no duration.

    Parameters
    ----------
    endpoint : str
        The collector's address for OTLP over HTTP; `/v1/traces` is added. Headers that it asks for come from
        `OTEL_EXPORTER_OTLP_HEADERS`.
    now : callable
        The clock of the service.
    tick : timedelta
        States leave on multiples of this.
    """

    def __init__(self, endpoint: str, *, now: Callable[[], datetime], tick: timedelta) -> None:
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # it logs what collectors answer
        self._now, self._tick = now, tick
        self._open: dict[str, tuple[JobSeen, list[datetime]]] = {}
        self._lock = threading.Lock()
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=SEND_WITHIN_SECONDS)
        # The environment could add anything to a resource that is not made from these alone.
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=Resource({"service.name": "ptkstore"}),
            id_generator=_Drawn(),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                exporter, max_queue_size=MOST_WAITING, schedule_delay_millis=SEND_EVERY_SECONDS * 1000
            )
        )
        self._tracer = self._provider.get_tracer("ptkstore")

    @contextmanager
    def request(self, request_id: str, method: str) -> Iterator[RequestSeen]:
        """Record a request, under a trace of its own."""
        ids, seen, begun = _new(None), RequestSeen(request_id, method), self._now()
        try:
            with carrying(ids.traceparent):
                yield seen
        finally:
            if seen.traced:
                ended = self._now()
                self._make(
                    ids,
                    f"{seen.method} {seen.route}",
                    SpanKind.SERVER,
                    (begun if seen.timed else ended, ended),
                    {
                        "http.request.method": seen.method,
                        "http.route": seen.route,
                        "http.response.status_code": seen.status,
                        "ptk.request": seen.request_id,
                        "ptk.code": seen.code,
                        "ptk.team": seen.team,
                        "ptk.token": seen.token_id,
                    },
                    failed=seen.status >= 500,
                )

    @contextmanager
    def job(self, job: Job) -> Iterator[JobSeen]:
        """Work on a job, under the trace that it carries."""
        ids, seen, begun = _new(job.trace or carried()), JobSeen(job), self._now()
        reached: list[datetime] = []
        with self._lock:
            self._open[job.id] = (seen, reached)
        self.reached("claimed", job.id)
        try:
            with carrying(ids.traceparent):
                yield seen
        except PtkStoreError as error:
            seen.code = error.code
            raise
        except Exception:
            seen.code = "internal-error"
            raise
        finally:
            with self._lock:
                self._open.pop(job.id, None)
            self._make_job(ids, seen, reached, begun)

    def reached(self, step: str, job_id: str) -> None:
        """Record a durable step of a job whose block is open."""
        with self._lock:
            if job_id in self._open:
                seen, reached = self._open[job_id]
                seen.steps.append(step)
                reached.append(self._now())

    def close(self) -> None:
        """Send the remaining spans."""
        self._provider.shutdown()

    def _make_job(self, ids: _Ids, seen: JobSeen, reached: list[datetime], begun: datetime) -> None:
        job = seen.job

        def coarse(at: datetime) -> datetime:
            return at if job.kind in _TIMED else next_tick(at, self._tick)

        self._make(
            ids,
            f"job {job.kind}",
            SpanKind.CONSUMER,
            (coarse(begun), coarse(self._now())),
            {
                "ptk.job": job.id,
                "ptk.job.kind": job.kind.value,
                "ptk.stream": job.stream,
                "ptk.ptk": job.ptk_id,
                "ptk.window": job.window_index,
                "ptk.subscription": job.subscription_id,
                "ptk.code": seen.code,
            },
            failed=seen.code is not None,
            steps=[(step, coarse(at)) for step, at in zip(seen.steps, reached, strict=True)],
        )

    def _make(
        self,
        ids: _Ids,
        name: str,
        kind: SpanKind,
        times: tuple[datetime, datetime],
        given: Mapping[str, Value | None],
        *,
        failed: bool,
        steps: list[tuple[str, datetime]] | None = None,
    ) -> None:
        token = _NEXT.set(ids)
        try:
            span = self._tracer.start_span(
                span_name(name),
                context=None if ids.parent is None else set_span_in_context(NonRecordingSpan(ids.parent)),
                kind=kind,
                attributes=attributes(given),
                start_time=_nanoseconds(times[0]),
                record_exception=False,
                set_status_on_exception=False,
            )
        finally:
            _NEXT.reset(token)
        for step, at in steps or ():
            if is_step(step):
                span.add_event(step, timestamp=_nanoseconds(at))
        if failed:
            span.set_status(Status(StatusCode.ERROR))
        span.end(_nanoseconds(times[1]))


class _Drawn(IdGenerator):
    """Gives a span the ids under which its children know it."""

    def generate_span_id(self) -> int:
        """Return that of the span which is made now."""
        ids = _NEXT.get()
        return ids.span if ids else _drawn(8)

    def generate_trace_id(self) -> int:
        """Return that of the span which is made now."""
        ids = _NEXT.get()
        return ids.trace if ids else _drawn(16)


def _new(traceparent: str | None) -> _Ids:
    match = _PARENT.fullmatch(traceparent or "")
    if match is None:
        return _Ids(_drawn(16), _drawn(8), None)
    trace, span = int(match[1], 16), int(match[2], 16)
    return _Ids(trace, _drawn(8), SpanContext(trace, span, True, TraceFlags(TraceFlags.SAMPLED)))


def _drawn(n_bytes: int) -> int:
    return int.from_bytes(secrets.token_bytes(n_bytes)) | 1  # never zero, which means none


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
