"""The whole chain in one process, on real adapters, with a clock to move and faults at chosen steps.

Everything is the service's own but two things: time is moved by hand, and trainings and preparations run the very
code of their process in this one, which saves a second or two each. A kill is an exception that nobody catches (the
service catches `PtkStoreError`); a stall lets others do all that is due before the stalled one goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ptkstore.adapters.keys import AesGcmSealer, split_hash
from ptkstore.adapters.objects import FsspecRawZone, FsspecStaging
from ptkstore.adapters.sandbox.child.compare import compare, release
from ptkstore.adapters.sandbox.child.evaluate import evaluate
from ptkstore.adapters.sandbox.child.prepare import prepare
from ptkstore.adapters.sandbox.child.profile import has_drifted, profile
from ptkstore.adapters.sandbox.child.train import collect, train
from ptkstore.domain.evaluations import RiskMass
from ptkstore.domain.jobs import JobState
from ptkstore.domain.ptks.profiles import Point as Answer
from ptkstore.domain.versions.versions import Draft
from ptkstore.errors import PtkStoreError
from ptkstore.ports.features import FeatureStore
from ptkstore.ports.row_processes import (
    CollectRequest,
    Compared,
    CompareRequest,
    DriftRequest,
    EvaluateRequest,
    NoisyLosses,
    PrepareRequest,
    ProfileRequest,
    ReleaseRequest,
    RunFailed,
    TrainRequest,
)
from ptkstore.sdk import Store
from ptkstore.settings import Settings
from ptkstore.wiring import Service
from tests.faults import scenario
from tests.faults.checker import Evidence, Fault, Subscriber, check
from tests.faults.steps import Point, kind_of
from tests.support.local import local
from tests.support.receiver import WebhookReceiver

LEASE = timedelta(seconds=2)
LONGEST_RUN = 10_000  # jobs; a chain that needs more goes round in circles


class Killed(BaseException):
    """The process is gone: nothing of the service may catch this."""


class HandClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime.now(UTC)

    def now(self) -> datetime:
        return self._now

    def move(self, by: timedelta) -> None:
        self._now += by


class Quiet:
    """Steps nobody looks at."""

    def reached(self, step: str, job_id: str) -> None:
        pass


class Striking:
    """Does something at the n-th time that a point is reached."""

    def __init__(self, at: Point, act: Callable[[], None], *, time: int = 1) -> None:
        self._at, self._act, self._left = at, act, time
        self.struck = False

    def reached(self, step: str, job_id: str) -> None:
        if (kind_of(job_id), step) != (self._at.kind, self._at.step) or self.struck:
            return
        self._left -= 1
        if not self._left:
            self.struck = True
            self._act()


class SameProcess:
    """What the process that opens rows runs, run here."""

    def __init__(self, settings: Settings) -> None:
        self._raw = FsspecRawZone(settings.raw, AesGcmSealer())
        self._staging = FsspecStaging(settings.raw, AesGcmSealer())

    def train(self, request: TrainRequest, keep_alive: Callable[[], None]) -> Draft | RunFailed:
        keep_alive()
        return train(request, self._raw, self._staging)

    def collect(self, request: CollectRequest, keep_alive: Callable[[], None]) -> RunFailed | None:
        keep_alive()
        collect(request, self._raw, self._staging)
        return None

    def prepare(self, request: PrepareRequest, keep_alive: Callable[[], None]) -> None:
        keep_alive()
        prepare(request, self._raw, split_hash)

    def profile(
        self, request: ProfileRequest, keep_alive: Callable[[], None]
    ) -> tuple[Answer, ...] | RunFailed:
        keep_alive()
        return profile(request, self._raw)

    def evaluate(self, request: EvaluateRequest, keep_alive: Callable[[], None]) -> RiskMass | RunFailed:
        keep_alive()
        return evaluate(request, self._raw)

    def compare(self, request: CompareRequest, keep_alive: Callable[[], None]) -> Compared | RunFailed:
        keep_alive()
        return compare(request, self._raw, AesGcmSealer())

    def release(self, request: ReleaseRequest, keep_alive: Callable[[], None]) -> NoisyLosses | RunFailed:
        keep_alive()
        return release(request, self._raw)

    def has_drifted(self, request: DriftRequest, keep_alive: Callable[[], None]) -> bool | RunFailed:
        keep_alive()
        return has_drifted(request, self._raw)


class Rig:
    """A home, its workers and its subscribers."""

    def __init__(
        self,
        home: Path,
        receiver: WebhookReceiver,
        *,
        database_url: str | None = None,
        features: FeatureStore | None = None,
        rows_per_partial: int = 1_000,
        **settings: Any,
    ) -> None:
        self._features = features
        self.settings = Settings(
            home=home,
            database_url=database_url,
            webhook_networks=("127.0.0.0/8",),
            lease_seconds=LEASE.total_seconds(),
            publish_tick_seconds=0.05,
            rows_per_partial=rows_per_partial,
            **{"online_store": "sqlite", **settings},
        )
        self.clock = HandClock()
        self.receiver = receiver
        self.subscribers: list[Subscriber] = []
        self.services: list[Service] = []
        self.store = Store(self.service())

    def service(self, steps: Striking | Quiet | None = None) -> Service:
        """One more worker."""
        service = Service(self.settings, clock=self.clock, steps=steps or Quiet())
        here = SameProcess(self.settings)
        service.__dict__.update(trainer=here, preparer=here, profiler=here, evaluator=here, comparer=here)
        if self._features is not None:
            service.__dict__["features"] = self._features
        self.services.append(service)
        return service

    def subscribe(self, ptk_id: str, name: str) -> None:
        """A subscriber with a path of its own."""
        subscribed = self.store.subscribe_to_ptk(ptk_id, self.receiver.endpoint(name))
        self.receiver.trust(subscribed.secret)
        self.subscribers.append(scenario.subscriber(name, ptk_id))

    def close(self, window: int, n: int = 200) -> None:
        """Rows of a window come in, and it closes."""
        self.store.ingest(scenario.STREAM, scenario.rows(window, n=n), f"day {window}")
        self.store.close_windows(scenario.STREAM, scenario.end_of(window))

    def work(self, service: Service) -> None:
        """Do all there is to do, moving the clock over waits and lost leases."""
        for _ in range(LONGEST_RUN):
            due = service.due()
            for job_id in due:
                try:
                    service.work_on(job_id)
                except PtkStoreError:
                    continue  # as the task does: the job is put off or in other hands
            if not due:
                if not self.unfinished():
                    return
                self.clock.move(timedelta(seconds=1))
        raise AssertionError(f"the chain does not end: {self.unfinished()}")

    def unfinished(self) -> list[str]:
        """Jobs that are neither over nor idle."""
        with local(self.store).begin() as uow:
            return [
                job.id
                for job in uow.jobs.find(stream=scenario.STREAM)
                if job.state not in (JobState.ENDED, JobState.IDLE)
            ]

    def work_struck(self, at: Point, mode: str, *, time: int = 1) -> bool:
        """Work with one fault; whether it struck. Afterwards everything is done."""

        def kill() -> None:
            raise Killed

        def stall() -> None:
            self.clock.move(2 * LEASE)
            self.work(self.service())

        strike = Striking(at, kill if mode == "kill" else stall, time=time)
        try:
            self.work(self.service(strike))
        except Killed:
            self.clock.move(2 * LEASE)
        self.work(self.service())
        return strike.struck

    @property
    def evidence(self) -> Evidence:
        return Evidence(
            Path(self.settings.lake), self.receiver.log, self.settings.catalog_url, tuple(self.subscribers)
        )

    def faults(self) -> list[Fault]:
        """What the checker finds, once nothing is left to do."""
        return check(self.evidence, settled=True)


@contextmanager
def rig(
    home: Path,
    *,
    database_url: str | None = None,
    features: FeatureStore | None = None,
    rows_per_partial: int = 1_000,
    **settings: Any,
) -> Iterator[Rig]:
    """A rig with its receiver; `features` stands in for Feast where a test is not about it."""
    with WebhookReceiver(home.with_name(f"{home.name}.jsonl")) as receiver:
        made = Rig(
            home,
            receiver,
            database_url=database_url,
            features=features,
            rows_per_partial=rows_per_partial,
            **settings,
        )
        try:
            yield made
        finally:
            for service in made.services:
                service.close()
